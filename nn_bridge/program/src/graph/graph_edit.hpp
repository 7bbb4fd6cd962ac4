// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include "graph/visit.hpp"

#include <utility>
#include <variant>

namespace graticule::program::detail {

/// Appends a node whose results are values of the graph already, and makes it their producer.
inline void append_node(Graph& graph, Node node) {
  auto const producer = static_cast<NodeId>(graph.nodes.size());
  auto const mark = [&](ValueId id) { graph.values[static_cast<std::size_t>(id)].producer = producer; };
  for (Argument const& output : node.outputs) {
    visit_tensors(output, mark);
    if (auto const* number = std::get_if<SymbolRef>(&output)) {
      mark(number->value);
    }
  }
  graph.nodes.push_back(std::move(node));
}

}  // namespace graticule::program::detail
