// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/sharded_parameters.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::training {

/// Which ranks get a state.
enum class StateOn : std::uint8_t { all_ranks, first_rank };

/// Parameters and buffers whole, under their own names, in the model's own dtypes, on the host: what the uncut model would
/// have. Collective over the shard team. @return nothing on other ranks than the first where only that is asked for
/// Cost: a message of its rows from each rank to each that gets them, one parameter after the other
[[nodiscard]] nn::NamedTensors full_state(ShardedParameters const& sharded, StateOn where = StateOn::all_ranks);

/// Takes a state such as `full_state` gives, on every rank; their order does not matter. Collective over the shard team.
/// @throws `StateMismatch` on all ranks, with all names that are missing or too many and all other shapes; the model is left
///         as it was
void load_full_state(ShardedParameters& sharded, nn::NamedTensors const& state);

/// One rank's part of a parameter or buffer.
struct ShardEntry {
  std::string name;
  torch::Tensor local;              ///< rows `[first_row, first_row + local.size(0))`; shares memory with the model
  std::vector<std::int64_t> sizes;  ///< of the whole
  std::int64_t first_row = 0;
  bool whole = false;  ///< every rank has all of it: buffers, and parameters of ignored modules
};
/// What this rank holds, in the order of `full_state`. Asks no other rank.
[[nodiscard]] std::vector<ShardEntry> sharded_state(ShardedParameters const& sharded);

/// What one rank holds, for this layout only: quickly taken and given back, without a message but for the agreement.
struct LocalState {
  int num_ranks = 1;         ///< of the shard team
  int rank = 0;              ///< this one's place in it
  nn::NamedTensors tensors;  ///< this rank's rows of parameters, and buffers, in the order of `full_state`; copies
};
[[nodiscard]] LocalState local_state(ShardedParameters const& sharded);

/// Takes what `local_state` gave on the same rank of as many. Collective over the shard team.
/// @throws `StateMismatch` on all ranks, where one's is of another layout, rank or model; the model is left as it was
void load_local_state(ShardedParameters& sharded, LocalState const& state);

/// Adds parameters and buffers to a checkpoint, each rank its rows: one field each, as an uncut model is saved, for which
/// they can be loaded, and the other way round.
///
/// Collective. @param comm the checkpoint's ranks: shard team and replicas
/// @throws what `CheckpointWriter::add` throws
void save_model(CheckpointWriter& writer, ShardedParameters const& sharded, Comm const& comm,
                std::string const& prefix = "model");

/// Fills the rows of this rank, whatever number of ranks has saved them. Collective.
/// @param comm the checkpoint's ranks
/// @throws `ModelMismatch` (input) on all ranks, with all names, shapes and dtypes that do not fit; the model is left as it
///         was. What `Checkpoint::read` throws
void load_model(Comm const& comm, Checkpoint const& checkpoint, ShardedParameters& sharded,
                std::string const& prefix = "model");

}  // namespace graticule::training
