// SPDX-License-Identifier: BSD-3-Clause
// The boundary rules written a second time: one cell at a time, folded until it lies inside.
#pragma once

#include <graticule/halo/plan.hpp>

#include "random_layout.hpp"

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
};

/// Mirrors, wraps or clamps `e` until it lies in `[0, n)`; empty beyond a constant or untouched side.
struct AxisImage {
  Image::Kind kind;
  Index at;
  int num_poles;
};

inline AxisImage axis_image(Index e, Index n, AxisBoundary const& rules) {
  int num_poles = 0;
  while (e < 0 || e >= n) {
    bool const low = e < 0;
    switch (low ? rules.lower : rules.upper) {
      case Edge::untouched: return {Image::Kind::nothing, 0, num_poles};
      case Edge::constant: return {Image::Kind::constant, 0, num_poles};
      case Edge::periodic: e += low ? n : -n; break;
      case Edge::replicate: e = low ? 0 : n - 1; break;
      // A mirror at Y / 2 takes e to Y - e; Y is the pole's half index.
      case Edge::pole_row: ++num_poles; [[fallthrough]];
      case Edge::reflect: e = (low ? 0 : 2 * (n - 1)) - e; break;
      case Edge::pole_face: ++num_poles; [[fallthrough]];
      case Edge::symmetric: e = (low ? -1 : 2 * n - 1) - e; break;
    }
  }
  return {Image::Kind::cell, e, num_poles};
}

inline Image image_of(Indices const& cell, Indices const& extents, Boundary const& boundary) {
  Image image;
  image.cell = cell;
  std::optional<double> constant;
  bool nothing = false;
  int num_poles = 0;
  for (int a = 0; a < extents.size(); ++a) {
    auto const& rules = boundary.axes[std::size_t(a)];
    auto const found = axis_image(cell[a], extents[a], rules);
    nothing = nothing || found.kind == Image::Kind::nothing;
    if (found.kind == Image::Kind::constant && !constant) constant = rules.constant;
    image.cell[a] = found.at;
    num_poles += found.num_poles;
  }
  if (nothing) return {Image::Kind::nothing, {}, 0, false};
  if (constant) return {Image::Kind::constant, {}, *constant, false};
  if (int const longitude = boundary.longitude_axis; longitude >= 0) {
    Index const n = extents[longitude];
    image.cell[longitude] = (image.cell[longitude] + num_poles * (n / 2)) % n;
  }
  image.odd_folds = num_poles % 2 == 1;
  return image;
}

/// True for a cell of the local box that an exchange may write.
inline bool is_ghost(Indices const& cell, Box const& owned, Corners corners) {
  int num_outside = 0;
  for (int a = 0; a < cell.size(); ++a) num_outside += cell[a] < owned.lo(a) || cell[a] >= owned.hi(a) ? 1 : 0;
  return num_outside == 1 || (num_outside > 1 && corners == Corners::fill);
}

/// Rules for all sides, drawn so that they fit the extents; poles on `latitude` where the longitudes allow them.
inline Boundary random_boundary(Random& random, Indices const& extents) {
  Boundary boundary;
  int const ndim = extents.size();
  for (int a = 0; a < ndim; ++a) {
    auto const side = [&] {
      while (true) {
        auto const edge = Edge(draw(random, 0, 5));
        if (edge != Edge::periodic && (edge != Edge::reflect || extents[a] > 1)) return edge;
      }
    };
    AxisBoundary axis{side(), side(), double(draw(random, -9, 9))};
    if (draw(random, 0, 3) == 0) axis.lower = axis.upper = Edge::periodic;
    boundary.axes.push_back(axis);
  }
  if (ndim < 2 || draw(random, 0, 1) == 0) return boundary;
  auto const places = random_permutation(random, ndim);
  int const latitude = int(places[0]);
  int const longitude = int(places[1]);
  if (extents[longitude] % 2 == 1) return boundary;
  boundary.longitude_axis = longitude;
  boundary.axes[std::size_t(longitude)] = {Edge::periodic, Edge::periodic, 0};
  auto& poles = boundary.axes[std::size_t(latitude)];
  auto const pole = [&] { return extents[latitude] > 1 && draw(random, 0, 1) == 0 ? Edge::pole_row : Edge::pole_face; };
  if (poles.lower == Edge::periodic) poles.lower = poles.upper = pole();
  if (draw(random, 0, 2) > 0) poles.lower = pole();
  if (draw(random, 0, 2) > 0) poles.upper = pole();
  return boundary;
}

inline std::string describe(Boundary const& boundary) {
  std::string text = "longitude " + std::to_string(boundary.longitude_axis);
  for (auto const& axis : boundary.axes) text += ", " + to_string(axis.lower) + "/" + to_string(axis.upper);
  return text;
}

}  // namespace graticule::test
