// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include "graph/checked_json.hpp"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace graticule::program::detail {

[[nodiscard]] Dtype read_dtype(Json const& value, std::string_view place);
[[nodiscard]] TensorMeta read_tensor_meta(Json const& value, std::string_view place);

/// Reads one graph; subgraphs by readers of their own.
class GraphReader {
 public:
  /// @param depth of subgraphs within subgraphs; limited
  GraphReader(Json const& graph, std::string place, int depth);

  /// Reads inputs, nodes and outputs; then `graph()` is complete.
  void read();

  /// A value that is already defined. @throws Error `BrokenFile`
  [[nodiscard]] ValueId defined(std::string const& name, std::string_view place) const;
  /// What a node is called with, or the graph returns.
  [[nodiscard]] Argument argument(Json const& value, std::string_view place) const;
  [[nodiscard]] Graph const& graph() const { return graph_; }
  [[nodiscard]] Graph take() && { return std::move(graph_); }

 private:
  [[nodiscard]] Argument subgraph(Json const& value, std::string_view place) const;
  [[nodiscard]] Argument symbolic(Json const& value, std::string_view place) const;
  [[nodiscard]] Integers integers(Json const& value, std::string_view place) const;
  [[nodiscard]] Argument definition(Json const& value, NodeId producer, std::string_view place);
  ValueId define(std::string const& name, Value::Kind kind, NodeId producer, std::string_view place);
  void read_node(Json const& node);
  void detach_parts();
  [[nodiscard]] bool ends_behind_function() const;

  Json const& json_;
  std::string place_;
  int depth_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
  std::vector<char> without_gradients_;  ///< per node: whether it ran within `torch.no_grad()`
  std::vector<std::string> parts_;       ///< per node: that part, where the file names it
};

}  // namespace graticule::program::detail
