// SPDX-License-Identifier: BSD-3-Clause
// Long messages in pieces: transfers cut into blocks, blocks joined to segments, alike on both sides of a message.
#pragma once

#include "table/pull_table.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace graticule::detail {

/// What the cutting of a field depends on; equal on all ranks.
struct BlockField {
  int kind = 0;
  Indices batch;         ///< extents of the batch axes
  Index cell_bytes = 0;  ///< of one element on its way
};

/// Some cells of one transfer of one field: `[lo, lo + extents)` over its batch axes, then its target's axes.
struct Block {
  int field = 0;
  int transfer = 0;
  Indices lo;
  Indices extents;
  std::size_t offset = 0;  ///< bytes in the segment before it
};

/// Walks over all blocks of some transfers, in an order that depends on its arguments only.
///
/// A block is at least a cache line long on the axes that are likely to be contiguous in the source or in the target,
/// so that a permutation moves whole lines on both sides; beyond that it is as long as it can be on the target's last
/// axis.
class BlockCursor {
 public:
  /// @pre what the spans name outlives the walk
  void reset(std::span<Transfer const> transfers, std::span<BlockField const> fields, std::size_t block_bytes);

  [[nodiscard]] bool done() const noexcept { return done_; }
  /// The block at hand; its offset is not set. @pre `!done()`
  [[nodiscard]] Block const& block() const noexcept { return block_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  void advance();
  /// Leaves out the rest.
  void finish() noexcept { done_ = true; }

  /// The blocks of the next segment of at most `segment_bytes`, each aligned to 16 bytes. @return the segment's bytes
  /// @pre blocks are no longer than segments
  std::size_t take_segment(std::size_t segment_bytes, std::vector<Block>& blocks);

 private:
  void find_transfer();
  void open_transfer();
  void set_block();

  std::span<Transfer const> transfers_;
  std::span<BlockField const> fields_;
  std::size_t block_bytes_ = 0;
  Indices extents_;
  Indices tile_;
  Block block_;
  std::size_t bytes_ = 0;
  bool done_ = true;
};

/// Segments that a walk over the same blocks makes, and their bytes all together.
struct SegmentCount {
  std::size_t segments = 0;
  std::size_t bytes = 0;
};

[[nodiscard]] SegmentCount count_segments(BlockCursor cursor, std::size_t segment_bytes);

/// Alignment of blocks in a segment and of segments in memory.
inline constexpr std::size_t block_alignment = 16;
[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes, std::size_t alignment) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace graticule::detail
