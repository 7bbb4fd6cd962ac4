// SPDX-License-Identifier: BSD-3-Clause
// Copies past the caches: memory that is written whole need not be read first, and nothing useful is driven out.
#include "strided_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace graticule::detail {

namespace {

constexpr std::size_t line_bytes = 64;

#ifdef __SSE2__
void stream_line(std::byte* to, std::byte const* from) {
  auto const* const source = reinterpret_cast<__m128i const*>(from);
  auto* const target = reinterpret_cast<__m128i*>(to);
  __m128i const a = _mm_loadu_si128(source);
  __m128i const b = _mm_loadu_si128(source + 1);
  __m128i const c = _mm_loadu_si128(source + 2);
  __m128i const d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
}

/// Keeps the line in the cache; both begin lines.
void copy_line(std::byte* to, std::byte const* from) {
  auto const* const source = reinterpret_cast<__m128i const*>(from);
  auto* const target = reinterpret_cast<__m128i*>(to);
  __m128i const a = _mm_load_si128(source);
  __m128i const b = _mm_load_si128(source + 1);
  __m128i const c = _mm_load_si128(source + 2);
  __m128i const d = _mm_load_si128(source + 3);
  _mm_store_si128(target, a);
  _mm_store_si128(target + 1, b);
  _mm_store_si128(target + 2, c);
  _mm_store_si128(target + 3, d);
}

/// Whole cache lines of `to` are streamed, the rest goes through the caches: half a line streamed would be read back.
void stream(std::byte* to, std::byte const* from, std::size_t bytes) {
  std::size_t at = (line_bytes - reinterpret_cast<std::uintptr_t>(to) % line_bytes) % line_bytes;
  at = std::min(at, bytes);
  std::memcpy(to, from, at);
  // Four pages at a time: hardware fetches ahead within each page, so that more of memory is under way. Eight lines of
  // each in turn: a load waits for an earlier store to the same place in another page, and large arrays often begin at
  // the same place.
  constexpr std::size_t page = 4096;
  constexpr std::size_t turn = 8 * line_bytes;
  for (; at + 4 * page <= bytes; at += 4 * page)
    for (std::size_t run = at; run < at + page; run += turn)
      for (std::size_t p = 0; p < 4; ++p)
        for (std::size_t line = run; line < run + turn; line += line_bytes)
          stream_line(to + line + p * page, from + line + p * page);
  for (; at + line_bytes <= bytes; at += line_bytes) stream_line(to + at, from + at);
  std::memcpy(to + at, from + at, bytes - at);
}
#endif

/// Bytes of a run from which on streaming pays: four pages, or less where reading does not jump.
Index least_run_bytes(StridedTask const& task) {
  auto const inner = std::size_t(task.ndim) - 1;
  bool const dense = task.ndim > 1 && 2 * std::abs(task.from_stride[inner - 1]) <= 3 * task.extent[inner];
  return dense || is_permuted(task) ? Index(2 * line_bytes) : 16384;
}

}  // namespace

bool can_stream(StridedTask const& task) {
#ifdef __SSE2__
  auto const inner = std::size_t(task.ndim) - 1;
  Index const bytes = size_of(task.dtype);
  return task.op == StridedOp::copy && !task.clear_from && task.ndim > 0 && task.to_stride[inner] == 1 &&
         (task.from_stride[inner] == 1 || is_permuted(task)) && task.extent[inner] * bytes >= least_run_bytes(task) &&
         (task.streams || task.num_elements() * bytes >= least_streamed_bytes);
#else
  (void)task;
  return false;
#endif
}

void stream_rows(StridedTask const& task, Index first, Index last) {
#ifdef __SSE2__
  auto const inner = std::size_t(task.ndim) - 1;
  Index const bytes = size_of(task.dtype);
  RowWalk walk(task, first);
  for (Index row = first; row < last; ++row, walk.next())
    stream(static_cast<std::byte*>(task.to) + walk.to() * bytes,
           static_cast<std::byte const*>(task.from) + walk.from() * bytes, std::size_t(task.extent[inner] * bytes));
  // What is stored after this, a flag that others wait for, is seen after the rows.
  _mm_sfence();
#else
  (void)task;
  (void)first;
  (void)last;
#endif
}

StreamedRows::StreamedRows(std::byte* to, Index step, Index num_rows, Index block_bytes)
    : to_(to),
      step_(step),
      num_rows_(num_rows),
      pitch_((block_bytes + 2 * line - 1) / line * line + (step % line + line) % line),
      place_(Index(reinterpret_cast<std::uintptr_t>(to) % line)) {}

void StreamedRows::send(Index bytes) {
#ifdef __SSE2__
  Index const next = (place_ + bytes) % line;
  for (Index row = 0; row < num_rows_; ++row) {
    auto* const first = buffer_.data() + place_ + row * pitch_;
    auto* const end = first + bytes;
    Index const held = (place_ + row * pitch_) % line;
    auto const* from = first - held;
    auto* to = to_ + row * step_ + sent_ - held;
    if (sent_ == 0 && held > 0 && from + line <= end) {  // The head of this line is not of this row.
      std::memcpy(to + held, first, std::size_t(line - held));
      from += line;
      to += line;
    }
    for (; from + line <= end; from += line, to += line) stream_line(to, from);
    copy_line(buffer_.data() + (next + row * pitch_) / line * line, from);
  }
  place_ = next;
  sent_ += bytes;
#else
  (void)bytes;
#endif
}

void StreamedRows::end() {
#ifdef __SSE2__
  for (Index row = 0; row < num_rows_; ++row) {
    Index const held = std::min((place_ + row * pitch_) % line, sent_);
    std::memcpy(to_ + row * step_ + sent_ - held, buffer_.data() + place_ + row * pitch_ - held, std::size_t(held));
  }
  // What is stored after this, a flag that others wait for, is seen after the rows.
  _mm_sfence();
#endif
}

}  // namespace graticule::detail
