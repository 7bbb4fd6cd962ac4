// SPDX-License-Identifier: BSD-3-Clause
// Cuts the rewrite of a variable into rounds that fit a memory budget.
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/layout.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::archive {

/// How a variable lies in a file.
struct Storage {
  Indices chunk = {};      ///< in the file's own order of axes; no axes when stored in one piece
  bool filtered = false;   ///< chunks are read and written whole
  Index value_bytes = 4;   ///< of one value in the file
  bool converted = false;  ///< values have another form in memory, so that they pass through a staging buffer
};

/// From where to where a pass over a variable brings its cells.
enum class Pass : std::uint8_t {
  whole,  ///< from the input to the output
  store,  ///< from the input to a scratch file, as they lie in the input
  fetch,  ///< from the scratch file to the output
};

/// A rewrite that is to be cut into rounds; the same on all ranks.
struct TilingTask {
  Indices extents;      ///< in the source's order of axes
  Indices permutation;  ///< target axis `a` is source axis `permutation[a]`
  Storage source;
  Storage target;
  Index value_bytes = 4;      ///< of one value in memory
  int num_ranks = 1;          ///< that read
  std::vector<int> writers;   ///< ranks that write, in increasing order
  bool shared_memory = true;  ///< all ranks are on one node, with memory that they share
  bool one_node = false;      ///< all ranks are on one node, so that they can share a scratch file
  Index budget = 0;           ///< bytes of one rank
  Pass pass = Pass::whole;
};

/// Whether a rank's part of a round stays where it was read.
enum class Move : std::uint8_t {
  none,     ///< the same cells in the same order: one buffer
  local,    ///< the same cells in another order: no messages
  between,  ///< ranks exchange cells
  fetched,  ///< a rank takes the cells that it writes from a scratch file, and brings them in order on the way
};

/// The rounds of a rewrite: tiles of the variable, each read, moved and written by all ranks together.
///
/// Tiles start at multiples of `tile` and hold whole target chunks. In a tile each rank reads a box that ends at source
/// chunks where that is possible, and writes a box of whole target chunks.
/// Example: 100 x 60 cells in tiles of 50 x 60: two rounds; 2 ranks read 25 rows each and write 30 columns each.
class Tiling {
 public:
  [[nodiscard]] Index num_rounds() const;
  /// The cells of a round, in source axes.
  [[nodiscard]] Box round(Index number) const;
  /// Who reads what of a round: coordinates count from the round's first cell, axes are the source's.
  [[nodiscard]] Layout readers(Box const& round) const;
  /// Who writes what: the same for the target's axes.
  [[nodiscard]] Layout writers(Box const& round) const;

  TilingTask task;
  Indices tile;         ///< cells of a round along each source axis
  Indices reader_grid;  ///< ranks along each source axis
  Indices writer_grid;  ///< ranks along each target axis
  Move move = Move::none;
  Index read_cells = 0;       ///< the most that a rank reads in a round
  Index written_cells = 0;    ///< the most that a rank writes in a round
  Index scratch_bytes = 0;    ///< the most that one read or write needs beside the buffers
  Index message_bytes = 0;    ///< for messages between ranks
  Index piece_bytes = 0;      ///< moved in one access to a scratch file
  Index workspace_bytes = 0;  ///< of one rank: buffers, scratch, messages and a piece
  double read_factor = 1;     ///< source chunks read, all ranks and rounds together, per source chunk
  double cost = 0;            ///< estimated seconds
};

/// The rounds of least estimated time within the budget.
/// @throws `BudgetTooSmall` (usage), which states the least budget that suffices
[[nodiscard]] Tiling make_tiling(TilingTask const& task);

/// The passes of a rewrite.
struct Passes {
  std::optional<Tiling> store;  ///< the first of two, by way of a scratch file
  Tiling last;                  ///< writes the output

  /// Times that a chunk of the input is read.
  [[nodiscard]] double read_factor() const { return store ? store->read_factor : last.read_factor; }
  [[nodiscard]] Index num_rounds() const { return last.num_rounds() + (store ? store->num_rounds() : 0); }
};

/// One pass, or two where all ranks are on one node and reading chunks of the input again would take longer than a
/// scratch file of all cells. @throws as `make_tiling`
[[nodiscard]] Passes make_passes(TilingTask const& task);
/// A pass over the source of `task` alone, by all ranks, which reads each of its chunks once.
[[nodiscard]] TilingTask source_task(TilingTask task);

/// Where a block of cells begins in the scratch file, in cells. Rounds, then the parts of ranks, then blocks follow
/// each other in row-major order, each in one piece.
/// @pre the blocks are the cells of an orthogonal grid
/// Example: 4 x 6 cells in one round of one rank, blocks of 2 x 3: that at (2, 3) begins at cell 18.
[[nodiscard]] Index place_in_scratch(Box const& variable, Box const& round, Box const& part, Box const& block);

/// Bytes of one rank without which there are no rounds.
[[nodiscard]] Index least_budget(TilingTask const& task);

/// Most rows along the first axis of `box` that are moved in one call, a multiple of the chunk: about 8 MiB where a
/// call needs scratch memory of that size, else all.
[[nodiscard]] Index rows_at_once(Storage const& storage, Box const& box);

/// True where chunks are brought in order one by one before they are written: their rows are too short for HDF5 to
/// gather.
/// @param extents of the variable, in the file's order of axes
[[nodiscard]] bool gathers_chunks(Storage const& storage, Indices const& extents);

/// `sizes` of `num_parts` parts of `[lo, hi)` that end at multiples of `chunk`, as even as possible; some may be empty.
/// Example: [0, 10) in chunks of 4, 2 parts: 8 and 2.
[[nodiscard]] std::vector<Index> aligned_parts(Index lo, Index hi, Index chunk, Index num_parts);

}  // namespace graticule::archive
