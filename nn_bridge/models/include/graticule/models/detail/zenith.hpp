// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/calendar.hpp>

namespace graticule::models::detail {

/// Cosine of the sun's zenith angle, negative at night. Latitude and longitude in degrees.
[[nodiscard]] double cosine_of_zenith(Seconds time, double latitude, double longitude,
                                      Calendar calendar = Calendar::standard);

}  // namespace graticule::models::detail
