// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "passes.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <variant>

namespace graticule::program::detail {

namespace {

std::vector<int> numbered(Graph const& graph, int& num_parts) {
  std::vector<int> parts(graph.nodes.size(), -1);
  std::optional<std::int64_t> region;
  std::size_t behind = 0;  // the latest node that gives tensors
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node const& node = graph.nodes[i];
    if (!node.region && tensors_of(node.outputs).empty()) continue;
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
  if (!is_norm_by_channels(node) || node.target.find("functional") != std::string::npos) return false;
  if (std::get_if<TensorRef>(node.input("running_mean")) == nullptr) return false;
  for (char const* name : {"training", "train", "use_input_stats"}) {
    if (auto const* const flag = std::get_if<bool>(node.input(name))) return *flag;
  }
  return true;
}

/// Whether the node writes to a tensor that is not made in its part.
bool writes_outside(Graph const& graph, SharedMemory const& memory, std::vector<int> const& parts, std::size_t place) {
  Node const& node = graph.nodes[place];
  if (writes_statistics(node)) return true;
  if (!in_place(node.target)) return false;
  bool outside = true;
  if (auto const* const self = node.input("self")) {
    visit_tensors(*self, [&](ValueId id) {
      NodeId const producer = graph.value(memory.root(id)).producer;
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
  SharedMemory const memory(graph);
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
