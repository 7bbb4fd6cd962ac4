// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace graticule::nn::detail {

/// A node of the graph, held weakly: releases of LibTorch count nodes by `std::shared_ptr` or intrusively.
template <class T>
std::weak_ptr<T> weak_node(std::shared_ptr<T> const& node) {
  return node;
}
template <class T>
c10::weak_intrusive_ptr<T> weak_node(c10::intrusive_ptr<T> const& node) {
  return c10::weak_intrusive_ptr<T>(node);
}
using WeakNode = decltype(weak_node(std::declval<torch::Tensor const&>().grad_fn()));

/// The differentiable calls of a domain that no loss has taken up yet.
///
/// A node of the graph whose output reaches the loss on some ranks only would run its backward on those only, and they
/// would wait for ever. So each communicating node has a second output, a scalar, and the closing reduction of a loss
/// adds all of them, times zero: then every node runs, on all ranks, in reverse order of the calls (LibTorch's engine
/// takes ready nodes by descending sequence number). Nodes are held weakly: an output that a rank has dropped is gone,
/// and if the others still have theirs, that is `UnusedOnSomeRanks`.
class RecordedCalls {
 public:
  /// The node that made `output`; `text` names the call. Nothing without a graph.
  void record(torch::Tensor const& output, int ordinal, std::int64_t call, std::string const& layer);

  /// Adds the second outputs of all recorded nodes, times zero, to `loss`, and forgets them. Collective.
  /// @throws `UnusedOnSomeRanks` on all ranks alike
  [[nodiscard]] torch::Tensor tie(Comm const& comm, torch::Tensor const& loss);

  [[nodiscard]] std::size_t size() const noexcept { return calls_.size(); }

  /// How many masks the domain's random layers have drawn; the same on all ranks.
  std::int64_t num_draws = 0;

 private:
  struct Call {
    WeakNode node;
    std::uint64_t backwards;
    int ordinal;
    std::int64_t call;
    std::string layer;
  };
  void drop_expired();

  std::vector<Call> calls_;
  std::size_t next_sweep_ = 64;
};

/// Said by each communicating node when its backward runs: calls recorded before belong to a graph that has been used.
void note_backward() noexcept;

/// The second output of a communicating node, made in its forward.
[[nodiscard]] torch::Tensor make_token(torch::TensorOptions const& options);

}  // namespace graticule::nn::detail
