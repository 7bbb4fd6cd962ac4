// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "engine.hpp"

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

 private:
  ShardEngine* engine_;
  std::vector<int> shard_of_;  ///< by rank: the place in the shard team whose rows it writes, or -1
};

}  // namespace graticule::training::detail
