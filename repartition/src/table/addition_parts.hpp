// SPDX-License-Identifier: BSD-3-Clause
// Additions that meet in some cells, cut so that a thread of a device can make all those of a cell in order.
#pragma once

#include "pull_table.hpp"

#include <span>
#include <vector>

namespace graticule::detail {

/// A part of the transfer with number `addition`.
struct AdditionPart {
  int addition = 0;
  Box cells;             ///< in source coordinates
  bool follows = false;  ///< the part before it has the same cells and is added first
};

/// Cuts the transfers of each kind so that two parts have the same cells or none in common. Parts of the same cells
/// follow each other in the order of `transfers`. Empty where a transfer maps several cells to one or skips cells, and
/// where there would be more than `most_addition_parts`. Cost: comparisons of all transfers with all parts.
[[nodiscard]] std::vector<AdditionPart> addition_parts(std::span<Transfer const* const> transfers);

inline constexpr std::size_t most_addition_parts = 256;

/// The part of `transfer` that reads `cells`, which it reads.
[[nodiscard]] Transfer part_of(Transfer const& transfer, Box const& cells);

}  // namespace graticule::detail
