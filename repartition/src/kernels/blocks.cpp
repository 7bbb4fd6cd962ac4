// SPDX-License-Identifier: BSD-3-Clause
#include "blocks.hpp"

#include <algorithm>

namespace graticule::detail {

namespace {

/// Bytes that a block spans on each axis that may be contiguous: two cache lines, which processors fetch in pairs.
constexpr Index run_bytes = 128;

/// Axes of a block in order of importance.
struct Importance {
  /// Those that may be contiguous: the target's last, the one that the source's last axis becomes, the last batch axis;
  /// then the others, from the last to the first.
  Indices order;
  int num_contiguous = 0;  ///< that may be contiguous
};

Importance by_importance(Transfer const& transfer, int num_batch) {
  int const ndim = transfer.to.ndim();
  Importance result;
  auto& order = result.order;
  auto const add = [&](int axis) {
    if (axis >= 0 && std::find(order.begin(), order.end(), Index(axis)) == order.end()) order.push_back(axis);
  };
  add(num_batch + ndim - 1);
  for (int a = 0; a < ndim; ++a)
    if (transfer.maps[std::size_t(a)].source_axis == ndim - 1) add(num_batch + a);
  add(num_batch - 1);
  result.num_contiguous = order.size();
  for (int a = num_batch + ndim - 1; a >= 0; --a) add(a);
  return result;
}

Indices tile_of(Indices const& extents, Importance const& axes, Index elements, Index run) {
  auto tile = Indices::filled(extents.size(), 1);
  Index product = 1;
  auto const grow = [&](int axis, Index wanted) {
    auto& extent = tile[axis];
    Index const others = product / extent;
    Index const longest = std::max<Index>(1, elements / others);
    extent = std::max(extent, std::min({wanted, longest, extents[axis]}));
    product = others * extent;
  };
  for (int i = 0; i < axes.num_contiguous; ++i) grow(int(axes.order[i]), run);
  for (Index const axis : axes.order) grow(int(axis), extents[int(axis)]);
  // Even pieces rather than a long one and a rest.
  for (int a = 0; a < tile.size(); ++a) {
    Index const pieces = (extents[a] + tile[a] - 1) / tile[a];
    tile[a] = (extents[a] + pieces - 1) / pieces;
  }
  return tile;
}

}  // namespace

void BlockCursor::reset(std::span<Transfer const> transfers, std::span<BlockField const> fields,
                        std::size_t block_bytes) {
  transfers_ = transfers;
  fields_ = fields;
  block_bytes_ = block_bytes;
  block_ = {};
  done_ = false;
  find_transfer();
}

void BlockCursor::find_transfer() {
  for (; block_.field < int(fields_.size()); ++block_.field, block_.transfer = 0) {
    auto const& field = fields_[std::size_t(block_.field)];
    bool const empty = std::any_of(field.batch.begin(), field.batch.end(), [](Index extent) { return extent <= 0; });
    for (; !empty && block_.transfer < int(transfers_.size()); ++block_.transfer)
      if (transfers_[std::size_t(block_.transfer)].kind == field.kind) return open_transfer();
  }
  done_ = true;
}

void BlockCursor::open_transfer() {
  auto const& transfer = transfers_[std::size_t(block_.transfer)];
  auto const& field = fields_[std::size_t(block_.field)];
  extents_ = field.batch;
  for (int a = 0; a < transfer.to.ndim(); ++a) extents_.push_back(transfer.to.extent(a));
  Index const elements = std::max<Index>(1, Index(block_bytes_) / field.cell_bytes);
  tile_ = tile_of(extents_, by_importance(transfer, field.batch.size()), elements, run_bytes / field.cell_bytes);
  block_.lo = Indices::filled(extents_.size(), 0);
  set_block();
}

void BlockCursor::set_block() {
  block_.extents = extents_;
  Index elements = 1;
  for (int a = 0; a < extents_.size(); ++a) {
    block_.extents[a] = std::min(tile_[a], extents_[a] - block_.lo[a]);
    elements *= block_.extents[a];
  }
  bytes_ = std::size_t(elements * fields_[std::size_t(block_.field)].cell_bytes);
}

void BlockCursor::advance() {
  for (int a = extents_.size() - 1; a >= 0; --a) {
    block_.lo[a] += tile_[a];
    if (block_.lo[a] < extents_[a]) return set_block();
    block_.lo[a] = 0;
  }
  ++block_.transfer;
  find_transfer();
}

std::size_t BlockCursor::take_segment(std::size_t segment_bytes, std::vector<Block>& blocks) {
  blocks.clear();
  std::size_t at = 0;
  while (!done_ && (at == 0 || at + bytes_ <= segment_bytes)) {
    block_.offset = at;
    blocks.push_back(block_);
    at = aligned(at + bytes_, block_alignment);
    advance();
  }
  return at;
}

SegmentCount count_segments(BlockCursor cursor, std::size_t segment_bytes) {
  SegmentCount result;
  std::size_t at = 0;
  while (!cursor.done()) {
    if (at == 0) ++result.segments;
    at = aligned(at + cursor.bytes(), block_alignment);
    result.bytes += aligned(cursor.bytes(), block_alignment);
    cursor.advance();
    if (!cursor.done() && at + cursor.bytes() > segment_bytes) at = 0;
  }
  return result;
}

}  // namespace graticule::detail
