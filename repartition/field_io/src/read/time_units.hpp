// SPDX-License-Identifier: BSD-3-Clause
// Units that count time from a date: `hours since 2000-01-01`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace graticule::detail {

/// `value` of these units lies `value * seconds` after the reference.
struct TimeUnits {
  int seconds = 0;             ///< of one unit
  std::int64_t reference = 0;  ///< in seconds, comparable within a calendar

  friend bool operator==(TimeUnits const&, TimeUnits const&) = default;
};

/// The calendar's name in one spelling: `standard` for none and for `gregorian`, `noleap` for `365_day`.
[[nodiscard]] std::string plain_calendar(std::string calendar);

/// Nothing for units that count no time, or whose date is not understood: months, other zones than UTC, fractions of
/// seconds, dates of the standard calendar before 1582-10-15 and those that a calendar has not.
[[nodiscard]] std::optional<TimeUnits> time_units(std::string units, std::string const& calendar);

}  // namespace graticule::detail
