// SPDX-License-Identifier: BSD-3-Clause
// Permuted axes on the host: where the fastest axis of `from` is not that of `to`, blocks of both axes are transposed
// into a buffer that stays in the cache, and leave it as rows of `to`. Both sides move whole cache lines, whatever the
// strides.
#include <graticule/repartition/detail/copy_kernels.hpp>

#include "element.hpp"
#include "strided_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define GRATICULE_WIDE_LOOPS 1
#include <immintrin.h>
#endif

namespace graticule::detail {

namespace {

constexpr Index buffer_bytes = 16384;
/// Bytes that a block takes of a column, at most, where both axes are long.
constexpr Index row_bytes = 512;
/// Columns of a patch, unless that leaves too few patches to share among threads.
constexpr Index most_columns = 512;
constexpr Index fewest_patches = 16;

Index parts(Index count, Index size) { return (count + size - 1) / size; }

/// The axis other than the last along which `from` moves least; -1 if there is none.
int fast_axis_of_from(StridedTask const& task) {
  int result = -1;
  for (int a = 0; a < task.ndim - 1; ++a) {
    auto const stride = std::abs(task.from_stride[std::size_t(a)]);
    if (stride != 0 && (result < 0 || stride < std::abs(task.from_stride[std::size_t(result)]))) result = a;
  }
  return result;
}

#ifdef __SSE2__
template <int bytes>
__m128i low_interleaved(__m128i a, __m128i b) {
  if constexpr (bytes == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (bytes == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (bytes == 4) return _mm_unpacklo_epi32(a, b);
  return _mm_unpacklo_epi64(a, b);
}

template <int bytes>
__m128i high_interleaved(__m128i a, __m128i b) {
  if constexpr (bytes == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (bytes == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (bytes == 4) return _mm_unpackhi_epi32(a, b);
  return _mm_unpackhi_epi64(a, b);
}

/// Transposes a square whose rows fill a register: as many rounds of interleaving both halves as it takes bits to count
/// the rows.
template <class T>
void transpose_square(T* to, Index to_pitch, T const* from, Index from_pitch) {
  constexpr int side = 16 / int(sizeof(T));
  __m128i rows[side];
  for (int i = 0; i < side; ++i) rows[i] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + i * from_pitch));
#pragma GCC unroll 4
  for (int round = 1; round < side; round *= 2) {
    __m128i next[side];
#pragma GCC unroll 8
    for (int i = 0; i < side / 2; ++i) {
      next[2 * i] = low_interleaved<sizeof(T)>(rows[i], rows[i + side / 2]);
      next[2 * i + 1] = high_interleaved<sizeof(T)>(rows[i], rows[i + side / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < side; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < side; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * to_pitch), rows[i]);
}
#endif

#ifdef GRATICULE_WIDE_LOOPS
template <int bytes>
__attribute__((target("avx2"))) inline __m256i low_of_halves(__m256i a, __m256i b) {
  return bytes == 4 ? _mm256_unpacklo_epi32(a, b) : _mm256_unpacklo_epi64(a, b);
}

template <int bytes>
__attribute__((target("avx2"))) inline __m256i high_of_halves(__m256i a, __m256i b) {
  return bytes == 4 ? _mm256_unpackhi_epi32(a, b) : _mm256_unpackhi_epi64(a, b);
}

/// The same for registers of 32 bytes and elements of 4 or 8: the halves of registers are transposed like small
/// squares, and then exchanged.
template <class T>
__attribute__((target("avx2"))) inline void transpose_wide_square(T* to, Index to_pitch, T const* from,
                                                                  Index from_pitch) {
  constexpr int side = 32 / int(sizeof(T));
  constexpr int half = side / 2;
  __m256i rows[side];
#pragma GCC unroll 8
  for (int i = 0; i < side; ++i) rows[i] = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from + i * from_pitch));
#pragma GCC unroll 2
  for (int round = 1; round < half; round *= 2) {
    __m256i next[side];
#pragma GCC unroll 2
    for (int first = 0; first < side; first += half)
#pragma GCC unroll 2
      for (int i = 0; i < half / 2; ++i) {
        next[first + 2 * i] = low_of_halves<sizeof(T)>(rows[first + i], rows[first + i + half / 2]);
        next[first + 2 * i + 1] = high_of_halves<sizeof(T)>(rows[first + i], rows[first + i + half / 2]);
      }
#pragma GCC unroll 8
    for (int i = 0; i < side; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < half; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * to_pitch),
                        _mm256_permute2x128_si256(rows[i], rows[half + i], 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (half + i) * to_pitch),
                        _mm256_permute2x128_si256(rows[i], rows[half + i], 0x31));
  }
}
#endif

/// A block with `rows` rows of `columns` cells; in `from`, cells of a column are `stride` apart and columns `pitch`.
struct Block {
  Index rows;
  Index columns;
  Index stride;
  Index pitch;
  Index to_pitch;      ///< from row to row of the buffer
  Index columns_left;  ///< from the first of this block on, where more blocks follow
};

/// Fetches `rows` elements into the cache. Columns are far apart, so that no hardware sees them come.
template <class T>
void prefetch(T const* from, Index rows, Index stride) {
  constexpr Index line_bytes = 64;
  Index const step = std::max<Index>(1, line_bytes / (Index(sizeof(T)) * std::abs(stride)));
  for (Index i = 0; i < rows; i += step) __builtin_prefetch(from + i * stride);
  // Columns that begin within a line end in one more.
  __builtin_prefetch(from + (rows - 1) * stride);
}

/// Gathers a block as rows.
template <class T>
void transpose(void* buffer, void const* first, Block const& block) {
  // In columns; about what arrives while a miss lasts.
  Index const ahead = std::max<Index>(8, 4096 / (block.rows * Index(sizeof(T))));
  constexpr Index side = 16 / Index(sizeof(T));
  auto* const to = static_cast<T*>(buffer);
  auto const* const from = static_cast<T const*>(first);
  for (Index column = 0; column < block.columns; column += side) {
    Index const count = std::min(side, block.columns - column);
    for (Index j = column + ahead; j < std::min(column + ahead + count, block.columns_left); ++j)
      prefetch(from + j * block.pitch, block.rows, block.stride);
    Index i = 0;
#ifdef __SSE2__
    if constexpr (side > 1)
      if (block.stride == 1 && count == side)
        for (; i + side <= block.rows; i += side)
          transpose_square(to + i * block.to_pitch + column, block.to_pitch, from + column * block.pitch + i,
                           block.pitch);
#endif
    for (; i < block.rows; ++i)
      for (Index j = column; j < column + count; ++j)
        to[i * block.to_pitch + j] = from[j * block.pitch + i * block.stride];
  }
}

#ifdef GRATICULE_WIDE_LOOPS
/// The same in wider registers.
template <class T>
__attribute__((target("avx2"))) void transpose_wide(void* buffer, void const* first, Block const& block) {
  constexpr Index side = 32 / Index(sizeof(T));
  if (block.stride != 1) return transpose<T>(buffer, first, block);
  Index const ahead = std::max<Index>(side, 4096 / (block.rows * Index(sizeof(T))));
  auto* const to = static_cast<T*>(buffer);
  auto const* const from = static_cast<T const*>(first);
  Index const rows = block.rows / side * side;
  Index const columns = block.columns / side * side;
  for (Index column = 0; column < columns; column += side) {
    for (Index j = column + ahead; j < std::min(column + ahead + side, block.columns_left); ++j)
      prefetch(from + j * block.pitch, block.rows, 1);
    for (Index i = 0; i < rows; i += side)
      transpose_wide_square(to + i * block.to_pitch + column, block.to_pitch, from + column * block.pitch + i,
                            block.pitch);
    for (Index i = rows; i < block.rows; ++i)
      for (Index j = column; j < column + side; ++j) to[i * block.to_pitch + j] = from[j * block.pitch + i];
  }
  if (columns == block.columns) return;
  Block rest = block;
  rest.columns -= columns;
  rest.columns_left -= columns;
  transpose<T>(to + columns, from + columns * block.pitch, rest);
}
/// Lines of the target that are sent past the caches when they are full.
template <class T>
class Lines {
 public:
  static constexpr Index length = 64 / Index(sizeof(T));

  /// @param to_pitch from line to line, a number of lines
  Lines(void* to, Index to_pitch) : to_(static_cast<T*>(to)), to_pitch_(to_pitch) {}
  [[nodiscard]] T* next() noexcept { return lines_.data(); }
  /// Lines that were filled from `next()` on, `length` apart, become those of rows `row` and on.
  __attribute__((target("avx2"))) void send(Index row, Index column, Index count) noexcept {
    for (Index i = 0; i < count; ++i) {
      auto* const target = reinterpret_cast<__m256i*>(to_ + (row + i) * to_pitch_ + column);
      auto const* const line = reinterpret_cast<__m256i const*>(lines_.data() + i * length);
      _mm256_stream_si256(target, _mm256_load_si256(line));
      _mm256_stream_si256(target + 1, _mm256_load_si256(line + 1));
    }
  }

 private:
  T* to_;
  Index to_pitch_;
  alignas(64) std::array<T, std::size_t(length* length / 2)> lines_;
};

/// Transposes a block whose columns fill lines of the target straight past the caches. Lines leave at once, so that few
/// columns are read at a time: long strides put all of them into the same few places of a cache.
template <class T>
__attribute__((target("avx2"))) void stream_transposed(void* to, void const* first, Block const& block) {
  constexpr Index length = Lines<T>::length;
  constexpr Index side = length / 2;
  Lines<T> lines(to, block.to_pitch);
  for (Index j = 0; j < length; ++j) prefetch(static_cast<T const*>(first) + j * block.pitch, block.rows, 1);
  for (Index column = 0; column < block.columns; column += length) {
    auto const* const from = static_cast<T const*>(first) + column * block.pitch;
    Index const ahead = std::min(2 * length, block.columns_left - column);
    Index i = 0;
    for (; i + side <= block.rows; i += side) {
      if (i % length == 0)
        for (Index j = length; j < ahead; ++j) __builtin_prefetch(from + j * block.pitch + i);
      else if (i + length >= block.rows)
        for (Index j = length; j < ahead; ++j) __builtin_prefetch(from + j * block.pitch + block.rows - 1);
      transpose_wide_square(lines.next(), length, from + i, block.pitch);
      transpose_wide_square(lines.next() + side, length, from + side * block.pitch + i, block.pitch);
      lines.send(i, column, side);
    }
    for (; i < block.rows; ++i) {
      for (Index j = 0; j < length; ++j) lines.next()[j] = from[j * block.pitch + i];
      lines.send(i, column, 1);
    }
  }
}

/// Lines of the target that begin in the last columns of its rows and end in the first ones of those that follow in
/// memory: `block.columns` from `first` on and the rest from `following` on.
template <class T>
void stream_seams(void* to, void const* first, void const* following, Block const& block) {
  constexpr Index length = Lines<T>::length;
  Lines<T> lines(to, block.to_pitch);
  auto const* const head = static_cast<T const*>(first);
  auto const* const tail = static_cast<T const*>(following) - block.columns * block.pitch;
  for (Index j = 0; j < length; ++j) prefetch((j < block.columns ? head : tail) + j * block.pitch, block.rows, 1);
  for (Index i = 0; i < block.rows; ++i) {
    for (Index j = 0; j < block.columns; ++j) lines.next()[j] = head[j * block.pitch + i];
    for (Index j = block.columns; j < length; ++j) lines.next()[j] = tail[j * block.pitch + i];
    lines.send(i, 0, 1);
  }
}
#endif

using Transpose = void (*)(void* buffer, void const* first, Block const& block);

Transpose transpose_of(Index element_bytes) {
#ifdef GRATICULE_WIDE_LOOPS
  if (__builtin_cpu_supports("avx2") != 0) {
    if (element_bytes == 4) return transpose_wide<std::uint32_t>;
    if (element_bytes == 8) return transpose_wide<std::uint64_t>;
  }
#endif
  switch (element_bytes) {
    case 1: return transpose<std::uint8_t>;
    case 2: return transpose<std::uint16_t>;
    case 4: return transpose<std::uint32_t>;
    case 8: return transpose<std::uint64_t>;
    default: return transpose<Complex<double>>;
  }
}

/// Kernels that send lines at once; null where there are none.
struct LineKernels {
  Transpose block = nullptr;
  void (*seams)(void* to, void const* first, void const* following, Block const& block) = nullptr;
};

LineKernels line_kernels(Index element_bytes) {
#ifdef GRATICULE_WIDE_LOOPS
  if (copy_kernel().bypasses_caches && __builtin_cpu_supports("avx2") != 0) {
    if (element_bytes == 4) return {stream_transposed<std::uint32_t>, stream_seams<std::uint32_t>};
    if (element_bytes == 8) return {stream_transposed<std::uint64_t>, stream_seams<std::uint64_t>};
  }
#endif
  static_cast<void>(element_bytes);
  return {};
}

void clear_block(void* first, Block const& block, Index element_bytes) {
  auto* const cells = static_cast<std::byte*>(first);
  for (Index j = 0; j < block.columns; ++j)
    for (Index i = 0; i < block.rows; ++i)
      std::memset(cells + (j * block.pitch + i * block.stride) * element_bytes, 0, std::size_t(element_bytes));
}

}  // namespace

bool is_permuted(StridedTask const& task) {
  if (task.op == StridedOp::fill || task.num_sum_axes > 0 || task.num_elements() < fewest_permuted) return false;
  int const axis = fast_axis_of_from(task);
  if (axis < 0) return false;
  auto const fast = std::size_t(axis);
  auto const inner = std::size_t(task.ndim) - 1;
  constexpr Index shortest = 4;
  return std::abs(task.from_stride[fast]) < std::abs(task.from_stride[inner]) && task.extent[fast] >= shortest &&
         task.extent[inner] >= shortest;
}

Tiles::Tiles(StridedTask const& task) : task_(task), streams_(can_stream(task)) {
  auto const fast = std::ptrdiff_t(fast_axis_of_from(task));
  auto const to_last = [&](std::array<Index, max_ndim>& values) {
    std::rotate(values.begin() + fast, values.begin() + fast + 1, values.begin() + task.ndim);
  };
  to_last(task_.extent);
  to_last(task_.to_stride);
  to_last(task_.from_stride);
  Index const bytes = size_of(task.from_dtype);
  // Longer runs where blocks leave past the caches.
  Index const cells = (streams_ ? StreamedRows::most_bytes : buffer_bytes) / bytes;
  Index const num_rows = task_.extent[std::size_t(task.ndim) - 1];
  Index const num_columns = task_.extent[std::size_t(task.ndim) - 2];
  Index const most_rows = streams_ ? std::min(num_rows, StreamedRows::most_rows) : num_rows;
  rows_ = std::min(most_rows, row_bytes / bytes);
  columns_ = std::min(num_columns, cells / rows_);
  rows_ = std::min(most_rows, cells / columns_);
  Index const outer = task.num_elements() / num_rows / num_columns;
  patch_rows_ = 2 * rows_;
  patch_columns_ = std::max(columns_, most_columns / columns_ * columns_);
  auto const count = [&] { return outer * parts(num_rows, patch_rows_) * parts(num_columns, patch_columns_); };
  while (count() < fewest_patches && patch_columns_ > columns_)
    patch_columns_ = parts(patch_columns_ / columns_, 2) * columns_;
  num_patches_ = count();
}

void Tiles::run(Rows run_rows, Index first, Index last) const {
  Index const num_rows = task_.extent[std::size_t(task_.ndim) - 1];
  Index const num_columns = task_.extent[std::size_t(task_.ndim) - 2];
  Index const across = parts(num_columns, patch_columns_);
  Index const each = parts(num_rows, patch_rows_) * across;
  RowWalk walk(task_, first / each, 2);
  for (Index patch = first; patch < last; ++patch) {
    Index const row = patch % each / across * patch_rows_;
    Index const column = patch % across * patch_columns_;
    run_patch(run_rows, walk,
              {row, std::min(row + patch_rows_, num_rows), column, std::min(column + patch_columns_, num_columns)});
    if ((patch + 1) % each == 0) walk.next();
  }
}

void Tiles::run_patch(Rows run_rows, RowWalk const& start, Patch const& patch) const {
  auto const along = std::size_t(task_.ndim) - 1;
  auto const across = along - 1;
  for (Index row = patch.row; row < patch.rows_end; row += rows_) {
    Patch const part{row, std::min(row + rows_, patch.rows_end), patch.column, patch.columns_end};
    Index const to = start.to() + row * task_.to_stride[along] + patch.column * task_.to_stride[across];
    Index const from = start.from() + row * task_.from_stride[along] + patch.column * task_.from_stride[across];
    if (streams_ && stream_lines(start, part, to, from)) continue;
    if (streams_)
      stream_blocks(part, to, from);
    else
      run_blocks(run_rows, part, to, from);
  }
}

void Tiles::run_blocks(Rows run_rows, Patch const& part, Index to, Index from) const {
  alignas(64) std::array<std::byte, std::size_t(buffer_bytes)> buffer;
  auto const along = std::size_t(task_.ndim) - 1;
  auto const across = along - 1;
  Index const to_bytes = size_of(task_.dtype);
  Index const from_bytes = size_of(task_.from_dtype);
  Transpose const transpose_block = transpose_of(from_bytes);
  StridedTask rows = task_;
  rows.from = buffer.data();
  rows.ndim = 2;
  rows.to_stride = {task_.to_stride[along], task_.to_stride[across]};
  rows.clear_from = false;
  Block block{part.rows_end - part.row, 0, task_.from_stride[along], task_.from_stride[across], 0, 0};
  for (Index column = part.column; column < part.columns_end; column += columns_) {
    block.columns_left = part.columns_end - column;
    block.columns = block.to_pitch = std::min(columns_, block.columns_left);
    Index const first = column - part.column;
    auto const* read = static_cast<std::byte const*>(task_.from) + (from + first * block.pitch) * from_bytes;
    transpose_block(buffer.data(), read, block);
    if (task_.clear_from) clear_block(const_cast<std::byte*>(read), block, from_bytes);
    rows.to = static_cast<std::byte*>(task_.to) + (to + first * task_.to_stride[across]) * to_bytes;
    rows.extent = {block.rows, block.columns};
    rows.from_stride = {block.columns, 1};
    run_rows(rows, 0, block.rows);
  }
}

Tiles::Neighbors Tiles::neighbors_of(RowWalk const& start, Patch const& part) const {
  int const along = task_.ndim - 1;
  Index const num_rows = part.rows_end - part.row;
  for (int a = 0; a < task_.ndim; ++a) {
    auto const axis = std::size_t(a);
    if (a == along - 1 || task_.to_stride[axis] != task_.extent[std::size_t(along) - 1]) continue;
    if (a == along)
      return {part.row == 0 ? 1 : 0, std::min(num_rows, task_.extent[axis] - 1 - part.row), task_.from_stride[axis]};
    Index const at = start.at(a);
    return {at == 0 ? num_rows : 0, at + 1 < task_.extent[axis] ? num_rows : 0, task_.from_stride[axis]};
  }
  return {num_rows, 0, 0};
}

bool Tiles::stream_lines(RowWalk const& start, Patch const& part, Index to, Index from) const {
  auto const along = std::size_t(task_.ndim) - 1;
  Index const bytes = size_of(task_.dtype);
  Index const length = StreamedRows::line / bytes;
  auto* const write = static_cast<std::byte*>(task_.to) + to * bytes;
  auto const* const read = static_cast<std::byte const*>(task_.from) + from * bytes;
  auto const place = Index(reinterpret_cast<std::uintptr_t>(write) % std::uintptr_t(StreamedRows::line));
  auto const kernels = line_kernels(bytes);
  if (!kernels.block || task_.from_stride[along] != 1 || task_.to_stride[along] % length != 0 || place % bytes != 0)
    return false;
  // Columns are counted from the first of this part. Parts that follow one another meet where a line begins.
  Index const num_columns = task_.extent[along - 1] - part.column;
  Index const next_line = (StreamedRows::line - place) % StreamedRows::line / bytes;
  auto const meeting = [&](Index column) {
    Index const lines = column > next_line ? parts(column - next_line, length) : 0;
    return std::min(num_columns, next_line + lines * length);
  };
  Index const last = meeting(part.columns_end - part.column);
  Index const begin = std::min(next_line, last);
  Index const end = begin + (last - begin) / length * length;
  Block block{0, 0, 1, task_.from_stride[along - 1], task_.to_stride[along], 0};
  auto const run = [&](Transpose kernel, Index row, Index rows_end, Index column, Index columns_end,
                       Index columns_left) {
    block.rows = rows_end - row;
    block.columns = columns_end - column;
    block.columns_left = columns_left;
    if (block.rows > 0 && block.columns > 0)
      kernel(write + (row * block.to_pitch + column) * bytes, read + (column * block.pitch + row) * bytes, block);
  };
  Index const num_rows = part.rows_end - part.row;
  run(kernels.block, 0, num_rows, begin, end, num_columns - begin);
  auto const neighbors = neighbors_of(start, part);
  auto const copy = transpose_of(bytes);
  if (part.column == 0) run(copy, 0, neighbors.num_first, 0, begin, begin);
  if (last == num_columns) {
    block.rows = neighbors.num_followed;
    block.columns = last - end;
    auto const* const following = read + (neighbors.from - part.column * block.pitch) * bytes;
    if (block.rows > 0 && block.columns > 0)
      kernels.seams(write + end * bytes, read + end * block.pitch * bytes, following, block);
    run(copy, neighbors.num_followed, num_rows, end, last, last - end);
  }
  store_fence();
  return true;
}

void Tiles::stream_blocks(Patch const& part, Index to, Index from) const {
  auto const along = std::size_t(task_.ndim) - 1;
  Index const bytes = size_of(task_.dtype);
  Transpose const transpose_block = transpose_of(bytes);
  Block block{part.rows_end - part.row, 0, task_.from_stride[along], task_.from_stride[along - 1], 0, 0};
  StreamedRows out(static_cast<std::byte*>(task_.to) + to * bytes, task_.to_stride[along] * bytes, block.rows,
                   columns_ * bytes);
  block.to_pitch = out.pitch() / bytes;
  for (Index column = part.column; column < part.columns_end; column += columns_) {
    block.columns_left = part.columns_end - column;
    block.columns = std::min(columns_, block.columns_left);
    auto const* read =
        static_cast<std::byte const*>(task_.from) + (from + (column - part.column) * block.pitch) * bytes;
    transpose_block(out.next(), read, block);
    StreamedRows::Ahead ahead;
    if (block.stride == 1 && block.columns_left > block.columns)
      ahead = {read + block.columns * block.pitch * bytes, std::min(columns_, block.columns_left - block.columns),
               block.rows * bytes, block.pitch * bytes};
    out.send(block.columns * bytes, ahead);
  }
  out.end();
}

}  // namespace graticule::detail
