// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/calendar.hpp>

#include <string>

namespace graticule::models {

// Times and their calendars are those of files.
using graticule::Calendar;
using graticule::Period;
using graticule::Seconds;
using graticule::time_text;

/// The times that `text` names, as `period_of`, with a year of four digits. `option` is named in the error.
/// @throws `BadOption` (usage)
[[nodiscard]] Period parse_date(std::string const& option, std::string const& text,
                                Calendar calendar = Calendar::standard);

}  // namespace graticule::models
