// SPDX-License-Identifier: BSD-3-Clause
#include "grid.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graticule::swe {

using std::numbers::pi;

Grid::Grid(Index num_rows, Index num_columns, Planet const& planet)
    : num_rows_(num_rows),
      num_columns_(num_columns),
      planet_(planet),
      dphi_(pi / double(num_rows)),
      dlambda_(2 * pi / double(num_columns)) {
  for (Index j = 0; j < num_rows; ++j) cosine_.push_back(std::cos(latitude(j)));
  for (Index j = 0; j <= num_rows; ++j) {
    face_cosine_.push_back(j == 0 || j == num_rows ? 0 : std::cos(face_latitude(j)));
    coriolis_.push_back(2 * planet.rotation * std::cos(planet.tilt) * std::sin(face_latitude(j)));
    tilted_.push_back(2 * planet.rotation * std::sin(planet.tilt) * face_cosine_.back());
  }
  // Of ghost columns too, with the bits of the columns that they are images of.
  for (Index i = -2; i < num_columns + 3; ++i)
    face_longitude_cosine_.push_back(std::cos(face_longitude((i + num_columns) % num_columns)));
}

// From the nearer pole, so that both hemispheres have the same bits.
double Grid::latitude(Index j) const noexcept {
  Index const from_pole = std::min(j, num_rows_ - 1 - j);
  double const south = (double(from_pole) + 0.5) * dphi_ - pi / 2;
  return 2 * j + 1 < num_rows_ ? south : 2 * j + 1 == num_rows_ ? 0 : -south;
}

double Grid::face_latitude(Index j) const noexcept {
  Index const from_pole = std::min(j, num_rows_ - j);
  double const south = double(from_pole) * dphi_ - pi / 2;
  return 2 * j < num_rows_ ? south : 2 * j == num_rows_ ? 0 : -south;
}

}  // namespace graticule::swe
