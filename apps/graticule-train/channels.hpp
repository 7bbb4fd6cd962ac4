// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include "fields.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace graticule::train {

/// What turns a field's values into numbers of order one: (value - mean) / scale, level by level.
///
/// Components of a vector keep mean 0, because their sign change at a pole must survive; their scale is the root mean
/// square. A level without variation has scale 1.
struct Scaling {
  std::vector<double> mean;   ///< one per level
  std::vector<double> scale;  ///< one per level, positive
};

/// A field of `num_samples` samples on one rank's box, one channel of the network's input or output.
struct Channel {
  std::string name;
  Parity parity = Parity::even;
  std::vector<double> values;  ///< [sample][row][column], normalised
};

/// Where a rank's cells lie, and how much each row counts in means.
struct Cells {
  Grid const& grid;
  Layout const& layout;
  Box box;                              ///< this rank's owned box
  std::span<double const> row_weights;  ///< of all rows of the grid

  [[nodiscard]] Index per_sample() const noexcept { return box.extent(0) * box.extent(1); }
};

/// Area-weighted mean and standard deviation over all ranks of the first `num_training` samples, level by level, in f64
/// and two passes; missing cells do not count. Collective. @throws `EmptyField` (input) when a level has no value at
/// all
[[nodiscard]] Scaling measure_scaling(Comm const& comm, Cells const& cells, Field const& field, Index num_levels,
                                      Index num_training);

/// Area-weighted mean of each level, of vector components too: the climatology that forecasts are judged by.
[[nodiscard]] std::vector<double> measure_mean(Comm const& comm, Cells const& cells, Field const& field,
                                               Index num_levels, Index num_training);

/// What missing values become.
enum class Missing { keep, mean };

[[nodiscard]] Channel normalised(Field const& field, Scaling const& scaling, Index cells_per_sample, Missing missing);

/// What of an input field is given to the network: its value, its derivative along the parallel, along the meridian.
enum class Feature : std::uint8_t { value, east, north };
/// From `auto` or a list of `value`, `east` and `north`; `auto` takes the derivatives alone for a potential, whose
/// value means nothing, and all three for any other field. @throws `UnknownFeature` (usage)
[[nodiscard]] std::vector<Feature> features_of(std::vector<std::string> const& names, FieldInfo const& info);

/// Derivative of a field by metres along the parallel or the meridian, centred differences over the neighboring cells,
/// across ranks, poles and the date line; one-sided where an edge repeats its cells. Its parity is opposite to the
/// field's. Collective.
///
/// d/dx = (f(j+1) - f(j-1)) / (a cos(latitude) (longitude(j+1) - longitude(j-1))), d/dy likewise without the cosine,
/// which is bounded below by its value half a row from the pole; a = 6371 km. @pre `which` is `east` or `north`
[[nodiscard]] Field derivative(Comm const& comm, Cells const& cells, Field const& field, Feature which);

/// Functions of latitude that can be input channels: `coriolis` (2 Omega sin(latitude), 1/s), `sin_latitude`,
/// `cos_latitude`. One value per row of the grid. @throws `UnknownStatic` (usage)
[[nodiscard]] std::vector<double> static_rows(std::string const& name, Grid const& grid);

/// The rows as an input channel of one sample, normalised over the globe. Needs no message.
[[nodiscard]] Channel static_channel(std::string const& name, Cells const& cells);

}  // namespace graticule::train
