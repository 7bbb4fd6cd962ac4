// SPDX-License-Identifier: BSD-3-Clause
#include "recorded_calls.hpp"

#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

namespace graticule::nn::detail {

namespace {

using torch::autograd::Node;
using Key = RecordedCalls::Key;

/// Of the latest calls whose outputs have no gradient on this rank: for messages.
constexpr std::size_t num_without_gradient = 1000;

/// Adds to `nodes` those that a backward from `roots` runs.
void walk(std::vector<torch::Tensor> const& roots, RecordedCalls::Nodes& nodes) {
  std::vector<Node const*> ahead;
  auto const meet = [&](Node const* node) {
    if (node && nodes.insert(node).second) ahead.push_back(node);
  };
  for (auto const& root : roots)
    if (root.defined()) meet(root.grad_fn().get());
  while (!ahead.empty()) {
    auto const* node = ahead.back();
    ahead.pop_back();
    for (auto const& edge : node->next_edges()) meet(edge.function.get());
  }
}

bool same_on_all(Comm const& comm, std::vector<Key> const& keys) {
  Hash hash;
  for (auto const& key : keys) hash.add(key);
  auto const value = Index(hash.value() >> 2U);
  std::array<Index, 2> ends{value, -value};
  comm.max(ends);
  return ends[0] == -ends[1];
}

/// The keys of all ranks, in order of the calls. Collective.
std::vector<Key> union_of(Comm const& comm, std::vector<Key> const& own) {
  auto const counts = comm.gather_to_all(Index(own.size()));
  auto const first = std::accumulate(counts.begin(), counts.begin() + comm.rank(), Index(0));
  std::vector<Index> values(std::size_t(2 * std::accumulate(counts.begin(), counts.end(), Index(0))));
  for (std::size_t i = 0; i < own.size(); ++i)
    std::copy(own[i].begin(), own[i].end(), values.begin() + 2 * (first + Index(i)));
  comm.sum(values);
  std::vector<Key> all;
  for (std::size_t i = 0; i < values.size(); i += 2) all.push_back({values[i], values[i + 1]});
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Of all domains. A backward runs on the thread that called it, where no tensor lies on a device.
struct Registry {
  std::mutex mutex;
  std::vector<RecordedCalls*> calls;
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

template <class NodePointer>
torch::Tensor token_of(NodePointer node) {
  auto token = torch::zeros({}, node->input_metadata(1).options());
  torch::autograd::impl::set_gradient_edge(token, torch::autograd::Edge(std::move(node), 1));
  return token;
}

}  // namespace

std::vector<torch::Tensor> unreached_calls(Domain const& domain, std::vector<torch::Tensor> const& roots) {
  return domain.recorded_calls().unreached(domain.comm(), roots);
}

torch::Tensor make_token(torch::TensorOptions const& options) {
  auto const type = c10::typeMetaToScalarType(options.dtype());
  return torch::zeros({}, options.requires_grad(false).dtype(torch::isFloatingType(type) ? type : torch::kFloat));
}

RecordedCalls::RecordedCalls() {
  std::scoped_lock const lock(registry().mutex);
  registry().calls.push_back(this);
}

RecordedCalls::~RecordedCalls() {
  std::scoped_lock const lock(registry().mutex);
  std::erase(registry().calls, this);
}

void RecordedCalls::forget() noexcept {
  calls_.clear();
  without_gradient_.clear();
  num_calls_ = 0;
}

std::string RecordedCalls::described(torch::autograd::Node const& node) {
  std::scoped_lock const lock(registry().mutex);
  for (auto const* const recorded : registry().calls)
    for (auto const& call : recorded->calls_)
      if (call.node.lock().get() == &node) return call.layer;
  return {};
}

void RecordedCalls::record_derivative(torch::Tensor const& output) {
  if (!torch::GradMode::is_enabled() || !output.grad_fn()) return;
  auto const node = torch::autograd::get_current_node();
  if (!node) return;
  std::scoped_lock const lock(registry().mutex);
  for (auto* const recorded : registry().calls) {
    auto const& calls = recorded->calls_;
    auto const found = std::find_if(calls.rbegin(), calls.rend(),
                                    [&](Call const& call) { return call.node.lock().get() == node.get(); });
    if (found == calls.rend()) continue;
    auto const layer = found->layer;
    return recorded->record(output, {recorded->next_call(), 0}, layer);
  }
}

void RecordedCalls::record(torch::Tensor const& output, Key const& key, std::string const& layer) {
  auto const node = output.grad_fn();
  if (!node && without_gradient_.insert(key).second && without_gradient_.size() > num_without_gradient)
    without_gradient_.erase(without_gradient_.begin());
  if (!node || node->num_inputs() < 2 || node->input_metadata(1).shape_as_dim_vector().size() != 0) return;
  if (calls_.size() >= next_sweep_) drop_expired();
  calls_.push_back({weak_node(node), key, layer});
}

void RecordedCalls::drop_expired() {
  std::erase_if(calls_, [](Call const& call) { return call.node.expired(); });
  next_sweep_ = std::max<std::size_t>(64, 2 * calls_.size());
}

std::vector<torch::Tensor> RecordedCalls::unreached(Comm const& comm, std::vector<torch::Tensor> const& roots) {
  if (comm.num_ranks() == 1) return {};
  drop_expired();
  Nodes nodes;
  walk(roots, nodes);
  std::vector<torch::Tensor> tokens;
  // Nodes that this rank runs for another may lead to nodes that the other does not run; repeat until all run the same.
  while (true) {
    std::vector<Key> reached;
    for (auto const& call : calls_)
      if (nodes.contains(call.node.lock().get())) reached.push_back(call.key);
    if (same_on_all(comm, reached)) return tokens;
    auto const more = tokens_of(comm, union_of(comm, reached), nodes);
    walk(more, nodes);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
}

std::vector<torch::Tensor> RecordedCalls::tokens_of(Comm const& comm, std::vector<Key> const& wanted,
                                                    Nodes const& nodes) const {
  std::map<Key, Call const*> alive;
  for (auto const& call : calls_) alive[call.key] = &call;
  std::vector<torch::Tensor> tokens;
  std::array<Index, 1> num_after{0};  // the first wanted node that some rank has lost, counted from the last
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    auto const found = alive.find(wanted[i]);
    if (found == alive.end()) {
      num_after[0] = std::max(num_after[0], Index(wanted.size() - i));
    } else if (auto node = found->second->node.lock(); !nodes.contains(node.get())) {
      tokens.push_back(token_of(std::move(node)));
    }
  }
  comm.max(num_after);
  if (num_after[0] == 0) return tokens;
  auto const& key = wanted[wanted.size() - std::size_t(num_after[0])];
  auto const found = alive.find(key);
  bool const lost = found == alive.end();
  bool const reached = !lost && nodes.contains(found->second->node.lock().get());
  std::array<Index, 3> ranks{reached ? comm.rank() : -1, lost ? comm.rank() : -1,
                             lost && without_gradient_.contains(key) ? comm.rank() : -1};
  comm.max(ranks);
  auto const layer = comm.broadcast(reached ? found->second->layer : "", int(ranks[0]));
  auto const text = "an output of " + layer + " is part of the loss on rank " + std::to_string(ranks[0]);
  if (ranks[2] >= 0)
    throw Error("UnusedOnSomeRanks", text + ", and has no gradient on rank " + std::to_string(ranks[2]) +
                                         ": parameters of it or of what comes before it are frozen there alone; "
                                         "freeze them (requires_grad) on all ranks or on none");
  throw Error("UnusedOnSomeRanks", text + ", and rank " + std::to_string(ranks[1]) + " has discarded it");
}

}  // namespace graticule::nn::detail
