// SPDX-License-Identifier: BSD-3-Clause
#include "addition_parts.hpp"

#include <graticule/repartition/detail/index_map.hpp>

#include "box_rest.hpp"

#include <algorithm>
#include <utility>

namespace graticule::detail {

namespace {

/// Cells to which the same transfers add.
struct Group {
  int kind;
  Box cells;
  std::vector<int> additions;
};

/// It reads each cell of its box once.
bool reads_all_cells_once(Transfer const& transfer) {
  auto const end = transfer.maps.begin() + transfer.to.ndim();
  return std::all_of(transfer.maps.begin(), end, [](AxisMap const& map) { return map.slope == 1 || map.slope == -1; });
}

/// Adds transfer `addition` to the groups, of which those that it meets in some of their cells are cut.
void add(std::vector<Group>& groups, Transfer const& transfer, int addition) {
  std::vector<Box> rest{transfer.from};
  std::vector<Box> next;
  auto const num_groups = groups.size();
  for (std::size_t g = 0; g < num_groups && !rest.empty(); ++g) {
    auto const cells = groups[g].cells;
    auto const common = intersection(cells, transfer.from);
    if (groups[g].kind != transfer.kind || common.empty()) continue;
    next.clear();
    append_rest(cells, common, next);
    for (auto const& box : next) groups.push_back({transfer.kind, box, groups[g].additions});
    groups[g].cells = common;
    groups[g].additions.push_back(addition);
    next.clear();
    for (auto const& box : rest) append_rest(box, common, next);
    rest.swap(next);
  }
  for (auto const& box : rest) groups.push_back({transfer.kind, box, {addition}});
}

}  // namespace

std::vector<AdditionPart> addition_parts(std::span<Transfer const* const> transfers) {
  std::vector<Group> groups;
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    auto const& transfer = *transfers[t];
    if (transfer.to.empty()) continue;
    if (!reads_all_cells_once(transfer) || groups.size() > most_addition_parts) return {};
    add(groups, transfer, int(t));
  }
  std::vector<AdditionPart> parts;
  for (auto const& group : groups)
    for (std::size_t i = 0; i < group.additions.size(); ++i) parts.push_back({group.additions[i], group.cells, i > 0});
  if (parts.size() > most_addition_parts) parts.clear();
  return parts;
}

Transfer part_of(Transfer const& transfer, Box const& cells) {
  auto result = transfer;
  result.from = cells;
  result.to = restricted({.box = transfer.to, .maps = transfer.maps}, cells).box;
  return result;
}

}  // namespace graticule::detail
