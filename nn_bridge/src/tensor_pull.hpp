// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/domain.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/pull.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace graticule::nn::detail {

/// A plan between tensors [..., rows, columns]: from this rank's shard to some target tensors.
class TensorPull {
 public:
  /// Collective. @param odd_channels see `HaloExchangeOptions`
  TensorPull(Comm const& comm, Layout const& layout, Boundary const& boundary, std::vector<Target> targets,
             std::vector<std::int64_t> odd_channels, std::uint64_t fingerprint);

  [[nodiscard]] Box const& owned() const noexcept { return owned_; }
  [[nodiscard]] std::vector<Target> const& targets() const noexcept { return targets_; }
  /// An uninitialised tensor like `x` with the rows and columns of target `t`.
  [[nodiscard]] torch::Tensor empty_target(torch::Tensor const& x, int t) const;

  [[nodiscard]] Pending start(torch::Tensor const& x, std::span<torch::Tensor const> targets) const;
  /// The source tensor comes at the end: `finish_adjoint`.
  [[nodiscard]] Pending start_adjoint(std::span<torch::Tensor const> targets) const;
  /// Waits and adds to `x`.
  void finish_adjoint(Pending& pending, torch::Tensor const& x) const;

  [[nodiscard]] PullCounts counts() const noexcept { return plan_.counts(); }

 private:
  struct Run {
    std::int64_t first;
    std::int64_t count;
    Parity parity;
  };
  [[nodiscard]] std::vector<Run> runs(torch::Tensor const& x) const;

  Box owned_;
  std::vector<Target> targets_;
  std::vector<std::int64_t> odd_channels_;
  PullPlan plan_;
};

/// Target 0 of `pull`, filled from `x`; differentiable to any order. `anchor` as in `agreement.hpp`.
[[nodiscard]] torch::Tensor pull_tensor(std::shared_ptr<TensorPull const> const& pull, torch::Tensor const& x,
                                        torch::Tensor const& anchor);

/// The adjoint of `pull_tensor`; differentiable to any order.
[[nodiscard]] torch::Tensor push_tensor(std::shared_ptr<TensorPull const> const& pull, torch::Tensor const& target,
                                        torch::Tensor const& anchor);

}  // namespace graticule::nn::detail
