// SPDX-License-Identifier: BSD-3-Clause
#include "block_map.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace graticule::detail {

Owners owners_of(Layout const& layout) {
  return [layout](Box const& box, auto const& visit) { layout.for_each_owner(box, visit); };
}

namespace {

Owners owners_on_face(BlockGrid const& grid, int face) {
  return [grid, face](Box const& box, auto const& visit) { grid.for_each_owner(face, box, visit); };
}

}  // namespace

Owners owners_of(BlockGrid const& grid) { return owners_on_face(grid, 0); }

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

namespace {

/// From coordinates beyond the first side of a joint to those of the other face.
AxisMaps across(FaceJoint const& joint, Indices const& extents) {
  int const a = joint.one.axis;
  int const b = joint.other.axis;
  bool const from_upper = joint.one.side == AxisEnd::upper;
  bool const to_upper = joint.other.side == AxisEnd::upper;
  AxisMaps maps{};
  // The distance beyond the side becomes the distance from the other side.
  Index const begin = from_upper ? extents[a] : -1;  // the cell at distance 0
  int const slope = from_upper == to_upper ? -1 : 1;
  maps[std::size_t(a)] = {b, slope, (to_upper ? extents[b] - 1 : 0) - slope * begin};
  bool const reversed = joint.along == Along::reversed;
  maps[std::size_t(1 - a)] = {1 - b, reversed ? -1 : 1, reversed ? extents[1 - a] - 1 : 0};
  return maps;
}

AxisMaps composed(AxisMaps const& first, AxisMaps const& second) {
  AxisMaps maps{};
  for (std::size_t a = 0; a < 2; ++a) {
    auto const& then = second[std::size_t(first[a].source_axis)];
    maps[a] = {then.source_axis, then.slope * first[a].slope, then.slope * first[a].offset + then.offset};
  }
  return maps;
}

/// The image of `box`, which lies beyond the side of `axis` of a face.
std::optional<OnFace> beyond(BlockGrid const& grid, OnFace const& from, int axis, AxisEnd side) {
  auto const* const joint = grid.beyond({from.face, axis, side});
  if (joint == nullptr) return std::nullopt;
  return OnFace{joint->other.face, from.box, composed(from.maps, across(*joint, grid.extents()))};
}

/// Round a corner: beyond the side of `first`, then beyond that of the other axis.
std::optional<OnFace> round_corner(BlockGrid const& grid, OnFace const& from, int first,
                                   std::array<AxisEnd, 2> const& sides) {
  auto const next = beyond(grid, from, first, sides[std::size_t(first)]);
  if (!next) return std::nullopt;
  auto const& map = next->maps[std::size_t(1 - first)];
  bool const upper = (sides[std::size_t(1 - first)] == AxisEnd::upper) == (map.slope > 0);
  return beyond(grid, *next, map.source_axis, upper ? AxisEnd::upper : AxisEnd::lower);
}

}  // namespace

std::vector<OnFace> on_faces(BlockGrid const& grid, int face, Box const& box) {
  std::vector<OnFace> result;
  OnFace own{face, box, {}};
  own.maps[1].source_axis = 1;
  auto const& n = grid.extents();
  // Below, on and above the face along both axes.
  for (int row = -1; row <= 1; ++row)
    for (int column = -1; column <= 1; ++column) {
      std::array const part{row, column};
      own.box = box;
      std::array<AxisEnd, 2> sides{};
      for (int a : {0, 1}) {
        auto const at = std::size_t(a);
        sides[at] = part[at] < 0 ? AxisEnd::lower : AxisEnd::upper;
        Index const lo = part[at] < 0 ? box.lo(a) : part[at] == 0 ? 0 : n[a];
        Index const hi = part[at] < 0 ? 0 : part[at] == 0 ? n[a] : box.hi(a);
        own.box.set(a, std::max(box.lo(a), lo), std::max(std::max(box.lo(a), lo), std::min(box.hi(a), hi)));
      }
      if (own.box.empty()) continue;
      if (row == 0 && column == 0) {
        result.push_back(own);
      } else if (row != 0 && column != 0) {
        auto const one = round_corner(grid, own, 0, sides);
        auto const other = round_corner(grid, own, 1, sides);
        if (one && other && one->face == other->face && one->maps == other->maps) result.push_back(*one);
      } else if (auto const image = beyond(grid, own, row != 0 ? 0 : 1, sides[row != 0 ? 0 : 1])) {
        result.push_back(*image);
      }
    }
  return result;
}

IndexMap map_of_faces(BlockGrid const& grid, int component, double hole) {
  return [grid, component, hole](Box const& needed) {
    std::vector<Piece> result;
    int const number = int(needed.lo(0));
    auto const& block = grid.blocks()[std::size_t(number)];
    Box box = block.box;
    for (int a : {0, 1}) box.set(a, needed.lo(a + 1) + block.box.lo(a), needed.hi(a + 1) + block.box.lo(a));
    auto const nothing = [](Box const&) { return std::vector<Piece>(); };
    for (auto const& image : on_faces(grid, block.face, box)) {
      Piece piece;
      piece.box = image.box;
      piece.maps = image.maps;
      // The written field is this one, or, where the axes turn, the other component.
      int const written = component < 0 ? -1 : image.turned() ? 1 - component : component;
      piece.negated = written >= 0 && image.maps[std::size_t(written)].slope < 0;
      for_each_owned(piece, nothing, owners_on_face(grid, image.face), hole, [&](int owner, Piece const& part) {
        bool const filled = owner < 0;
        auto const& source = filled ? block.box : grid.blocks()[std::size_t(owner)].box;
        result.push_back(in_blocks(part, number, block.box, filled ? number : owner, source));
      });
    }
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
