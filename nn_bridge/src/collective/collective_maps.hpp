// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/linear_call.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn::detail {

/// A map between the tensors of all ranks and its adjoint, which are fresh tensors; theirs may have any strides.
using MapPointer = std::shared_ptr<LinearCall const>;

/// `apply_linear_call` with a node on every rank in grad mode.
[[nodiscard]] torch::Tensor apply_map(MapPointer const& map, torch::Tensor const& x);

/// An axis that is cut over the ranks of a communicator; counted from the last one.
struct CutAxis {
  std::int64_t axis;
  Cuts cuts;
};
using Sizes = std::vector<std::int64_t>;

/// A tensor that exists on one rank only: its sizes there, and those of the tensor that this rank has for it.
struct RootSide {
  int root;
  Sizes sizes;
  Sizes own;
};

/// The maps of `collectives.hpp`. No argument is compared among the ranks.
[[nodiscard]] MapPointer all_sum_map(Comm const& comm);
/// Sum in the forward, identity in the backward, and the reverse of it.
[[nodiscard]] MapPointer loss_sum_map(Comm const& comm);
[[nodiscard]] MapPointer copy_to_region_map(Comm const& comm);
[[nodiscard]] MapPointer broadcast_map(Comm const& comm, RootSide side);
[[nodiscard]] MapPointer sum_to_root_map(Comm const& comm, RootSide side);
[[nodiscard]] MapPointer gather_map(Comm const& comm, CutAxis cut);
[[nodiscard]] MapPointer shared_gather_map(Comm const& comm, CutAxis cut);  ///< its consumers are replicated
[[nodiscard]] MapPointer scatter_map(Comm const& comm, CutAxis cut);
[[nodiscard]] MapPointer reduce_scatter_map(Comm const& comm, CutAxis cut);
[[nodiscard]] MapPointer all_to_all_map(Comm const& comm, CutAxis split, CutAxis join);
[[nodiscard]] MapPointer gather_to_root_map(Comm const& comm, CutAxis cut, RootSide side);
[[nodiscard]] MapPointer scatter_from_root_map(Comm const& comm, CutAxis cut, RootSide side);

}  // namespace graticule::nn::detail
