// SPDX-License-Identifier: BSD-3-Clause
// Cells of a chunk and their places in a dense block of selected cells.
#pragma once

#include "hyperslab.hpp"

#include <cstddef>
#include <functional>
#include <span>

namespace graticule::detail {

/// A block of cells as a file stores them together, at `first` of a variable.
struct ChunkPlace {
  Indices first;
  Indices extents;
};

/// The chunks, by their numbers along each axis, that the first `counts` cells of the slab meet.
[[nodiscard]] Box chunks_of(Slab const& slab, Indices const& counts, Indices const& chunk);
/// The slab's cells within a chunk, by their places in the slab.
[[nodiscard]] Box places_in(Slab const& slab, Indices const& counts, ChunkPlace const& chunk);
/// Where a cell lies in a dense block.
[[nodiscard]] Index place_of(Indices const& cell, Indices const& extents);
/// The slab's cell at a place, counted from the chunk's first cell.
[[nodiscard]] Indices cell_at(Slab const& slab, Indices const& place, ChunkPlace const& chunk);

/// Copies the cells at `places` from a chunk to the block of the slab's cells. @pre at least one axis
/// @param first_cell of the chunk that `from` begins with, in row-major order
void copy_cells(Index value_bytes, Slab const& slab, ChunkPlace const& chunk, Box const& places, std::byte const* from,
                std::byte* to, Index first_cell = 0);
/// Copies the cells at `places`, dense at `from`, to a chunk. @pre at least one axis
void put_cells(Index value_bytes, Slab const& slab, ChunkPlace const& chunk, Box const& places, std::byte const* from,
               std::byte* to);
/// Writes one value to the cells at `places`. @pre at least one axis
void fill_cells(std::span<std::byte const> value, Slab const& slab, Box const& places, std::byte* to);
/// Calls `visit(cell)` for the first cell of each run along the last axis.
void for_each_row(Box rows, std::function<void(Indices const&)> const& visit);

}  // namespace graticule::detail
