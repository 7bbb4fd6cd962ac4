// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <string>
#include <vector>

namespace graticule::training::detail {

/// All differences, for one error.
using Differences = std::vector<std::string>;

/// @throws `rule`, if there is a difference; beyond 8, differences are only counted @param head of the text
void refuse_differences(Fault fault, std::string const& rule, Differences const& differences,
                        std::string const& head = "");

/// A tensor as a checkpoint should have it. @pre `sizes` belongs to a tensor that outlives this
struct StoredTensor {
  std::string name;
  torch::ScalarType type;
  torch::IntArrayRef sizes;
};

/// Adds a difference unless a field has this type and these sizes.
void compare(CheckpointField const& field, StoredTensor const& wanted, Differences& differences);
/// Whether the fields below `prefix/` are those of a model. @throws `StateMismatch` (input)
void require_fields(Checkpoint const& checkpoint, std::string const& prefix, std::vector<StoredTensor> const& model);

/// Names of all fields below `prefix/`, without it.
[[nodiscard]] std::vector<std::string> names_below(Checkpoint const& checkpoint, std::string const& prefix);

/// The values in host memory, without gaps.
[[nodiscard]] torch::Tensor on_host(torch::Tensor const& tensor);
/// One whole field. Collective; same tensor on all ranks.
void save_tensor(CheckpointWriter& writer, std::string const& name, torch::Tensor const& tensor);
/// @param type of the field
void load_tensor(Checkpoint const& checkpoint, std::string const& name, torch::Tensor const& tensor,
                 torch::ScalarType type);

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
