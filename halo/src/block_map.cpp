// SPDX-License-Identifier: BSD-3-Clause
#include "block_map.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

namespace graticule::detail {

Owners owners_of(Layout const& layout) {
  return [layout](Box const& box, auto const& visit) { layout.for_each_owner(box, visit); };
}

Owners owners_of(BlockGrid const& grid) {
  return [grid](Box const& box, auto const& visit) { grid.for_each_owner(0, box, visit); };
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

namespace {

/// Values along each axis of a face, in addition to its cells.
using More = std::array<Index, 2>;

/// From coordinates beyond the first side of a joint to those of the other face.
AxisMaps across(FaceJoint const& joint, Indices const& extents, More const& more) {
  int const a = joint.one.axis;
  int const b = joint.other.axis;
  bool const from_upper = joint.one.side == AxisEnd::upper;
  bool const to_upper = joint.other.side == AxisEnd::upper;
  AxisMaps maps{};
  // The distance beyond the side becomes the distance from the other side. Values on the side itself have the distance
  // 0, and those in centres begin at half a cell.
  Index const extra = more[std::size_t(a)];
  Index const begin = from_upper ? extents[a] : extra - 1;
  int const slope = from_upper == to_upper ? -1 : 1;
  maps[std::size_t(a)] = {b, slope, (to_upper ? extents[b] - 1 + extra : 0) - slope * begin};
  bool const reversed = joint.along == Along::reversed;
  maps[std::size_t(1 - a)] = {1 - b, reversed ? -1 : 1, reversed ? extents[1 - a] - 1 + more[std::size_t(1 - a)] : 0};
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

AxisMaps in_place() {
  AxisMaps maps{};
  maps[1].source_axis = 1;
  return maps;
}

/// Along the axes of the face of an image.
More more_at(FaceValues const& values, OnFace const& image) {
  More result{};
  for (std::size_t a : {0, 1}) result[std::size_t(image.maps[a].source_axis)] = values.more[a];
  return result;
}

/// The image of the same box on the face that lies beyond a side.
std::optional<OnFace> beyond(FaceValues const& values, OnFace const& from, int axis, AxisEnd side) {
  auto const* const joint = values.grid.beyond({from.face, axis, side});
  if (joint == nullptr) return std::nullopt;
  auto const maps = across(*joint, values.grid.extents(), more_at(values, from));
  return OnFace{joint->other.face, from.box, composed(from.maps, maps)};
}

/// Round a corner: beyond the side of `first`, then beyond that of the other axis.
std::optional<OnFace> round_corner(FaceValues const& values, OnFace const& from, int first,
                                   std::array<AxisEnd, 2> const& sides) {
  auto const next = beyond(values, from, first, sides[std::size_t(first)]);
  if (!next) return std::nullopt;
  auto const& map = next->maps[std::size_t(1 - first)];
  bool const upper = (sides[std::size_t(1 - first)] == AxisEnd::upper) == (map.slope > 0);
  return beyond(values, *next, map.source_axis, upper ? AxisEnd::upper : AxisEnd::lower);
}

/// The images of the parts of `box` on, below and above the face along both axes.
std::vector<OnFace> around(FaceValues const& values, int face, Box const& box) {
  std::vector<OnFace> result;
  OnFace own{face, box, in_place()};
  for (int row = -1; row <= 1; ++row)
    for (int column = -1; column <= 1; ++column) {
      std::array const part{row, column};
      own.box = box;
      std::array<AxisEnd, 2> sides{};
      for (int a : {0, 1}) {
        auto const at = std::size_t(a);
        Index const n = values.grid.extents()[a] + values.more[at];
        sides[at] = part[at] < 0 ? AxisEnd::lower : AxisEnd::upper;
        Index const lo = part[at] < 0 ? box.lo(a) : part[at] == 0 ? 0 : n;
        Index const hi = part[at] < 0 ? 0 : part[at] == 0 ? n : box.hi(a);
        own.box.set(a, std::max(box.lo(a), lo), std::max(std::max(box.lo(a), lo), std::min(box.hi(a), hi)));
      }
      if (own.box.empty()) continue;
      if (row == 0 && column == 0) {
        result.push_back(own);
      } else if (row != 0 && column != 0) {
        auto const one = round_corner(values, own, 0, sides);
        auto const other = round_corner(values, own, 1, sides);
        if (one && other && one->face == other->face && one->maps == other->maps) result.push_back(*one);
      } else if (auto const image = beyond(values, own, row != 0 ? 0 : 1, sides[row != 0 ? 0 : 1])) {
        result.push_back(*image);
      }
    }
  return result;
}

Piece as_piece(OnFace const& image) {
  Piece piece;
  piece.box = image.box;
  piece.maps = image.maps;
  return piece;
}

/// Parts of an image that lie on the same sides of its face.
std::vector<OnFace> parts_by_side(FaceValues const& values, OnFace const& image) {
  std::vector<OnFace> parts{image};
  auto const more = more_at(values, image);
  for (int a : {0, 1}) {
    if (more[std::size_t(a)] == 0) continue;
    Index const n = values.grid.extents()[a];
    std::vector<OnFace> cut;
    for (auto const& part : parts)
      for (auto const& [lo, hi] : {std::pair<Index, Index>{0, 1}, {1, n}, {n, n + 1}}) {
        auto source = source_box(as_piece(part));
        source.set(a, std::max(source.lo(a), lo), std::max(std::max(source.lo(a), lo), std::min(source.hi(a), hi)));
        if (source.empty()) continue;
        cut.push_back(part);
        cut.back().box = restricted(as_piece(part), source).box;
      }
    parts.swap(cut);
  }
  return parts;
}

/// The side on which all values of a part lie that is not cut by sides.
std::optional<AxisEnd> side_of(FaceValues const& values, OnFace const& part, int axis) {
  if (more_at(values, part)[std::size_t(axis)] == 0) return std::nullopt;
  Index const at = source_box(as_piece(part)).lo(axis);
  if (at == 0) return AxisEnd::lower;
  if (at == values.grid.extents()[axis]) return AxisEnd::upper;
  return std::nullopt;
}

/// The same values on all faces on whose sides they lie: across the side, and round a corner both ways. The lowest face
/// first, on one face by its sides, which are the same for all values of the part. Their places are not: where a face
/// meets itself, they may be counted in opposite directions.
std::vector<OnFace> names_of(FaceValues const& values, OnFace const& part) {
  std::vector<OnFace> names{part};
  auto const place = [&](OnFace const& name) {
    return std::tuple(name.face, side_of(values, name, 0), side_of(values, name, 1));
  };
  for (int axis : {0, 1}) {
    auto at = part;
    while (auto const side = side_of(values, at, axis)) {
      auto const* const joint = values.grid.beyond({at.face, axis, *side});
      if (joint == nullptr) break;
      at = *beyond(values, at, axis, *side);
      auto const known = [&](OnFace const& name) { return place(name) == place(at); };
      if (std::any_of(names.begin(), names.end(), known)) break;
      names.push_back(at);
      axis = 1 - joint->other.axis;
    }
  }
  std::sort(names.begin(), names.end(), [&](auto const& a, auto const& b) { return place(a) < place(b); });
  return names;
}

}  // namespace

FaceValues values_on_faces(BlockGrid const& grid, Boundary const& boundary) {
  FaceValues result{grid, {}, {grid_of(grid, boundary)}};
  for (std::size_t a : {0, 1}) result.more[a] = boundary.axes[a].stagger == Stagger::all_faces ? 1 : 0;
  auto turned = boundary;
  std::swap(turned.axes[0].stagger, turned.axes[1].stagger);
  result.owners.push_back(grid_of(grid, turned));
  return result;
}

std::vector<OnFace> images_on_faces(FaceValues const& values, int face, Box const& box) {
  std::vector<OnFace> result;
  for (auto const& whole : around(values, face, box))
    for (auto const& part : parts_by_side(values, whole)) {
      std::vector<Box> rest{part.box};
      for (auto const& name : names_of(values, part))
        for (auto const& needed : std::vector<Box>(rest)) {
          auto piece = as_piece(name);
          piece.box = needed;
          values.owners[name.turned() ? 1 : 0].for_each_owner(name.face, source_box(piece),
                                                              [&](int owner, Box const& owned) {
                                                                auto const held = restricted(piece, owned).box;
                                                                if (held.empty()) return;
                                                                result.push_back({name.face, held, name.maps, owner});
                                                                cut_away(rest, held);
                                                              });
        }
      for (auto const& hole : rest) result.push_back({face, hole, in_place()});
    }
  return result;
}

IndexMap map_of_faces(FaceValues const& values, FaceValues const& other, int component, double hole) {
  return [values, other, component, hole](Box const& needed) {
    std::vector<Piece> result;
    auto const num_blocks = int(values.grid.blocks().size());
    int const number = int(needed.lo(0));
    bool const of_other = number >= num_blocks;
    auto const& written = of_other ? other : values;
    auto const& block = values.grid.blocks()[std::size_t(number % num_blocks)];
    Box box = block.box;
    for (int a : {0, 1}) box.set(a, needed.lo(a + 1) + block.box.lo(a), needed.hi(a + 1) + block.box.lo(a));
    for (auto const& image : images_on_faces(written, block.face, box)) {
      if (component >= 0 && image.turned() != of_other) continue;
      auto piece = as_piece(image);
      piece.filled = image.owner < 0;
      piece.fill = hole;
      if (component >= 0) piece.negated = image.maps[std::size_t(of_other ? 1 - component : component)].slope < 0;
      auto const& source =
          piece.filled ? block : written.owners[image.turned() ? 1 : 0].blocks()[std::size_t(image.owner)];
      result.push_back(in_blocks(piece, number, block.box, piece.filled ? number : image.owner, source.box));
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
