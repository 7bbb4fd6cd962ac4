// SPDX-License-Identifier: BSD-3-Clause
#include "small_copies.hpp"

#include <cstring>
#include <utility>

namespace graticule::detail {

namespace {

/// The sign of floating-point numbers that a negation flips; nothing for other numbers.
std::uint64_t sign_bit(DType dtype) {
  return dtype == DType::f64 ? std::uint64_t(1) << 63U : dtype == DType::f32 ? std::uint64_t(1) << 31U : 0;
}

/// Elements that lie in the first cache of a core; beyond that it matters in which order they are copied.
constexpr Index most_elements = 4096;

bool is_small(StridedTask const& task) {
  bool const moves = task.op == StridedOp::copy || (task.op == StridedOp::negate && sign_bit(task.dtype) != 0);
  if (!moves || task.clear_from || task.ndim > 2) return false;
  if (auto const bytes = size_of(task.dtype); bytes != 4 && bytes != 8) return false;
  Index const first = task.ndim > 0 ? task.extent[0] : 1;
  Index const second = task.ndim > 1 ? task.extent[1] : 1;
  return first <= most_elements && second <= most_elements && first * second <= most_elements;
}

}  // namespace

bool SmallCopies::set(std::span<StridedTask const> tasks, InMessage side, std::byte const* message) {
  copies_.clear();
  side_ = side;
  message_ = message;
  for (auto const& task : tasks) {
    if (!is_small(task)) return copies_.clear(), false;
    auto const bytes = size_of(task.dtype);
    Copy copy{.to = static_cast<std::byte*>(task.to),
              .from = static_cast<std::byte const*>(task.from),
              .rows = 1,
              .count = 1,
              .to_row = 0,
              .from_row = 0,
              .to_step = bytes,
              .from_step = bytes,
              .flip = task.op == StridedOp::negate ? sign_bit(task.dtype) : 0,
              .element_bytes = std::uint32_t(bytes),
              .dense = false};
    if (task.ndim > 0) {
      auto const inner = std::size_t(task.ndim) - 1;
      copy.count = std::uint32_t(task.extent[inner]);
      copy.to_step = task.to_stride[inner] * bytes;
      copy.from_step = task.from_stride[inner] * bytes;
    }
    if (task.ndim > 1) {
      copy.rows = std::uint32_t(task.extent[0]);
      copy.to_row = task.to_stride[0] * bytes;
      copy.from_row = task.from_stride[0] * bytes;
    }
    if (copy.count == 1) {
      std::swap(copy.count, copy.rows);
      copy.to_step = copy.to_row;
      copy.from_step = copy.from_row;
    }
    copy.dense = copy.flip == 0 && copy.to_step == bytes && copy.from_step == bytes;
    copies_.push_back(copy);
  }
  return true;
}

/// Rows of a length that the compiler knows, in a few instructions each.
template <std::size_t bytes>
void SmallCopies::run_short(Copy const& copy, std::byte* to, std::byte const* from) noexcept {
  for (std::uint32_t row = 0; row < copy.rows; ++row) {
    std::memcpy(to, from, bytes);
    to += copy.to_row;
    from += copy.from_row;
  }
}

template <class T>
void SmallCopies::run(Copy const& copy, std::byte* to, std::byte const* from) noexcept {
  if (copy.dense) {
    switch (copy.count) {
      case 2: return run_short<2 * sizeof(T)>(copy, to, from);
      case 3: return run_short<3 * sizeof(T)>(copy, to, from);
      case 4: return run_short<4 * sizeof(T)>(copy, to, from);
      default: break;
    }
    for (std::uint32_t row = 0; row < copy.rows; ++row) {
      std::memcpy(to, from, copy.count * sizeof(T));
      to += copy.to_row;
      from += copy.from_row;
    }
    return;
  }
  auto const flip = T(copy.flip);
  for (std::uint32_t row = 0; row < copy.rows; ++row) {
    auto* write = to;
    auto const* read = from;
    for (std::uint32_t i = 0; i < copy.count; ++i) {
      T value;
      std::memcpy(&value, read, sizeof value);
      value ^= flip;
      std::memcpy(write, &value, sizeof value);
      write += copy.to_step;
      read += copy.from_step;
    }
    to += copy.to_row;
    from += copy.from_row;
  }
}

void SmallCopies::run(std::byte const* message) const noexcept {
  auto const moved = side_ == InMessage::none ? 0 : message - message_;
  auto const to_moved = side_ == InMessage::to ? moved : 0;
  auto const from_moved = side_ == InMessage::from ? moved : 0;
  for (auto const& copy : copies_) {
    if (copy.element_bytes == 8)
      run<std::uint64_t>(copy, copy.to + to_moved, copy.from + from_moved);
    else
      run<std::uint32_t>(copy, copy.to + to_moved, copy.from + from_moved);
  }
}

}  // namespace graticule::detail
