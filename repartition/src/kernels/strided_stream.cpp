// SPDX-License-Identifier: BSD-3-Clause
// Copies past the caches: memory that is written whole need not be read first, and nothing useful is driven out.
#include <graticule/repartition/detail/copy_kernels.hpp>

#include "strided_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace graticule::detail {

namespace {

constexpr std::size_t line_bytes = 64;

/// Keeps the line in the cache. It may already lie there.
void copy_line(std::byte* to, std::byte const* from) {
  std::array<std::byte, line_bytes> line;
  std::memcpy(line.data(), from, line_bytes);
  std::memcpy(to, line.data(), line_bytes);
}

/// Bytes of a run from which on streaming pays: four pages, or less where reading does not jump. Where only writing
/// jumps, lines at both ends of a run are written twice.
Index least_run_bytes(StridedTask const& task) {
  auto const inner = std::size_t(task.ndim) - 1;
  auto const dense = [&](std::size_t axis) { return 2 * std::abs(task.from_stride[axis]) <= 3 * task.extent[inner]; };
  if (is_permuted(task) || (inner > 0 && dense(inner - 1))) return 2 * line_bytes;
  for (std::size_t axis = 0; axis < inner; ++axis)
    if (dense(axis)) return 8 * line_bytes;
  return 16384;
}

}  // namespace

bool can_stream(StridedTask const& task) {
  auto const inner = std::size_t(task.ndim) - 1;
  Index const bytes = size_of(task.dtype);
  return task.op == StridedOp::copy && !task.clear_from && task.ndim > 0 && task.to_stride[inner] == 1 &&
         (task.from_stride[inner] == 1 || is_permuted(task)) && task.extent[inner] * bytes >= least_run_bytes(task) &&
         writes_past_caches(std::size_t(task.streams ? least_streamed_bytes : task.num_elements() * bytes));
}

StridedTask in_order_of_source(StridedTask const& task) {
  StridedTask result = task;
  for (std::size_t i = 1; i + 1 < std::size_t(task.ndim); ++i)
    for (std::size_t j = i; j > 0 && std::abs(result.from_stride[j]) > std::abs(result.from_stride[j - 1]); --j) {
      std::swap(result.extent[j], result.extent[j - 1]);
      std::swap(result.to_stride[j], result.to_stride[j - 1]);
      std::swap(result.from_stride[j], result.from_stride[j - 1]);
    }
  return result;
}

void stream_rows(StridedTask const& task, Index first, Index last) {
  auto const inner = std::size_t(task.ndim) - 1;
  Index const bytes = size_of(task.dtype);
  auto const& kernel = copy_kernel();
  RowWalk walk(task, first);
  for (Index row = first; row < last; ++row, walk.next())
    copy_run(kernel, static_cast<std::byte*>(task.to) + walk.to() * bytes,
             static_cast<std::byte const*>(task.from) + walk.from() * bytes, std::size_t(task.extent[inner] * bytes));
  store_fence();
}

StreamedRows::StreamedRows(std::byte* to, Index step, Index num_rows, Index block_bytes)
    : to_(to),
      step_(step),
      num_rows_(num_rows),
      pitch_((block_bytes + 2 * line - 1) / line * line + (step % line + line) % line),
      place_(Index(reinterpret_cast<std::uintptr_t>(to) % line)) {}

void StreamedRows::send(Index bytes, Ahead const& ahead) {
  auto const& kernel = copy_kernel();
  Index const next = (place_ + bytes) % line;
  for (Index row = 0; row < num_rows_; ++row) {
    for (Index run = row; run < ahead.count; run += num_rows_)
      for (Index at = 0; at < ahead.bytes; at += line) __builtin_prefetch(ahead.first + run * ahead.pitch + at);
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
    if (auto const whole = (end - from) / line * line; whole > 0) {
      kernel.copy_lines(to, from, std::size_t(whole));
      from += whole;
    }
    copy_line(buffer_.data() + (next + row * pitch_) / line * line, from);
  }
  place_ = next;
  sent_ += bytes;
}

void StreamedRows::end() {
  for (Index row = 0; row < num_rows_; ++row) {
    Index const held = std::min((place_ + row * pitch_) % line, sent_);
    std::memcpy(to_ + row * step_ + sent_ - held, buffer_.data() + place_ + row * pitch_ - held, std::size_t(held));
  }
  store_fence();
}

}  // namespace graticule::detail
