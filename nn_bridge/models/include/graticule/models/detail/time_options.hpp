// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/calendar.hpp>

#include <string>

namespace graticule::models {

/// For names of files: `2006-01-01T06`, with minutes and seconds where they are not zero.
[[nodiscard]] std::string compact(Seconds time, Calendar calendar = Calendar::standard);

/// `A..B`: from the first time of A to the last one of B. @throws `BadOption` (usage)
[[nodiscard]] Period parse_period(std::string const& option, std::string const& text,
                                  Calendar calendar = Calendar::standard);
/// Before the calendar of the input is known: `A..B` of dates that some calendar has. @throws `BadOption` (usage)
void require_period(std::string const& option, std::string const& text);
/// `90s`, `30m`, `6h`, `1d`. @throws `BadOption` (usage)
[[nodiscard]] Seconds parse_duration(std::string const& option, std::string const& text);

}  // namespace graticule::models
