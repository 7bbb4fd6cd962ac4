// SPDX-License-Identifier: BSD-3-Clause
// Collective operations with exact adjoints, as functions on a communicator and as modules on a domain.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace graticule::nn {

/// Who works with a tensor that all ranks hold, which decides what its cotangents are.
enum class Consumer : std::uint8_t {
  replicated,  ///< all ranks do the same with it: every rank has the whole cotangent
  distinct,    ///< each rank does its own work: the cotangents are partial and must be summed
};

// Functions. All are collective, forward and backward, differentiable to any order, take any dtype that they can add
// (16-bit types are added in f32) and any strides, and return fresh tensors. Cut axes may be uneven and empty on some
// ranks; part r belongs to rank r. Sums have the same bits on all ranks.
//
// In grad mode the result has a node on every rank, also where this rank's `x` requires no gradient, because the backward
// needs all ranks: either every rank's result reaches the loss or none does. (Modules tie their results to the loss.)
// All throw `StructureDisagreement` on all ranks when the function, its arguments, dtype, grad mode or an extent that is
// not cut differ among ranks, and `BadAxis`. Cost: one small all-reduce besides the messages stated.

/// Sum over all ranks, on all ranks. Adjoint: itself, because each rank's cotangent is a part of the whole one.
/// For statistics and global constraints; a loss is closed by `reduce_loss`. Cost: one all-reduce each way.
[[nodiscard]] torch::Tensor all_sum(torch::Tensor const& x, Comm const& comm);

/// `x` itself, equal on all ranks, for distinct work on each. Adjoint: the sum of all ranks' cotangents.
[[nodiscard]] torch::Tensor copy_in(torch::Tensor const& x, Comm const& comm);

/// Rank `root`'s `x` on all ranks. Adjoint: `sum_to_root`, zero on the others. Beside the root `x` may be undefined or of
/// any sizes and dtype. Cost: one broadcast. @throws `BadRank`
[[nodiscard]] torch::Tensor broadcast(torch::Tensor const& x, int root, Comm const& comm);

/// Sum over all ranks on rank `root`; an empty tensor of sizes {0} on the others. Adjoint: `broadcast`.
/// Cost: one all-reduce; one broadcast in the backward. @throws `BadRank`
[[nodiscard]] torch::Tensor sum_to_root(torch::Tensor const& x, int root, Comm const& comm);

/// All ranks' parts, joined along `axis` in order of ranks, on all ranks.
/// Adjoint: `reduce_scatter` of the cotangents for `distinct` consumers, this rank's slice for `replicated` ones.
/// Example: parts of 3 and 2 rows on 2 ranks give both ranks 5 rows.
/// Cost: one message to each rank, in and out; in the backward the same, or nothing
[[nodiscard]] torch::Tensor gather(torch::Tensor const& x, std::int64_t axis, Comm const& comm, Consumer consumer);

/// This rank's part of `x`, which is equal on all ranks. Adjoint: `gather` of the parts' cotangents.
/// @throws `CutsMismatch` unless `cuts` cut the axis into one part a rank
[[nodiscard]] torch::Tensor scatter(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, Comm const& comm);

/// This rank's part of the sum of all ranks' `x`, added in order of ranks. Adjoint: `gather` to distinct consumers.
/// Cost: one message to each rank, in and out; memory for one part from each. @throws `CutsMismatch`
[[nodiscard]] torch::Tensor reduce_scatter(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts,
                                           Comm const& comm);

/// From parts along `join_axis` to parts along `split_axis`, which each rank's `x` holds whole. Adjoint: the way back.
/// Example: 6 x 4 cells on 2 ranks, split 1, join 0, cuts {1, 3}: rank 1 hands in 3 x 4 and gets 6 x 3.
/// Cost: one message to each rank, in and out. @throws `CutsMismatch`
[[nodiscard]] torch::Tensor all_to_all(torch::Tensor const& x, std::int64_t split_axis, std::int64_t join_axis,
                                       Cuts const& split_cuts, Comm const& comm);

/// All ranks' parts joined along `axis` on rank `root`; an empty tensor of sizes {0} on the others.
/// Adjoint: `scatter_from_root`. Cost: one message from each rank but the root. @throws `BadRank`
[[nodiscard]] torch::Tensor gather_to_root(torch::Tensor const& x, std::int64_t axis, int root, Comm const& comm);

/// This rank's part of rank `root`'s `x`. Adjoint: `gather_to_root`, zero on the others. Beside the root `x` may be
/// undefined or of any sizes and dtype. Cost: one message to each rank but the root. @throws `BadRank`, `CutsMismatch`
[[nodiscard]] torch::Tensor scatter_from_root(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, int root,
                                              Comm const& comm);

namespace detail {

class CollectiveMap;

/// What a module of this file does: its name, the axes that its input is cut along, and its map for a layout.
struct CollectiveOptions {
  std::string name;
  Sharding sharding;
  std::function<void(torch::Tensor const&)> check;
  std::function<std::shared_ptr<CollectiveMap const>(torch::Tensor const&, Layout const&)> make;
};

/// The agreement, the set-ups and the call of such a module.
class CollectiveLayer : public LayerState<CollectiveMap> {
 public:
  CollectiveLayer(CollectiveOptions options, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);

 private:
  CollectiveOptions options_;
};

}  // namespace detail

/// A module over the ranks of a domain, in order of ranks; like the function of its name, with the checks of all layers in
/// one small all-reduce, set-ups kept, and the call tied to the losses that any rank uses it for.
template <class Derived>
class CollectiveModule : public detail::StatefulModule<Derived, detail::CollectiveLayer> {
 public:
  /// Collective. @throws `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x) { return this->state().forward(x); }

 protected:
  CollectiveModule(detail::CollectiveOptions options, Domain const& domain)
      : detail::StatefulModule<Derived, detail::CollectiveLayer>(
            domain, [options = std::move(options)](Domain const& of) {
              return std::make_shared<detail::CollectiveLayer>(options, of);
            }) {}
};

/// `all_sum`.
struct AllSumImpl : CollectiveModule<AllSumImpl> {
  explicit AllSumImpl(Domain const& domain);
};
TORCH_MODULE(AllSum);

/// `copy_in`.
struct CopyInImpl : CollectiveModule<CopyInImpl> {
  explicit CopyInImpl(Domain const& domain);
};
TORCH_MODULE(CopyIn);

/// `broadcast`; the ranks' tensors have equal sizes.
struct BroadcastImpl : CollectiveModule<BroadcastImpl> {
  BroadcastImpl(int root, Domain const& domain);
};
TORCH_MODULE(Broadcast);

/// `sum_to_root`.
struct SumToRootImpl : CollectiveModule<SumToRootImpl> {
  SumToRootImpl(int root, Domain const& domain);
};
TORCH_MODULE(SumToRoot);

/// `gather`. Axes of modules are counted from the last one: -1, -2 (`BadAxis`).
struct GatherImpl : CollectiveModule<GatherImpl> {
  GatherImpl(std::int64_t axis, Consumer consumer, Domain const& domain);
};
TORCH_MODULE(Gather);

/// `scatter`; balanced unless cuts are given.
struct ScatterImpl : CollectiveModule<ScatterImpl> {
  ScatterImpl(std::int64_t axis, Domain const& domain, std::optional<Cuts> cuts = {});
};
TORCH_MODULE(Scatter);

/// `reduce_scatter`; balanced unless cuts are given.
struct ReduceScatterImpl : CollectiveModule<ReduceScatterImpl> {
  ReduceScatterImpl(std::int64_t axis, Domain const& domain, std::optional<Cuts> cuts = {});
};
TORCH_MODULE(ReduceScatter);

/// `all_to_all`; balanced unless cuts are given.
struct AllToAllImpl : CollectiveModule<AllToAllImpl> {
  AllToAllImpl(std::int64_t split_axis, std::int64_t join_axis, Domain const& domain, std::optional<Cuts> cuts = {});
};
TORCH_MODULE(AllToAll);

}  // namespace graticule::nn
