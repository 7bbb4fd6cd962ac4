// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "sharded/engine.hpp"

#include <torch/torch.h>

#include <string>
#include <vector>

namespace graticule::training::detail {

/// Tensors that are cut like parameters, as fields of checkpoints: whole in the file, rows in memory.
class CutFields {
 public:
  /// Collective over `comm`, that of the checkpoint. Of ranks with the same rows, the first writes.
  CutFields(ShardEngine& engine, Comm const& comm);

  /// Collective. @param local this rank's rows of something cut like `parameter`
  void save(CheckpointWriter& writer, std::string const& name, ShardedParameter const& parameter,
            torch::Tensor const& local) const;
  /// Collective. Fills `local`.
  void load(Checkpoint const& checkpoint, std::string const& name, ShardedParameter const& parameter,
            torch::Tensor const& local) const;
  /// The same for a tensor that every rank has whole.
  static void save_whole(CheckpointWriter& writer, std::string const& name, torch::Tensor const& tensor);
  /// @param type in the file
  static void load_whole(Checkpoint const& checkpoint, std::string const& name, torch::Tensor const& tensor,
                         torch::ScalarType type);

 private:
  ShardEngine* engine_;
  std::vector<int> shard_of_;  ///< by rank: the place in the shard team whose rows it writes, or -1
};

/// `name is f64 [3, 4] in FILE and f32 [3, 4] here`, when it is so; else nothing.
[[nodiscard]] std::string difference(Checkpoint const& checkpoint, std::string const& field, torch::ScalarType type,
                                     torch::IntArrayRef sizes);
/// @throws `rule` with all differences, if there are any
void refuse_differences(Fault fault, std::string const& rule, std::vector<std::string> const& differences);

}  // namespace graticule::training::detail
