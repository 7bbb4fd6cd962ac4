// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace graticule {

/// What lies beyond one side of an axis of N cells. Images are given for coordinate e on the lower (upper) side, for
/// values at cell centres; see `Stagger` for others.
enum class Edge : std::uint8_t {
  untouched,      ///< none: ghost cells keep their values
  constant,       ///< the axis' constant (0 unless set)
  periodic,       ///< e + N (e - N)
  reflect,        ///< -e (2(N-1) - e): mirrored at the edge cell, which is not repeated
  symmetric,      ///< -1 - e (2N-1 - e): mirrored at the outer face, the edge cell is repeated
  replicate,      ///< 0 (N-1): the edge cell
  pole_face,      ///< across a pole on the outer face of the edge row: as `symmetric`, shifted by half the longitudes
  pole_row,       ///< across a pole on the edge row: as `reflect`, shifted by half the longitudes
  antireflect,    ///< as `reflect`, with the opposite sign
  antisymmetric,  ///< as `symmetric`, with the opposite sign
  tripolar_face,  ///< across the seam of a tripolar grid on the outer face of the edge row: as `symmetric`, reversed
  tripolar_row,   ///< across the seam of a tripolar grid on which the edge row lies: as `reflect`, reversed
};

/// `periodic`, `pole_row`, ...
[[nodiscard]] std::string to_string(Edge edge);

/// Position of the values of cell j along an axis: half index 2j + offset.
///
/// A mirror at half index Y takes cell j to Y - offset - j. Y is -1 on the lower outer face and 0 on the lower edge
/// row, 2N-1 and 2(N-1) on the upper side. Example: 4 rows, upper side `symmetric` (Y = 7): ghost 4 reads row 3 at
/// centres; on high faces row 3 lies on the mirror and ghost 4 reads row 2.
///
/// `all_faces`: on low faces, and on the upper face of the last cell, too. Fields have one cell more than the grid
/// along the axis, at its upper end: the ranks that own the last cell there own the last face (`HaloPlan::owned`).
/// Example: 4 rows between two poles (`pole_face`) have faces 0 to 4, the first and the last on the poles; face -1
/// reads face 1, face 5 reads face 3. Not on periodic axes, whose last face is the first, nor where a mirror lies on an
/// edge row, beyond which that face would lie.
enum class Stagger : std::int8_t { low_face = -1, centre = 0, high_face = 1, all_faces = 2 };

/// Ghost values on a mirror that no rank owns (the lower face itself, for values on high faces) are the constant.
struct AxisBoundary {
  Edge lower = Edge::constant;
  Edge upper = Edge::constant;
  double constant = 0;
  Stagger stagger = Stagger::centre;
  friend bool operator==(AxisBoundary const&, AxisBoundary const&) = default;
};

/// With an odd number n of longitudes, no column lies opposite column i across a pole. A mean of both neighbors is not
/// available: every cell of a plan has one source.
enum class OddLongitudes : std::uint8_t {
  refuse,       ///< `BadBoundary`
  shift_floor,  ///< column (i + floor(n/2)) mod n: each column is read once; two crossings do not lead back to i
};

/// Values on a pole or a seam are stored twice, in columns i and i' of the row there.
enum class MirrorLine : std::uint8_t {
  keep,  ///< an exchange does not change owned cells
  copy,  ///< the higher column of each pair, and a row beyond the mirror, become copies (with sign) of the other one
};

/// Rules of all axes. Where rules of two axes meet in a corner, the image is the product of both. A constant takes
/// precedence over an image, the first axis' constant over a later one, and untouched over all.
///
/// A pole turns a column i into (i + n/2) mod n of the mirrored row, n being the number of longitudes. The seam of a
/// tripolar grid turns i into (pivot - i - offset) mod n, offset being that of the longitudes. Fields of odd parity
/// (components of a horizontal vector) change sign at both. One axis may have such rules, on either side; all other
/// axes, such as a vertical one, may have any other rules. Rules compose for halos deeper than the global box.
/// Plans check the rules against their grid and throw: `AxesMismatch` unless there is one rule per axis; `BadBoundary`
/// for rules that do not fit together, for poles without a periodic longitude, and for an odd number of longitudes at
/// poles (see `OddLongitudes`; refused with `MirrorLine::copy`); `BadHaloWidth` for copies on an axis of 1 cell, beyond
/// 1000 folds or wraps, for ghosts that a mirror at the only cell never reaches, and for ghosts of a grid without
/// cells.
///
/// Example: 8 columns, `tripolar_row` above row 5, pivot 0: the ghost cell (6, 1) reads (4, 7); with `MirrorLine::copy`
/// cell (5, 7) becomes a copy of (5, 1).
struct Boundary {
  std::vector<AxisBoundary> axes;
  int longitude_axis = -1;  ///< which axis a pole shifts and a seam reverses; -1 where there is neither
  OddLongitudes odd_longitudes = OddLongitudes::refuse;
  MirrorLine mirror_line = MirrorLine::keep;
  /// Half index along the longitudes of a seam's pivot. Unset: -1 (a corner) on a face, 0 (a cell) on a row.
  std::optional<Index> pivot = std::nullopt;

  /// The same rule on every side.
  [[nodiscard]] static Boundary uniform(int ndim, Edge edge);
  /// Axes (latitude, longitude): both poles by `pole_face` or `pole_row`, longitude periodic. @throws `BadBoundary`
  [[nodiscard]] static Boundary sphere(Edge pole);
  /// Axes (latitude, longitude): `south` below row 0, a seam above the last, which is copied. @throws `BadBoundary`
  [[nodiscard]] static Boundary tripolar(Edge south, Edge seam);
  /// The same rules for staggered values: `rules.staggered({Stagger::centre, Stagger::high_face})`.
  [[nodiscard]] Boundary staggered(std::initializer_list<Stagger> places) const;
  /// The same rules with one more axis in front: `Boundary::sphere(...).behind(levels)` has axes (level, latitude,
  /// longitude).
  [[nodiscard]] Boundary behind(AxisBoundary const& axis) const;

  /// Equal on all ranks exactly when the rules are equal.
  [[nodiscard]] std::uint64_t fingerprint() const;
  friend bool operator==(Boundary const&, Boundary const&) = default;
};

}  // namespace graticule
