// SPDX-License-Identifier: BSD-3-Clause
#include "block_map.hpp"

#include <utility>

namespace graticule::detail {

Owners owners_of(Layout const& layout) {
  return [layout](Box const& box, auto const& visit) { layout.for_each_owner(box, visit); };
}

Owners owners_of(BlockGrid const& grid) {
  return [grid](Box const& box, auto const& visit) { grid.for_each_owner(box, visit); };
}

std::vector<Box> owned_images(std::vector<Box> const& boxes, IndexMap const& map, Owners const& owners) {
  std::vector<Box> result;
  for (auto const& box : boxes)
    for (auto const& piece : map(box)) {
      if (piece.filled) continue;
      owners(source_box(piece), [&](int, Box const& part) {
        if (auto const owned = restricted(piece, part); !owned.box.empty()) result.push_back(owned.box);
      });
    }
  return result;
}

namespace {

void cut_away(std::vector<Box>& rest, Box const& part) {
  std::vector<Box> next;
  for (auto const& box : rest)
    for (auto const& left : boxes_around(part, box)) next.push_back(left);
  rest.swap(next);
}

/// Calls `visit(owner, part)` for each part of `piece` whose cells have one owner; -1 for what becomes `hole`.
template <class Visit>
void for_each_owned(Piece const& piece, IndexMap const& kept, Owners const& owners, double hole, Visit const& visit) {
  if (piece.box.empty()) return;
  if (piece.filled) return visit(-1, piece);
  std::vector<Box> rest{piece.box};
  auto const take = [&](Piece const& from) {
    owners(source_box(from), [&](int owner, Box const& part) {
      auto const owned = restricted(from, part);
      if (owned.box.empty()) return;
      visit(owner, owned);
      cut_away(rest, owned.box);
    });
  };
  take(piece);
  for (auto const& box : std::vector<Box>(rest))
    for (auto const& other : kept(box))
      if (!other.filled) take(other);
  for (auto const& box : rest) {
    Piece filled;
    filled.box = box;
    filled.filled = true;
    filled.fill = hole;
    visit(-1, filled);
  }
}

Piece in_blocks(Piece const& piece, int number, Box const& block, int source_number, Box const& source) {
  Piece result = piece;
  result.box = in_block(piece.box, number, block);
  result.maps[0] = {0, 1, source_number - number};
  for (int a = 0; a < piece.box.ndim(); ++a) {
    auto const& map = piece.maps[std::size_t(a)];
    result.maps[std::size_t(a) + 1] = {map.source_axis + 1, map.slope,
                                       map.offset + map.slope * block.lo(a) - source.lo(map.source_axis)};
  }
  return result;
}

}  // namespace

IndexMap with_holes(IndexMap map, IndexMap kept, Owners owners, double hole) {
  return [map = std::move(map), kept = std::move(kept), owners = std::move(owners), hole](Box const& needed) {
    std::vector<Piece> result;
    for (auto const& piece : map(needed))
      for_each_owned(piece, kept, owners, hole, [&](int, Piece const& part) { result.push_back(part); });
    return result;
  };
}

IndexMap map_of_blocks(IndexMap const& map, IndexMap const& kept, BlockGrid const& grid, double hole) {
  return [map, kept, grid, owners = owners_of(grid), hole](Box const& needed) {
    std::vector<Piece> result;
    int const number = int(needed.lo(0));
    Box const& block = grid.blocks()[std::size_t(number)].box;
    Box box = block;
    for (int a = 0; a < block.ndim(); ++a) box.set(a, needed.lo(a + 1) + block.lo(a), needed.hi(a + 1) + block.lo(a));
    for (auto const& piece : map(box))
      for_each_owned(piece, kept, owners, hole, [&](int owner, Piece const& part) {
        bool const filled = owner < 0;
        auto const& source = filled ? block : grid.blocks()[std::size_t(owner)].box;
        result.push_back(in_blocks(part, number, block, filled ? number : owner, source));
      });
    return result;
  };
}

Box in_block(Box const& box, int number, Box const& block) {
  Box result(Indices::filled(box.ndim() + 1, 0), Indices::filled(box.ndim() + 1, 0));
  result.set(0, number, number + 1);
  for (int a = 0; a < box.ndim(); ++a) result.set(a + 1, box.lo(a) - block.lo(a), box.hi(a) - block.lo(a));
  return result;
}

Box local_box_of_blocks(Box const& owned, HaloKind const& kind) {
  auto widths = kind.memory.empty() ? kind.widths : kind.memory;
  widths.insert(widths.begin(), Width{0, 0});
  return grown(owned, widths);
}

}  // namespace graticule::detail
