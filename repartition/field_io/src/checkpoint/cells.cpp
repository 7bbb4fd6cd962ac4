// SPDX-License-Identifier: BSD-3-Clause
#include "cells.hpp"

#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace graticule::detail {

namespace {

/// Grid axis of each memory axis, -1 for batch axes.
Indices grid_axis_of(FieldView const& view, int num_grid) {
  if (view.strides.size() != view.ndim() || view.grid_axes.size() != num_grid)
    throw Error("FieldMismatch", "a layout of " + std::to_string(num_grid) + " axes does not fit a view of " +
                                     std::to_string(view.ndim()) + " axes with strides " + to_string(view.strides) +
                                     " and grid axes " + to_string(view.grid_axes));
  auto result = Indices::filled(view.ndim(), -1);
  for (int a = 0; a < num_grid; ++a) {
    Index const m = view.grid_axes[a];
    if (m < 0 || m >= view.ndim() || result[int(m)] >= 0)
      throw Error("FieldMismatch", "grid axes must be different axes of the view, got " + to_string(view.grid_axes) +
                                       " of " + std::to_string(view.ndim()) + " axes");
    result[int(m)] = a;
  }
  return result;
}

/// SplitMix64 (Steele, Lea, Flood 2014): `key` runs through multiples of `gamma`.
constexpr std::uint64_t gamma = 0x9e3779b97f4a7c15U;

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

template <class Word>
std::uint64_t run_checksum(std::byte const* data, Index count, Index first) {
  std::uint64_t key = (std::uint64_t(first) + 1) * gamma;
  std::uint64_t sum = 0;
  for (Index i = 0; i < count; ++i) {
    Word word = 0;
    std::memcpy(&word, data + i * Index(sizeof word), sizeof word);
    sum += mixed(std::uint64_t(word) ^ key);
    key += gamma;
  }
  return sum;
}

struct Words {
  int bytes;     ///< of one word
  Index number;  ///< per cell
};

/// Parts of complex numbers are words of their own, so that the checksum is the same in either byte order.
Words words_of(DType dtype) {
  if (dtype == DType::c64) return {4, 2};
  if (dtype == DType::c128) return {8, 2};
  return {int(size_of(dtype)), 1};
}

std::uint64_t run_checksum(Words words, std::byte const* data, Index count, Index first) {
  count *= words.number;
  first *= words.number;
  switch (words.bytes) {
    case 1: return run_checksum<std::uint8_t>(data, count, first);
    case 2: return run_checksum<std::uint16_t>(data, count, first);
    case 4: return run_checksum<std::uint32_t>(data, count, first);
    default: return run_checksum<std::uint64_t>(data, count, first);
  }
}

}  // namespace

Indices whole_extents(FieldView const& view, Box const& global) {
  auto const grid_axis = grid_axis_of(view, global.ndim());
  auto extents = view.extents;
  for (int m = 0; m < view.ndim(); ++m) {
    if (grid_axis[m] >= 0) extents[m] = global.extent(int(grid_axis[m]));
    if (extents[m] < 0) throw Error("FieldMismatch", "extents must not be negative, got " + to_string(view.extents));
  }
  return extents;
}

FieldCells field_cells(FieldView const& view, Indices const& axes, Indices const& extents, Box const& cells,
                       Box const& local) {
  auto const grid_axis = grid_axis_of(view, cells.ndim());
  if (!cells.empty() && (local.ndim() != cells.ndim() || !local.contains(cells)))
    throw Error("FieldMismatch", "a view of " + to_string(local) + " does not cover the cells " + to_string(cells));
  auto lo = Indices::filled(extents.size(), 0);
  auto hi = lo;
  FieldCells result{.box = {}, .data = nullptr, .strides = lo, .dtype = view.dtype, .space = view.space};
  Index offset = 0;
  for (int m = 0; m < view.ndim(); ++m) {
    int const axis = int(axes[m]);
    int const a = int(grid_axis[m]);
    result.strides[axis] = view.strides[m];
    lo[axis] = a < 0 ? 0 : cells.lo(a);
    hi[axis] = a < 0 ? extents[axis] : cells.hi(a);
    Index const expected = a < 0 ? extents[axis] : local.extent(a);
    if (view.extents[m] != expected && (a < 0 || !cells.empty()))
      throw Error("FieldMismatch", "memory " + detail::axis_text(m, view.ndim()) + " has " +
                                       std::to_string(view.extents[m]) + " elements for " + std::to_string(expected) +
                                       " cells");
    if (a >= 0 && !cells.empty()) offset += (cells.lo(a) - local.lo(a)) * view.strides[m];
  }
  result.box = Box(lo, hi);
  if (result.box.empty()) return result;
  if (view.data == nullptr)
    throw Error("FieldMismatch", "the memory of the view must not be null, it covers " + to_string(result.box));
  result.data = static_cast<std::byte*>(view.data) + offset * size_of(view.dtype);
  return result;
}

std::byte* CellStaging::place(Box const& piece) const {
  Index offset = 0;
  for (int axis = 0; axis < piece.ndim(); ++axis)
    offset += (piece.lo(axis) - cells_->box.lo(axis)) * cells_->strides[axis];
  return cells_->data + offset * size_of(cells_->dtype);
}

bool CellStaging::is_dense(Box const& piece) const {
  if (cells_->space != MemorySpace::host) return false;
  auto const dense = row_major_strides(piece.extents());
  for (int axis = 0; axis < piece.ndim(); ++axis)
    if (piece.extent(axis) > 1 && cells_->strides[axis] != dense[axis]) return false;
  return true;
}

std::byte* CellStaging::host(Box const& piece) {
  auto const bytes = std::size_t(piece.num_cells() * size_of(cells_->dtype));
  if (bytes > host_bytes_) {
    host_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    host_bytes_ = bytes;
  }
  return host_.get();
}

std::byte* CellStaging::device(Box const& piece) {
  auto const bytes = std::size_t(piece.num_cells() * size_of(cells_->dtype));
  if (bytes > device_bytes_) {
    device_ = Buffer(bytes, Buffer::Kind::device, device_of(DeviceQueueScope::current()));
    device_bytes_ = bytes;
  }
  return device_.data();
}

std::byte const* CellStaging::pack(Box const& piece) {
  if (is_dense(piece)) return place(piece);
  auto* const dense = host(piece);
  bool const on_device = cells_->space == MemorySpace::device;
  auto* const packed = on_device ? device(piece) : dense;
  auto const extents = piece.extents();
  auto const task = make_strided(StridedOp::copy, cells_->dtype, extents, packed, row_major_strides(extents),
                                 place(piece), cells_->strides);
  run_strided(std::span(&task, 1), cells_->space);
  if (on_device) {
    auto const bytes = std::size_t(piece.num_cells() * size_of(cells_->dtype));
    copy_to_host(DeviceQueueScope::current(), dense, packed, bytes);
    fence(DeviceQueueScope::current());
  }
  return dense;
}

std::byte* CellStaging::room(Box const& piece) { return is_dense(piece) ? place(piece) : host(piece); }

void CellStaging::unpack(Box const& piece) {
  if (is_dense(piece)) return;
  auto* dense = host(piece);
  if (cells_->space == MemorySpace::device) {
    auto const bytes = std::size_t(piece.num_cells() * size_of(cells_->dtype));
    auto* const packed = device(piece);
    copy_to_device(DeviceQueueScope::current(), packed, dense, bytes);
    fence(DeviceQueueScope::current());
    dense = packed;
  }
  auto const extents = piece.extents();
  auto const task = make_strided(StridedOp::copy, cells_->dtype, extents, place(piece), cells_->strides, dense,
                                 row_major_strides(extents));
  run_strided(std::span(&task, 1), cells_->space);
}

std::uint64_t cell_checksum(DType dtype, Indices const& extents, Box const& box, std::byte const* dense) {
  auto const words = words_of(dtype);
  std::uint64_t sum = 0;
  for_each_run(extents, box, [&](Index first, Index count) {
    sum += run_checksum(words, dense, count, first);
    dense += count * size_of(dtype);
  });
  return sum;
}

}  // namespace graticule::detail
