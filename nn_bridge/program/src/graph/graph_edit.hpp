// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include "graph/visit.hpp"

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

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

/// Appends a node like `origin` with another target and inputs, and `value` as its one result. Returns the value's id.
inline ValueId append_node(Graph& graph, Node origin, std::string_view target, std::vector<NamedArgument> inputs,
                           Value value) {
  auto const id = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(std::move(value));
  origin.target = target;
  origin.inputs = std::move(inputs);
  origin.outputs = {TensorRef{id}};
  append_node(graph, std::move(origin));
  return id;
}

}  // namespace graticule::program::detail
