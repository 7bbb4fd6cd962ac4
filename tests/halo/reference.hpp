// SPDX-License-Identifier: BSD-3-Clause
// The boundary rules written a second time: one cell at a time, folded until it lies inside.
#pragma once

#include <graticule/halo/plan.hpp>

#include "random_layout.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace graticule::test {

/// What a ghost cell holds after an exchange.
struct Image {
  enum class Kind { cell, constant, nothing };
  Kind kind = Kind::cell;
  Indices cell;  ///< of the global box
  double constant = 0;
  bool odd_folds = false;
  bool negated = false;
};

inline constexpr std::array all_edges{Edge::untouched,   Edge::constant,      Edge::periodic,      Edge::reflect,
                                      Edge::symmetric,   Edge::replicate,     Edge::pole_face,     Edge::pole_row,
                                      Edge::antireflect, Edge::antisymmetric, Edge::tripolar_face, Edge::tripolar_row};

/// Half index of the mirror beyond one side, as the specification gives it; empty for rules that mirror nothing.
inline std::optional<Index> mirror_of(Edge edge, bool low, Index n) {
  switch (edge) {
    case Edge::reflect:
    case Edge::antireflect:
    case Edge::pole_row:
    case Edge::tripolar_row: return low ? 0 : 2 * (n - 1);
    case Edge::symmetric:
    case Edge::antisymmetric:
    case Edge::pole_face:
    case Edge::tripolar_face: return low ? -1 : 2 * n - 1;
    default: return std::nullopt;
  }
}

/// Half units from a cell's centre to its value.
inline Index half_units(Stagger stagger) { return stagger == Stagger::all_faces ? -1 : Index(stagger); }

/// Cells of a field along an axis of n cells of the grid.
inline Index num_cells(Index n, Stagger stagger) { return n + (stagger == Stagger::all_faces ? 1 : 0); }

/// The column across a fold; nothing for edges that are no folds.
inline std::optional<Index> column_across(Edge edge, Index i, Index n, Boundary const& boundary) {
  Index const offset =
      boundary.longitude_axis < 0 ? 0 : half_units(boundary.axes[std::size_t(boundary.longitude_axis)].stagger);
  switch (edge) {
    case Edge::pole_face:
    case Edge::pole_row: return i + n / 2;
    case Edge::tripolar_face: return boundary.pivot.value_or(-1) - i - offset;
    case Edge::tripolar_row: return boundary.pivot.value_or(0) - i - offset;
    default: return std::nullopt;
  }
}

/// Follows one cell over mirrors and round the globe until it lies inside.
class Walk {
 public:
  Walk(Indices const& cell, Indices const& extents, Boundary const& boundary)
      : extents_(extents), boundary_(boundary), longitude_(boundary.longitude_axis) {
    image_.cell = cell;
    for (int a = 0; a < extents.size(); ++a)
      if (a != longitude_) walk(a);
    if (longitude_ >= 0) walk(longitude_);
    if (boundary.mirror_line == MirrorLine::copy && kind() == Image::Kind::cell)
      for (int a = 0; a < extents.size(); ++a) choose_copy(a);
  }

  [[nodiscard]] Image result() const {
    if (nothing_) return {Image::Kind::nothing, {}, 0, false, false};
    if (constant_axis_ < extents_.size())
      return {Image::Kind::constant, {}, boundary_.axes[std::size_t(constant_axis_)].constant, false, false};
    return image_;
  }

 private:
  [[nodiscard]] Image::Kind kind() const { return result().kind; }

  void cross(int a, Edge edge, Index mirror) {
    Index const b = half_units(boundary_.axes[std::size_t(a)].stagger);
    image_.cell[a] = mirror - image_.cell[a] - b;
    if (edge == Edge::antireflect || edge == Edge::antisymmetric) image_.negated = !image_.negated;
    if (longitude_ < 0 || a == longitude_) return;
    if (auto const column = column_across(edge, image_.cell[longitude_], extents_[longitude_], boundary_)) {
      image_.cell[longitude_] = *column;
      image_.odd_folds = !image_.odd_folds;
    }
  }

  void walk(int a) {
    auto const& rules = boundary_.axes[std::size_t(a)];
    Index const n = extents_[a];
    Index& e = image_.cell[a];
    Index const cells = num_cells(n, rules.stagger);
    while (e < 0 || e >= cells) {
      bool const low = e < 0;
      Edge const edge = low ? rules.lower : rules.upper;
      auto const mirror = mirror_of(edge, low, n);
      bool const filled = edge == Edge::constant || (mirror && *mirror == 2 * e + half_units(rules.stagger));
      if (edge == Edge::untouched) nothing_ = true;
      if (filled) constant_axis_ = std::min(constant_axis_, a);
      if (filled || edge == Edge::untouched) return;
      if (edge == Edge::periodic) e += low ? n : -n;
      if (edge == Edge::replicate) e = low ? 0 : cells - 1;
      if (mirror) cross(a, edge, *mirror);
    }
  }

  /// Of two columns that hold the same point, the lower one counts; a row beyond a mirror counts as its image.
  void choose_copy(int a) {
    auto const& rules = boundary_.axes[std::size_t(a)];
    for (bool const low : {true, false}) {
      Edge const edge = low ? rules.lower : rules.upper;
      Index const at = 2 * image_.cell[a] + half_units(rules.stagger);
      if (longitude_ < 0 || a == longitude_ || !column_across(edge, 0, 1, boundary_)) continue;
      Index const mirror = *mirror_of(edge, low, extents_[a]);
      Index const n = extents_[longitude_];
      Index const i = image_.cell[longitude_];
      Index const across = ((*column_across(edge, i, n, boundary_) % n) + n) % n;
      if (!(low ? at < mirror : at > mirror) && !(at == mirror && across < i)) continue;
      cross(a, edge, mirror);
      image_.cell[longitude_] = across;
      return;
    }
  }

  Indices extents_;
  Boundary const& boundary_;
  int longitude_;
  Image image_;
  bool nothing_ = false;
  int constant_axis_ = max_ndim;
};

inline Image image_of(Indices const& cell, Indices const& extents, Boundary const& boundary) {
  return Walk(cell, extents, boundary).result();
}

/// True for a cell of the local box that an exchange may write.
inline bool is_ghost(Indices const& cell, Box const& owned, Corners corners) {
  int num_outside = 0;
  for (int a = 0; a < cell.size(); ++a) num_outside += cell[a] < owned.lo(a) || cell[a] >= owned.hi(a) ? 1 : 0;
  return num_outside == 1 || (num_outside > 1 && corners == Corners::fill);
}

/// The same, and owned cells that are copies of others.
inline bool is_filled(Indices const& cell, Box const& owned, Corners corners, Indices const& extents,
                      Boundary const& boundary) {
  if (owned.contains(cell)) return !(image_of(cell, extents, boundary).cell == cell);
  return is_ghost(cell, owned, corners);
}

inline bool mirrors_at_row(Edge edge) { return mirror_of(edge, true, 1) == Index(0); }

/// Any edge of one side that is neither periodic nor a fold, nor a mirror that needs more cells than there are.
inline Edge random_edge(Random& random, Index extent) {
  constexpr std::array edges{Edge::untouched, Edge::constant,    Edge::reflect,      Edge::symmetric,
                             Edge::replicate, Edge::antireflect, Edge::antisymmetric};
  while (true) {
    Edge const edge = edges[std::size_t(draw(random, 0, Index(edges.size()) - 1))];
    if (extent > 1 || !mirrors_at_row(edge)) return edge;
  }
}

inline Stagger random_stagger(Random& random) { return Stagger(draw(random, 0, 1) == 0 ? 0 : draw(random, -1, 1)); }

inline Edge random_fold(Random& random, Index extent, Index num_longitudes, OddLongitudes odd) {
  constexpr std::array edges{Edge::tripolar_face, Edge::tripolar_row, Edge::pole_face, Edge::pole_row};
  bool const no_pole = num_longitudes % 2 != 0 && odd == OddLongitudes::refuse;
  while (true) {
    Edge const edge = edges[std::size_t(draw(random, 0, no_pole ? 1 : 3))];
    if (extent > 1 || !mirrors_at_row(edge)) return edge;
  }
}

/// Values on all faces of some axes that may have them.
inline Boundary with_random_faces(Random& random, Boundary boundary) {
  for (auto& axis : boundary.axes) {
    bool fits = axis.lower != Edge::periodic;
    for (Edge const edge : {axis.lower, axis.upper}) fits = fits && !mirrors_at_row(edge);
    if (fits && draw(random, 0, 2) == 0) axis.stagger = Stagger::all_faces;
  }
  return boundary;
}

/// Rules for all sides, drawn so that they fit the extents; folds on one axis.
inline Boundary random_boundary(Random& random, Indices const& extents) {
  Boundary boundary;
  int const ndim = extents.size();
  for (int a = 0; a < ndim; ++a) {
    AxisBoundary axis{random_edge(random, extents[a]), random_edge(random, extents[a]), double(draw(random, -9, 9)),
                      random_stagger(random)};
    if (draw(random, 0, 3) == 0) axis.lower = axis.upper = Edge::periodic;
    boundary.axes.push_back(axis);
  }
  if (ndim < 2 || draw(random, 0, 1) == 0) return with_random_faces(random, boundary);
  auto const places = random_permutation(random, ndim);
  int const latitude = int(places[0]);
  int const longitude = int(places[1]);
  Index const n = extents[longitude];
  boundary.longitude_axis = longitude;
  boundary.axes[std::size_t(longitude)] = {Edge::periodic, Edge::periodic, 0, random_stagger(random)};
  if (extents[latitude] > 1 && draw(random, 0, 1) == 0) boundary.mirror_line = MirrorLine::copy;
  if (boundary.mirror_line == MirrorLine::keep && draw(random, 0, 1) == 0)
    boundary.odd_longitudes = OddLongitudes::shift_floor;
  if (draw(random, 0, 1) == 0) boundary.pivot = draw(random, -2 * n, 2 * n);
  auto& folds = boundary.axes[std::size_t(latitude)];
  auto const fold = [&] { return random_fold(random, extents[latitude], n, boundary.odd_longitudes); };
  if (folds.lower == Edge::periodic) folds.lower = folds.upper = fold();
  if (draw(random, 0, 2) > 0) folds.lower = fold();
  if (draw(random, 0, 2) > 0) folds.upper = fold();
  return with_random_faces(random, boundary);
}

inline std::string describe(Boundary const& boundary) {
  std::string text = "longitude " + std::to_string(boundary.longitude_axis);
  for (auto const& axis : boundary.axes)
    text += ", " + to_string(axis.lower) + "/" + to_string(axis.upper) + " at " + std::to_string(int(axis.stagger));
  if (boundary.pivot) text += ", pivot " + std::to_string(*boundary.pivot);
  if (boundary.odd_longitudes == OddLongitudes::shift_floor) text += ", shift_floor";
  return text + (boundary.mirror_line == MirrorLine::copy ? ", copies" : "");
}

}  // namespace graticule::test
