// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::training {

/// Ranks that get a state.
enum class StateOn : std::uint8_t { all_ranks, first_rank };

/// Whole parameters and buffers, under their own names, in the model's dtypes, on the host: the state of the unsharded
/// model. Collective over the shard team. @return empty on the other ranks if only the first rank is requested
/// Cost: one message of its rows from each rank to each receiving rank, one parameter after the other
[[nodiscard]] nn::NamedTensors full_state(ShardedParameters const& sharded, StateOn where = StateOn::all_ranks);

/// Loads a state as returned by `full_state`, on every rank, in any order. Collective over the shard team.
/// @throws `StateMismatch` on all ranks, with all missing and superfluous names and all different shapes; the model is
///         then unchanged
void load_full_state(ShardedParameters& sharded, nn::NamedTensors const& state);

/// The state of one rank, for this layout only: fast to save and load, without messages except for the agreement.
struct LocalState {
  int num_ranks = 1;         ///< of the shard team
  int rank = 0;              ///< rank in the shard team
  nn::NamedTensors tensors;  ///< this rank's rows of parameters, and buffers, in the order of `full_state`; copies
};
/// The state that this rank holds. Local.
[[nodiscard]] LocalState local_state(ShardedParameters const& sharded);

/// Loads the result of `local_state` from the same rank of the same number of ranks. Collective over the shard team.
/// @throws `StateMismatch` on all ranks, where the state of any rank is from another layout, rank or model; the model
///         is then unchanged
void load_local_state(ShardedParameters& sharded, LocalState const& state);

/// Adds parameters and buffers to a checkpoint, each rank its rows: one field each, as for an unsharded model, which
/// can load them, and vice versa.
///
/// Collective. @param writer an open checkpoint @param sharded the model @param prefix of the names @param comm the
/// checkpoint's ranks: shard team and replicas
/// @throws what `CheckpointWriter::add` throws
void save_model(CheckpointWriter& writer, ShardedParameters const& sharded, Comm const& comm,
                std::string const& prefix = "model");

/// Fills the rows of this rank from a checkpoint of any number of ranks. Collective over the
/// checkpoint's ranks, `comm`.
/// @throws `StateMismatch` (input) on all ranks, with all names, shapes and dtypes that do not match; the model is then
///         unchanged. What `Checkpoint::read` throws
void load_model(Comm const& comm, Checkpoint const& checkpoint, ShardedParameters& sharded,
                std::string const& prefix = "model");

namespace detail {

/// One rank's part of a parameter or buffer.
struct ShardEntry {
  std::string name;
  torch::Tensor local;              ///< rows `[first_row, first_row + local.size(0))`; shares memory with the model
  std::vector<std::int64_t> sizes;  ///< of the whole
  std::int64_t first_row = 0;
  bool whole = false;  ///< whole on every rank: buffers, and parameters of ignored modules
};
/// The tensors of this rank, in the order of `full_state`. Local.
[[nodiscard]] std::vector<ShardEntry> sharded_state(ShardedParameters const& sharded);

}  // namespace detail

}  // namespace graticule::training
