// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>
#include <graticule/program/detail/sizes.hpp>

namespace graticule::program::detail {

/// The graph with `pixel_shuffle` and `pixel_unshuffle` as the views and permutations that they are, so that the cut of
/// an axis goes through them: x[n, c r r, h, w] to [n, c, r, r, h, w], [n, c, h, r, w, r] and [n, c, h r, w r].
/// Cost: linear in the nodes.
[[nodiscard]] Graph with_open_shuffles(Graph const& graph, Sizes const& sizes);

}  // namespace graticule::program::detail
