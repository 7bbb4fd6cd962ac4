// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/index_map.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule {

/// What lies beyond one side of an axis of N cells. Images are given for coordinate e on the lower (upper) side.
enum class Edge : std::uint8_t {
  untouched,  ///< nothing: ghost cells keep what they hold
  constant,   ///< the axis' constant (0 unless set)
  periodic,   ///< e + N (e - N)
  reflect,    ///< -e (2(N-1) - e): mirrored at the edge cell, which is not repeated
  symmetric,  ///< -1 - e (2N-1 - e): mirrored at the outer face, the edge cell is repeated
  replicate,  ///< 0 (N-1): the edge cell
  pole_face,  ///< across a pole on the outer face of the edge row: as `symmetric`, half way round in longitude
  pole_row,   ///< across a pole on which the edge row lies: as `reflect`, half way round in longitude
};

/// `periodic`, `pole_row`, ...
[[nodiscard]] std::string to_string(Edge edge);

struct AxisBoundary {
  Edge lower = Edge::constant;
  Edge upper = Edge::constant;
  double constant = 0;
  friend bool operator==(AxisBoundary const&, AxisBoundary const&) = default;
};

/// Rules of all axes. Where rules of two axes meet in a corner, the image is the product of both; a constant wins over
/// an image, the first axis' constant over a later one, and untouched over all.
///
/// A pole turns a column i into (i + n/2) mod n of the mirrored row, n being the number of longitudes, which must be
/// even; fields of odd parity (components of a horizontal vector) change sign there. Rules compose for halos deeper than
/// the global box.
struct Boundary {
  std::vector<AxisBoundary> axes;
  int longitude_axis = -1;  ///< which axis a pole shifts; -1 where there is none

  /// The same rule on every side.
  [[nodiscard]] static Boundary uniform(int ndim, Edge edge);
  /// Axes (latitude, longitude): both poles crossed by the same rule, longitude periodic.
  [[nodiscard]] static Boundary sphere(Edge pole);

  friend bool operator==(Boundary const&, Boundary const&) = default;
};

/// The index map of `boundary` on the global box `[0, extents)`.
/// @throws `AxesMismatch`, `PeriodicOnOneSide`, `PoleNeedsPeriodicLongitude`, `OddLongitudeFold` (poles, odd number of
///         longitudes); `ReflectTooWide` when called for ghosts that a mirror in an axis of 1 cell never reaches
[[nodiscard]] IndexMap boundary_map(Indices const& extents, Boundary const& boundary);

/// Equal on all ranks exactly when the rules are.
[[nodiscard]] std::uint64_t fingerprint(Boundary const& boundary);

}  // namespace graticule
