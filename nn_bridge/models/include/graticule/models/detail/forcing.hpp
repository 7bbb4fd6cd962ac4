// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/calendar.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace graticule::models {

/// Inputs that follow from time and place alone.
///
/// - `insolation`: the cosine of the sun's zenith angle, 0 at night, averaged over the coming step (9 points,
///   Simpson's rule). It is 1 where the sun stays at the zenith.
///   Declination and equation of time as in Spencer (1971).
/// - `time_of_day`: sine and cosine of the local solar time, and sine and cosine of universal time.
/// - `time_of_year`: sine and cosine of the part of the year that has passed.
///
/// The year is that of the calendar: 360 days of `day_360`, in which the sun passes the equinoxes as in 365.
enum class Forcing : std::uint8_t { insolation, time_of_day, time_of_year };

/// By their names. @throws `BadOption` (usage), which names the `option`
[[nodiscard]] std::vector<Forcing> forcings_of(std::vector<std::string> const& names,
                                               std::string const& option = "--forcing");
/// The channels of all forcings, in order: `insolation`, `sin_local_time`, ...
[[nodiscard]] std::vector<std::string> forcing_channels(std::vector<Forcing> const& forcings);

/// Position of a rank's cells, degrees; rows of the mirror image have the opposite latitude.
struct Places {
  std::vector<double> latitudes;
  std::vector<double> longitudes;
};

/// Fills [channel][row][column] for the step that begins at `time` and takes `step` seconds.
/// @pre `out` has `forcing_channels(...).size()` times the number of places
template <class Value>
void fill_forcing(std::vector<Forcing> const& forcings, Places const& places, Seconds time, Seconds step, Value* out,
                  Calendar calendar = Calendar::standard);

/// Cosine of the sun's zenith angle, negative at night. Latitude and longitude in degrees.
[[nodiscard]] double cosine_of_zenith(Seconds time, double latitude, double longitude,
                                      Calendar calendar = Calendar::standard);

}  // namespace graticule::models
