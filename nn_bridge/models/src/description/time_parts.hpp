// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/calendar.hpp>

namespace graticule::models {

/// Seconds since midnight, 0 to 86399.
[[nodiscard]] Seconds second_of_day(Seconds time);
/// Part of the year that has passed, 0 to 1.
[[nodiscard]] double part_of_year(Seconds time, Calendar calendar);

}  // namespace graticule::models
