// SPDX-License-Identifier: BSD-3-Clause
// Rows of strided tasks; a row is the fastest axis.
#pragma once

#include <graticule/repartition/detail/strided.hpp>

namespace graticule::detail {

/// Offsets of the rows of a task, one after the other; with `num_inner` 2, of its planes.
class RowWalk {
 public:
  RowWalk(StridedTask const& task, Index row, int num_inner = 1) : task_(task), last_(task.ndim - 1 - num_inner) {
    for (int a = last_; a >= 0; --a) {
      auto const k = std::size_t(a);
      at_[k] = row % task.extent[k];
      row /= task.extent[k];
      to_ += at_[k] * task.to_stride[k];
      from_ += at_[k] * task.from_stride[k];
    }
  }
  [[nodiscard]] Index to() const noexcept { return to_; }
  [[nodiscard]] Index from() const noexcept { return from_; }
  [[nodiscard]] Index at(int axis) const noexcept { return at_[std::size_t(axis)]; }
  void next() noexcept {
    for (int a = last_; a >= 0; --a) {
      auto const k = std::size_t(a);
      to_ += task_.to_stride[k];
      from_ += task_.from_stride[k];
      if (++at_[k] < task_.extent[k]) return;
      to_ -= task_.extent[k] * task_.to_stride[k];
      from_ -= task_.extent[k] * task_.from_stride[k];
      at_[k] = 0;
    }
  }

 private:
  StridedTask const& task_;
  int last_;  ///< the fastest of the axes that are walked
  std::array<Index, max_ndim> at_{};
  Index to_ = 0;
  Index from_ = 0;
};

/// Rows that add to the same cells; one thread takes them all.
[[nodiscard]] inline Index rows_of_one_sum(StridedTask const& task) {
  Index result = 1;
  for (int a = task.ndim - task.num_sum_axes; a < task.ndim - 1; ++a) result *= task.extent[std::size_t(a)];
  return result;
}

/// Elements from which on a task may be permuted or streamed.
inline constexpr Index fewest_permuted = 256;

/// Runs rows `[first, last)` of a task.
using Rows = void (*)(StridedTask const& task, Index first, Index last);

/// Of transforms; of a sum, all rows of a cell.
void run_transform_rows(StridedTask const& task, Index first, Index last);

/// True for copies with long runs, which streaming makes faster where they leave the caches anyway.
[[nodiscard]] bool can_stream(StridedTask const& task);
void stream_rows(StridedTask const& task, Index first, Index last);
/// The same task with its rows in the order in which they lie in `from`: hardware fetches ahead of reads, while
/// streamed lines may be written anywhere. @pre `can_stream(task)`
[[nodiscard]] StridedTask in_order_of_source(StridedTask const& task);

/// Rows that arrive in blocks and leave past the caches, in whole cache lines wherever they lie: what does not fill a
/// line waits for the next block. Half a line streamed would be read back, and one that is written in two halves, too.
///
/// Blocks are written to a buffer, whose rows lie to the cache lines as those of the target do.
class StreamedRows {
 public:
  static constexpr Index line = 64;  ///< bytes of a cache line
  static constexpr Index most_rows = 128;
  static constexpr Index most_bytes = 32768;  ///< of a block
  /// @param to row 0; the others follow `step` bytes apart
  /// @pre no more than `most_rows` rows; all blocks but the last have `block_bytes` bytes a row, 128 at least
  StreamedRows(std::byte* to, Index step, Index num_rows, Index block_bytes);
  /// Where row 0 of the next block begins; the others follow `pitch()` bytes apart.
  [[nodiscard]] std::byte* next() noexcept { return buffer_.data() + place_; }
  [[nodiscard]] Index pitch() const noexcept { return pitch_; }
  /// Memory that is read next: `count` runs of `bytes`, `pitch` bytes apart.
  struct Ahead {
    std::byte const* first = nullptr;
    Index count = 0;
    Index bytes = 0;
    Index pitch = 0;
  };
  /// Sends the next `bytes` bytes of each row, and fetches what is ahead meanwhile.
  void send(Index bytes, Ahead const& ahead);
  /// Writes what waits.
  void end();

 private:
  std::byte* to_;
  Index step_;
  Index num_rows_;
  Index pitch_;
  Index place_;     ///< of the next block in the buffer: as far from a cache line as it is in the target
  Index sent_ = 0;  ///< bytes of each row that came
  alignas(line) std::array<std::byte, std::size_t(most_bytes + most_rows * 3 * line + line)> buffer_;
};

/// True where the fastest axis of `from` is another one than that of `to`, and blocks of both pay.
[[nodiscard]] bool is_permuted(StridedTask const& task);

/// A permuted task as patches of blocks: columns are cells along the fastest axis of `to`, rows along that of `from`.
class Tiles {
 public:
  /// @pre is_permuted(task)
  explicit Tiles(StridedTask const& task);
  [[nodiscard]] Index num_patches() const noexcept { return num_patches_; }
  /// Runs patches `[first, last)`; `rows` runs the task on rows that are dense in `from`.
  void run(Rows rows, Index first, Index last) const;

 private:
  struct Patch {
    Index row;
    Index rows_end;
    Index column;
    Index columns_end;
  };
  void run_patch(Rows rows, RowWalk const& start, Patch const& patch) const;
  /// The rows `part` of a patch. @param to, from where they begin, in elements from the first of the task
  void run_blocks(Rows rows, Patch const& part, Index to, Index from) const;
  void stream_blocks(Patch const& part, Index to, Index from) const;
  /// The same without a buffer; false, and nothing is done, where cache lines of the target's rows do not begin in the
  /// same columns.
  [[nodiscard]] bool stream_lines(RowWalk const& start, Patch const& part, Index to, Index from) const;
  /// Rows of a part in the order of memory: rows of the target that end where others begin share a cache line with
  /// them.
  struct Neighbors {
    Index num_first;     ///< of its rows, from the first on: no row of the task ends where they begin
    Index num_followed;  ///< of its rows, from the first on: a row of the task begins where they end
    Index from;          ///< how far away that one is in `from`
  };
  [[nodiscard]] Neighbors neighbors_of(RowWalk const& start, Patch const& part) const;

  StridedTask task_;  ///< the last axes are columns and rows
  bool streams_;
  Index rows_ = 1;  ///< of a block
  Index columns_ = 1;
  Index patch_rows_ = 1;
  Index patch_columns_ = 1;
  Index num_patches_ = 1;
};

}  // namespace graticule::detail
