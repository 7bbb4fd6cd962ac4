// SPDX-License-Identifier: BSD-3-Clause
// Cutting a box into pieces that fit one call of MPI.
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>

#include <cstddef>
#include <functional>
#include <vector>

namespace graticule::detail {

/// Boxes of at most `most_cells` cells (at least one) that cover `box` in row-major order; each is one contiguous run
/// of the box's memory. Along a cut axis they end at multiples of `chunk` (global coordinates) where that still fits,
/// so that few chunks are read twice. No boxes for an empty box.
/// Example: `[0, 10) x [0, 4)`, chunk (4, 4), 20 cells: rows [0, 4), [4, 8), [8, 10).
[[nodiscard]] std::vector<Box> contiguous_pieces(Box const& box, Indices const& chunk, Index most_cells);

/// Cells that a rank moves, and how.
struct Portion {
  Box box;
  Indices chunk;  ///< along the box
  Index most_cells = 1;
};

/// A piece of a rank's box, or none in a round that only other ranks need.
struct Piece {
  Box const* box = nullptr;
  std::size_t first = 0;  ///< its first cell among those of the whole box
  std::size_t count = 0;
};

/// What each rank does in its turn of a collective transfer of several rounds.
struct Rounds {
  Index num_cells = 0;      ///< of this rank
  std::vector<Box> pieces;  ///< of this rank
  Index count = 0;          ///< the most pieces that any rank has

  /// The piece of `round`, after `last`, the one of the round before.
  [[nodiscard]] Piece piece(Index round, Piece const& last) const;
};

/// Cuts what `prepare` returns; throws on all ranks when it throws on one. Collective: one all-reduce.
[[nodiscard]] Rounds agreed_rounds(Comm const& comm, std::function<Portion()> const& prepare);

}  // namespace graticule::detail
