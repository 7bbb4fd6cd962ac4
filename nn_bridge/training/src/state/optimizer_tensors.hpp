// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/comm.hpp>

#include "stored_tensors.hpp"

#include <torch/torch.h>

#include <string>
#include <vector>

namespace graticule::training::detail {

/// How the tensors of an optimizer's state lie in a checkpoint: each like its parameter.
class OptimizerTensors {
 public:
  virtual ~OptimizerTensors() = default;
  /// What the optimizer holds, by names.
  [[nodiscard]] virtual nn::NamedTensors parameters() const = 0;
  /// @param name of the parameter. Collective.
  virtual void save(CheckpointWriter& writer, std::string const& field, std::string const& name,
                    torch::Tensor const& value) const = 0;
  /// The whole parameter, as the file has it. @param name of the parameter
  [[nodiscard]] virtual StoredTensor like(std::string const& name) const = 0;
  /// Collective.
  virtual void load(Checkpoint const& checkpoint, std::string const& field, std::string const& name,
                    torch::Tensor const& value) const = 0;
};

/// See `save_optimizer` and `load_optimizer`.
void save_optimizer(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer, OptimizerTensors const& tensors,
                    std::string const& prefix);
std::vector<std::string> load_optimizer(Comm const& comm, Checkpoint const& checkpoint,
                                        torch::optim::Optimizer& optimizer, OptimizerTensors const& tensors,
                                        std::string const& prefix);

}  // namespace graticule::training::detail
