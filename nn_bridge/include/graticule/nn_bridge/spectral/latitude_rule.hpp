// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace graticule::nn {

/// Latitudes with an exact quadrature over the sphere.
enum class LatitudeGrid : std::uint8_t {
  gaussian,    ///< sines are the zeros of the Legendre polynomial P_N: Gauss-Legendre
  half_way,    ///< equally spaced, the outer rows half a row from the poles: Fejer's first rule
  both_poles,  ///< equally spaced, a row on each pole: Clenshaw-Curtis
  one_pole,    ///< equally spaced from one pole to one row short of the other: Driscoll and Healy (1994)
  no_pole,     ///< as `both_poles` with both pole rows left out: Fejer's second rule
};

/// Quadrature over the sines of latitudes: sum_i weights[i] g(sines[i]) = integral of g from -1 to 1.
///
/// Exact for polynomials g of degree 2 N - 1 on `gaussian` latitudes, N - 2 on `one_pole`, N - 1 on the others.
/// Example: 3 rows of `both_poles` are 90, 0, -90 degrees with weights 1/3, 4/3, 1/3.
struct LatitudeRule {
  LatitudeGrid grid = LatitudeGrid::gaussian;
  std::vector<double> latitudes;  ///< degrees north
  std::vector<double> sines;      ///< of the latitudes, each rounded once
  std::vector<double> cosines;
  std::vector<double> weights;  ///< they sum to 2
  /// A spherical harmonic transform and its inverse are exact for fields of degrees less than this. N rows give N on
  /// `gaussian` latitudes, N / 2 on `one_pole`, (N + 1) / 2 on the others.
  Index num_degrees = 0;

  [[nodiscard]] Index num_rows() const noexcept { return Index(latitudes.size()); }
  /// Equal exactly for equal rules, on all ranks.
  [[nodiscard]] std::uint64_t fingerprint() const;
};

/// The rule of `num_rows` rows from north to south (`one_pole`: from the north pole).
/// @throws `BadCoordinates` for fewer rows than the grid has: 2 with poles, else 1
[[nodiscard]] LatitudeRule latitude_rule(LatitudeGrid grid, Index num_rows);

/// The rule of a file's latitudes, from north to south or from south to north. The latitudes of the result are exact.
///
/// A row may deviate by 0.005 degrees and by a hundredth of the row spacing, so that single-precision values and values
/// with two decimals are recognised.
/// @param latitudes degrees north of all rows
/// @throws `BadCoordinates` for latitudes of no such grid; the message gives the nearest grid and the deviating row
/// Cost: O(N^2) for the Gaussian latitudes of N rows
[[nodiscard]] LatitudeRule latitude_rule(std::span<double const> latitudes);

/// `721 rows, equally spaced with both poles`
[[nodiscard]] std::string to_string(LatitudeRule const& rule);

}  // namespace graticule::nn
