// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/detail/pull.hpp>
#include <graticule/repartition/parity.hpp>

#include "call/call_stream.hpp"
#include "linear_operator.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace graticule::nn::detail {

/// Neighboring channels (axis -3) of equal parity.
struct ParityRun {
  torch::Tensor part;
  Parity parity = Parity::even;
};

/// Splits a tensor at the channels where the parity changes; one run where no channel is odd.
[[nodiscard]] std::vector<ParityRun> parity_runs(torch::Tensor const& x, std::vector<std::int64_t> const& odd_channels);

/// Description of a plan between tensors.
struct TensorPullDescription {
  Layout source;
  /// The tensors' axes that correspond to the layout's, counted from the last.
  std::vector<std::int64_t> axes{-2, -1};
  IndexMap map;
  std::vector<Target> targets;                  ///< of this rank; the same number on all ranks
  std::uint64_t fingerprint = 0;                ///< of what else is the same on all ranks
  std::vector<std::int64_t> odd_channels = {};  ///< see `HaloExchangeOptions`
  Messages messages = Messages::whole;
  /// Own cells of a single target, rows and columns, which are copied from the shard without the plan.
  Box direct = {};
};

/// The parts of `box` that lie outside of `inner`, which lies in it, of two axes.
[[nodiscard]] std::vector<Box> around(Box const& box, Box const& inner);

/// Rows and columns `part` of a tensor that holds those of `box`, which contains it: a view. Empty where `part` is.
[[nodiscard]] torch::Tensor narrowed(torch::Tensor const& tensor, Box const& box, Box const& part);

/// A call of a `TensorPull` in flight, in order of the stream that was current when it started.
class TensorPending {
 public:
  TensorPending() = default;
  TensorPending(Pending pending, CallStream stream) : pending_(std::move(pending)), stream_(std::move(stream)) {}

  /// What is put into the current stream afterwards runs after the call.
  void wait();
  /// For an adjoint; what is in the current stream before has written `sources`.
  void wait_into(std::span<FieldView const> sources);

 private:
  Pending pending_;
  CallStream stream_;
};

/// A plan between tensors: from this rank's shard to some target tensors. Axes without a place in the layout are batch
/// axes; several calls may be in flight. A single target's own cells are copied while the messages of the others
/// travel.
class TensorPull : public LinearOperator {
 public:
  /// Collective.
  TensorPull(Comm const& comm, TensorPullDescription description);
  /// Rows and columns by the boundary's rules. Collective.
  TensorPull(Comm const& comm, Layout const& layout, Boundary const& boundary, std::vector<Target> targets,
             std::vector<std::int64_t> odd_channels, std::uint64_t fingerprint);

  [[nodiscard]] Box const& owned() const noexcept { return owned_; }
  [[nodiscard]] std::vector<Target> const& targets() const noexcept { return description_.targets; }
  /// An uninitialised tensor like `x` with the extents of target `t`.
  [[nodiscard]] torch::Tensor empty_target(torch::Tensor const& x, int t) const;

  /// What `finish_adjoint` adds to: a fresh tensor with the extents of this rank's shard, of what own cells of a single
  /// target leave there, and zeros.
  [[nodiscard]] torch::Tensor source_of(torch::Tensor const& target) const;

  [[nodiscard]] TensorPending start(torch::Tensor const& x, std::span<torch::Tensor const> targets) const;
  /// The source tensor comes at the end: `finish_adjoint`.
  [[nodiscard]] TensorPending start_adjoint(std::span<torch::Tensor const> targets) const;
  /// Waits and adds to `x`.
  void finish_adjoint(TensorPending& pending, torch::Tensor const& x) const;

  /// Target 0.
  [[nodiscard]] torch::Tensor apply(torch::Tensor const& x) const override;
  [[nodiscard]] torch::Tensor apply_adjoint(torch::Tensor const& target) const override;

 private:
  [[nodiscard]] std::vector<std::int64_t> sizes_with(torch::Tensor const& x, Box const& box) const;

  Box owned_;
  TensorPullDescription description_;
  PullPlan plan_;
  PullCounts counts_;
};

}  // namespace graticule::nn::detail
