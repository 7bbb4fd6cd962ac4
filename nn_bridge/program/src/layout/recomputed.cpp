// SPDX-License-Identifier: BSD-3-Clause
#include "recomputed.hpp"

#include "graph/visit.hpp"
#include "node_shapes.hpp"
#include "overwritten.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

bool gives_tensors(Node const& node) {
  bool found = false;
  for (Argument const& output : node.outputs) visit_tensors(output, [&](ValueId) { found = true; });
  return found;
}

std::vector<int> numbered(Graph const& graph, int& num_parts) {
  std::vector<int> parts(graph.nodes.size(), -1);
  std::optional<std::int64_t> region;
  std::size_t behind = 0;  // the latest node that gives tensors
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node const& node = graph.nodes[i];
    if (!node.region && !gives_tensors(node)) continue;
    if (node.region && region == node.region) {
      std::fill(parts.begin() + std::ptrdiff_t(behind), parts.begin() + std::ptrdiff_t(i) + 1, num_parts - 1);
    } else if (node.region) {
      parts[i] = num_parts++;
    }
    region = node.region;
    behind = i;
  }
  return parts;
}

// Batch norms without "functional" in their names write running statistics that their schema does not mark.
bool writes_statistics(Node const& node) {
  std::string_view const target = node.target;
  bool const norm =
      target.find("batch_norm") != std::string_view::npos || target.find("instance_norm") != std::string_view::npos;
  if (!norm || target.find("functional") != std::string_view::npos) return false;
  auto const* const mean = node.input("running_mean");
  if (mean == nullptr || !std::holds_alternative<TensorRef>(*mean)) return false;
  for (char const* name : {"training", "train", "use_input_stats"}) {
    auto const* const given = node.input(name);
    auto const* const flag = given == nullptr ? nullptr : std::get_if<bool>(given);
    if (flag != nullptr) return *flag;
  }
  return true;
}

/// Which values share memory, and the one that they have in common.
class Memory {
 public:
  explicit Memory(Graph const& graph) : of_(graph.values.size()) {
    std::iota(of_.begin(), of_.end(), 0);
    for (Node const& node : graph.nodes) {
      for (auto const& [result, source] : shared_memory(node)) join(result, source);
      auto const* const self = node.input("self");
      auto const* const tensor = self == nullptr ? nullptr : std::get_if<TensorRef>(self);
      if (!in_place(node.target) || tensor == nullptr) continue;
      for (Argument const& output : node.outputs) visit_tensors(output, [&](ValueId id) { join(id, tensor->value); });
    }
  }

  /// The first tensor of that memory.
  [[nodiscard]] ValueId first(ValueId id) const {
    while (of_[std::size_t(id)] != id) id = of_[std::size_t(id)];
    return id;
  }

 private:
  // The result is later than its source.
  void join(ValueId result, ValueId source) { of_[std::size_t(first(result))] = first(source); }

  std::vector<ValueId> of_;
};

/// Whether the node writes to a tensor that is not made in its part.
bool writes_outside(Graph const& graph, Memory const& memory, std::vector<int> const& parts, std::size_t place) {
  Node const& node = graph.nodes[place];
  if (writes_statistics(node)) return true;
  if (!in_place(node.target)) return false;
  bool outside = true;
  if (auto const* const self = node.input("self")) {
    visit_tensors(*self, [&](ValueId id) {
      NodeId const producer = graph.value(memory.first(id)).producer;
      outside = producer < 0 || parts[std::size_t(producer)] != parts[place];
    });
  }
  return outside;
}

}  // namespace

RecomputedParts recomputed_parts(Graph const& graph) {
  RecomputedParts result;
  result.of_node = numbered(graph, result.num_parts);
  if (result.num_parts == 0) return result;
  Memory const memory(graph);
  std::vector<bool> kept(std::size_t(result.num_parts), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    int const part = result.of_node[i];
    if (part < 0 || kept[std::size_t(part)] || !writes_outside(graph, memory, result.of_node, i)) continue;
    kept[std::size_t(part)] = true;
    result.kept.push_back(graph.nodes[i].describe() +
                          " writes to a tensor of before its region, which is therefore not computed again; export by "
                          "run_decompositions({})");
  }
  for (int& part : result.of_node)
    if (part >= 0 && kept[std::size_t(part)]) part = -1;
  return result;
}

}  // namespace graticule::program::detail
