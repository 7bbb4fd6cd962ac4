// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <string>
#include <vector>

namespace graticule::program::detail {

/// The parts of a graph that a backward pass computes again.
///
/// A part has the nodes of one region (`Node::region`) that follow each other; nodes that give no tensors (sizes,
/// checks) do not end it. A region between whose nodes others stand is several parts. One that writes to a tensor of
/// before it, as operators in place do, would write twice: it is kept.
struct RecomputedParts {
  std::vector<int> of_node;       ///< -1: none
  int num_parts = 0;              ///< numbers are below; those of parts that are kept are not used
  std::vector<std::string> kept;  ///< a text for each part that is kept
};

[[nodiscard]] RecomputedParts recomputed_parts(Graph const& graph);

}  // namespace graticule::program::detail
