// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/program/sharded_program.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>

namespace graticule::models {

/// A network exported by PyTorch from one field of channels to another, on shards.
///
/// The field has the axes [batch, channels, rows, columns], or [batch, channels, 1, rows, columns] as those of CREDIT.
/// Functions of latitude are further channels, constant along rows.
class ProgramModel : public Model {
 public:
  /// @throws `Unsupported` (usage) for other inputs and outputs, `ShapeMismatch` (usage) for other channels and another
  /// grid, with all that is expected and found; what `program::Program` and `ShardedProgram` throw
  ProgramModel(ModelOptions const& options, nn::Domain const& domain);

  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) override;
  /// The program with the present weights.
  void save(std::filesystem::path const& path) const { program_->serial()->save(path); }

 private:
  torch::Tensor run(torch::Tensor const& inputs);

  bool takes_one_sample_ = false;  ///< exported for a batch of 1
  bool has_time_axis_ = false;
  program::ShardedProgram program_{nullptr};
};

}  // namespace graticule::models
