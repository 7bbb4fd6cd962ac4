// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
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

/// The differentiable calls of a domain whose graph is alive.
///
/// A communicating node that the backward runs on some ranks only would wait forever. The closing reduction of a loss
/// therefore compares which recorded nodes it reaches on each rank. If these are equal on all ranks, all ranks run them
/// in the same order: LibTorch's engine takes ready nodes by descending sequence number, a node becomes ready by nodes
/// made after it, and calls come in the same order on all ranks. If they differ, ranks that do not reach a node run it
/// nevertheless: each node has a second output, a scalar, that can be added to the loss.
///
/// Nodes are held weakly. If the loss of another rank needs an output that this rank has discarded, the error is
/// `UnusedOnSomeRanks`.
class RecordedCalls {
 public:
  RecordedCalls();
  RecordedCalls(RecordedCalls const&) = delete;
  RecordedCalls& operator=(RecordedCalls const&) = delete;
  ~RecordedCalls();

  /// The number of a call that begins on all ranks, recorded or not.
  [[nodiscard]] Index next_call() noexcept { return ++num_calls_; }
  /// Continues from the highest number of any rank, after ranks have made calls out of order.
  void skip_to(Index number) noexcept { num_calls_ = number; }

  /// Which node: the call, and its place among the nodes of this call.
  using Key = std::array<Index, 2>;
  using Nodes = std::unordered_set<torch::autograd::Node const*>;

  /// The node that made `output`; the layer for messages. Nothing without a graph.
  void record(torch::Tensor const& output, Key const& key, std::string const& layer);

  /// Records the node that made `output` where that happens in the backward of a recorded node, which builds a graph.
  /// The domain is that of the node.
  static void record_derivative(torch::Tensor const& output);

  /// The layer that recorded `node`, in any domain: `layer 2 (Conv2d)`; nothing where none did.
  [[nodiscard]] static std::string described(torch::autograd::Node const& node);

  /// The second outputs of recorded nodes that a backward from `roots` runs on some ranks, but not on this one: the
  /// backward shall start from them too, with zeros. Roots may be undefined or without graph. Collective.
  /// @throws `UnusedOnSomeRanks` on all ranks alike
  /// Cost: a walk through the graph and one all-reduce of 2 integers when all ranks run the same
  [[nodiscard]] std::vector<torch::Tensor> unreached(Comm const& comm, std::vector<torch::Tensor> const& roots);

  /// Discards all calls, and restarts counting.
  void forget() noexcept;

  /// Number of masks that the domain's random layers have drawn; equal on all ranks.
  std::int64_t num_draws = 0;

 private:
  struct Call {
    WeakNode node;
    Key key;
    std::string layer;  ///< for messages
  };
  void drop_expired();
  /// Second outputs of those of the `wanted` nodes that are not among `nodes`. Collective.
  [[nodiscard]] std::vector<torch::Tensor> tokens_of(Comm const& comm, std::vector<Key> const& wanted,
                                                     Nodes const& nodes) const;

  std::vector<Call> calls_;
  std::set<Key> without_gradient_;  ///< calls that no node was made for on this rank
  std::size_t next_sweep_ = 64;
  Index num_calls_ = 0;
};

/// The second output of a communicating node, made in its forward.
[[nodiscard]] torch::Tensor make_token(torch::TensorOptions const& options);

}  // namespace graticule::nn::detail
