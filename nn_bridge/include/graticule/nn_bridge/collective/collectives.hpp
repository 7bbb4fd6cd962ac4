// SPDX-License-Identifier: BSD-3-Clause
// Collective operations with exact adjoints, as functions on a communicator and as modules on a domain.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/detail/linear_call.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace graticule::nn {

/// How the ranks use a tensor that all of them hold. This determines the meaning of its cotangents.
enum class Consumer : std::uint8_t {
  replicated,  ///< all ranks compute the same from it: every rank has the whole cotangent
  distinct,    ///< each rank computes something else: the cotangents are partial and must be summed
};

// Functions. All are collective, forward and backward, and differentiable to any order. They accept every dtype that
// can be added (16-bit types are added in f32) and any strides, and return new tensors. Cuts may be uneven, with empty
// parts; part r belongs to rank r. Sums are bitwise equal on all ranks.
//
// In grad mode the result has a node on every rank, even if this rank's `x` requires no gradient, because the backward
// needs all ranks. Either the results of all ranks must reach the loss, or none. (Modules ensure this themselves.) All
// throw `StructureDisagreement` on all ranks if the function, its arguments, dtype, grad mode or an uncut extent differ
// among ranks, and `BadAxis`. Cost: one small all-reduce in addition to the messages stated.

/// Sum over all ranks, on all ranks. Self-adjoint, because each rank's cotangent is a part of the whole one. For
/// statistics and global constraints; a loss ends with `reduce_loss` instead. Cost: one all-reduce each way.
[[nodiscard]] torch::Tensor all_sum(torch::Tensor const& x, Comm const& comm);

/// Returns `x`, equal on all ranks, for different computations on each. Adjoint: the sum of all ranks' cotangents.
[[nodiscard]] torch::Tensor copy_to_region(torch::Tensor const& x, Comm const& comm);

/// Rank `root`'s `x` on all ranks. Adjoint: `sum_to_root`, zero on the others. Except on the root, `x` may be undefined
/// or of any sizes and dtype. Cost: one broadcast. @throws `OutOfRange`
[[nodiscard]] torch::Tensor broadcast(torch::Tensor const& x, int root, Comm const& comm);

/// Sum over all ranks on rank `root`; an empty tensor of sizes {0} on the others. Adjoint: `broadcast`.
/// Cost: one all-reduce; one broadcast in the backward. @throws `OutOfRange`
[[nodiscard]] torch::Tensor sum_to_root(torch::Tensor const& x, int root, Comm const& comm);

/// All ranks' parts, concatenated along `axis` in order of ranks, on all ranks.
/// Adjoint: `reduce_scatter` of the cotangents for `distinct` consumers, this rank's slice for `replicated` ones.
/// Example: parts of 3 and 2 rows on 2 ranks give both ranks 5 rows.
/// Cost: one message to and from each rank; in the backward the same for `distinct`, none for `replicated`
[[nodiscard]] torch::Tensor gather(torch::Tensor const& x, std::int64_t axis, Comm const& comm, Consumer consumer);

/// This rank's part of `x`, which is equal on all ranks. Adjoint: `gather` of the parts' cotangents.
/// @throws `BadCuts` unless `cuts` cut the axis into one part per rank
[[nodiscard]] torch::Tensor scatter(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, Comm const& comm);

/// This rank's part of the sum of all ranks' `x`, added in order of ranks. Adjoint: `gather` to distinct consumers.
/// Cost: one message to and from each rank; memory for one part from each. @throws `BadCuts`
[[nodiscard]] torch::Tensor reduce_scatter(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts,
                                           Comm const& comm);

/// Redistributes parts along `join_axis` to parts along `split_axis`, which is whole in each rank's `x`. Adjoint: the
/// reverse.
/// Example: 6 x 4 cells on 2 ranks, split 1, join 0, cuts {1, 3}: rank 1 passes 3 x 4 and receives 6 x 3.
/// Cost: one message to and from each rank. @throws `BadCuts`
[[nodiscard]] torch::Tensor all_to_all(torch::Tensor const& x, std::int64_t split_axis, std::int64_t join_axis,
                                       Cuts const& split_cuts, Comm const& comm);

/// All ranks' parts, concatenated along `axis`, on rank `root`; an empty tensor of sizes {0} on the others.
/// Adjoint: `scatter_from_root`. Cost: one message from each rank except the root. @throws `OutOfRange`
[[nodiscard]] torch::Tensor gather_to_root(torch::Tensor const& x, std::int64_t axis, int root, Comm const& comm);

/// This rank's part of rank `root`'s `x`. Adjoint: `gather_to_root`, zero on the others. Except on the root, `x` may be
/// undefined or of any sizes and dtype. Cost: one message to each rank except the root. @throws `OutOfRange`,
/// `BadCuts`
[[nodiscard]] torch::Tensor scatter_from_root(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, int root,
                                              Comm const& comm);

// Modules: the module form of a function, over the ranks of a domain in order of ranks. A module performs the checks of
// all layers in one small all-reduce, keeps its set-ups, and connects its result to every loss that uses it on any
// rank. `forward(x)` is collective and throws `StructureDisagreement`, `CallDisagreement`, on all ranks alike.

namespace detail {

/// Definition of a collective's module: its name, the cut axes of its input, and its map for a layout.
struct CollectiveOptions {
  std::string name;
  Sharding sharding;
  std::function<void(torch::Tensor const&)> check;
  std::function<std::shared_ptr<LinearCall const>(torch::Tensor const&, Layout const&)> make;
};

/// Agreement, set-ups and forward of such a module.
class CollectiveLayer : public LayerState<LinearCall> {
 public:
  CollectiveLayer(Domain const& domain, CollectiveOptions options);
  torch::Tensor forward(torch::Tensor const& x);

 private:
  CollectiveOptions options_;
};

/// Common part of the modules.
template <class Derived>
class CollectiveModule : public StatefulModule<Derived, CollectiveLayer> {
 public:
  /// Collective; shapes and gradient are those of the function.
  torch::Tensor forward(torch::Tensor const& x) { return this->state().forward(x); }

 protected:
  CollectiveModule(CollectiveOptions options, Domain const& domain)
      : StatefulModule<Derived, CollectiveLayer>(domain, state_maker<CollectiveLayer>(std::move(options))) {}
};

}  // namespace detail

/// Module form of `all_sum`.
struct AllSumImpl : detail::CollectiveModule<AllSumImpl> {
  explicit AllSumImpl(Domain const& domain);
};
TORCH_MODULE(AllSum);

/// Module form of `copy_to_region`.
struct CopyToRegionImpl : detail::CollectiveModule<CopyToRegionImpl> {
  explicit CopyToRegionImpl(Domain const& domain);
};
TORCH_MODULE(CopyToRegion);

/// Module form of `broadcast`; the ranks' tensors must have equal sizes.
struct BroadcastImpl : detail::CollectiveModule<BroadcastImpl> {
  BroadcastImpl(int root, Domain const& domain);
};
TORCH_MODULE(Broadcast);

/// Module form of `sum_to_root`.
struct SumToRootImpl : detail::CollectiveModule<SumToRootImpl> {
  SumToRootImpl(int root, Domain const& domain);
};
TORCH_MODULE(SumToRoot);

/// Module form of `gather`. Modules count axes from the last, -1, -2, ... (otherwise `BadAxis`).
struct GatherImpl : detail::CollectiveModule<GatherImpl> {
  GatherImpl(std::int64_t axis, Consumer consumer, Domain const& domain);
};
TORCH_MODULE(Gather);

/// Module form of `scatter`; the cuts are balanced unless given.
struct ScatterImpl : detail::CollectiveModule<ScatterImpl> {
  ScatterImpl(std::int64_t axis, Domain const& domain, std::optional<Cuts> cuts = {});
};
TORCH_MODULE(Scatter);

/// Module form of `reduce_scatter`; the cuts are balanced unless given.
struct ReduceScatterImpl : detail::CollectiveModule<ReduceScatterImpl> {
  ReduceScatterImpl(std::int64_t axis, Domain const& domain, std::optional<Cuts> cuts = {});
};
TORCH_MODULE(ReduceScatter);

/// Module form of `all_to_all`; the cuts are balanced unless given.
struct AllToAllImpl : detail::CollectiveModule<AllToAllImpl> {
  AllToAllImpl(std::int64_t split_axis, std::int64_t join_axis, Domain const& domain, std::optional<Cuts> cuts = {});
};
TORCH_MODULE(AllToAll);

}  // namespace graticule::nn
