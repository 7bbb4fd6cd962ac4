// SPDX-License-Identifier: BSD-3-Clause
// Cutting a box into pieces that fit one call of MPI.
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>

#include <functional>
#include <vector>

namespace graticule::detail {

/// Boxes of at most `most_cells` cells (at least one) that cover `box` in row-major order; each is one contiguous run
/// of the box's memory. Along a cut axis they end at multiples of `chunk` (global coordinates) where that still fits,
/// so that few chunks are read twice. No boxes for an empty box.
/// Example: `[0, 10) x [0, 4)`, chunk (4, 4), 20 cells: rows [0, 4), [4, 8), [8, 10).
[[nodiscard]] std::vector<Box> contiguous_pieces(Box const& box, Indices const& chunk, Index most_cells);

/// What each rank does in its turn of a collective transfer of several rounds.
struct Rounds {
  std::vector<Box> pieces;  ///< of this rank
  Index count = 0;          ///< the most pieces that any rank has
};

/// Runs `check`, then cuts `box`; throws on all ranks when `check` throws on one. Collective: one all-reduce.
[[nodiscard]] Rounds agreed_rounds(Comm const& comm, std::function<void()> const& check, Box const& box,
                                   Indices const& chunk, Index most_cells);

}  // namespace graticule::detail
