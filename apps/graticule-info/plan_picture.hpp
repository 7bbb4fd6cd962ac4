// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include <string>
#include <utility>
#include <vector>

namespace graticule::info {

/// What the axes count: degrees of a globe whose first row is the northernmost, or cells.
enum class Ticks { degrees, cells };

/// A partition to draw: which part of the globe belongs to which rank, and which ranks share a node.
struct PlanPicture {
  Layout layout;                  ///< of latitude and longitude
  std::vector<int> node_of_rank;  ///< for each rank
  Ticks ticks = Ticks::degrees;
  std::vector<std::pair<std::string, std::string>> facts;  ///< name and value, printed next to the map
};

/// The picture as SVG: the map with nodes in colours, a title, axes with units, a legend and the facts.
[[nodiscard]] std::string to_svg(PlanPicture const& picture);

/// A colour number for each node, so that nodes that touch (round the globe too) differ.
/// @param node_at node of each place of the process grid, in row-major order
[[nodiscard]] std::vector<int> node_colours(std::vector<int> const& node_at, int num_rows, int num_columns);

}  // namespace graticule::info
