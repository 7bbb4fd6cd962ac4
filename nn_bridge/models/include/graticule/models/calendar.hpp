// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/calendar.hpp>

#include <string>

namespace graticule::models {

// Times and their calendars are those of files.
using graticule::Calendar;
using graticule::duration_text;
using graticule::Period;
using graticule::Seconds;
using graticule::time_text;

/// For names of files: `2006-01-01T06`, with minutes and seconds where they are not zero.
[[nodiscard]] std::string compact(Seconds time, Calendar calendar = Calendar::standard);

/// The times that `text` names, as `period_of`, with a year of four digits. `option` is named in the error.
/// @throws `BadOption` (usage)
[[nodiscard]] Period parse_date(std::string const& option, std::string const& text,
                                Calendar calendar = Calendar::standard);
/// `A..B`: from the first time of A to the last one of B. @throws `BadOption` (usage)
[[nodiscard]] Period parse_period(std::string const& option, std::string const& text,
                                  Calendar calendar = Calendar::standard);
/// Before the calendar of the input is known: `A..B` of dates that some calendar has. @throws `BadOption` (usage)
void require_period(std::string const& option, std::string const& text);
/// `90s`, `30m`, `6h`, `1d`. @throws `BadOption` (usage)
[[nodiscard]] Seconds parse_duration(std::string const& option, std::string const& text);

}  // namespace graticule::models
