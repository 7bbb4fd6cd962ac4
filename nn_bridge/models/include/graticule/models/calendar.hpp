// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <optional>
#include <string>
#include <vector>

namespace graticule::models {

/// A time of the Gregorian calendar: whole seconds since 1970-01-01 00:00:00, negative before.
using Seconds = Index;

/// The values of a time coordinate, rounded to whole seconds.
///
/// Example: 6 with the units `hours since 2006-01-01` is 2006-01-01 06:00:00.
/// @param values in these units
/// @param units `UNIT since DATE [TIME] [Z]` with seconds, minutes, hours or days
/// @param calendar `standard`, `gregorian`, `proleptic_gregorian` or nothing
/// @throws `BadInput` (input) for other units and calendars, missing values, and dates before 1582-10-15 in a
///         `standard` calendar, which is Julian there
[[nodiscard]] std::vector<Seconds> times_of(std::vector<double> const& values, std::string const& units,
                                            std::string const& calendar);

/// `2006-01-01 06:00`, with seconds where they are not zero.
[[nodiscard]] std::string time_text(Seconds time);
/// For names of files: `2006-01-01T06`, with minutes and seconds where they are not zero.
[[nodiscard]] std::string compact(Seconds time);
/// `6 h`, `36 h`, `2 d`, `30 min`, `90 s`.
[[nodiscard]] std::string duration_text(Seconds duration);

/// The times from `first` to `last`, both included.
struct Period {
  Seconds first = 0;
  Seconds last = 0;

  [[nodiscard]] bool contains(Seconds time) const noexcept { return first <= time && time <= last; }
  friend bool operator==(Period const&, Period const&) = default;
};

/// The times that `text` names: `2006-01-03` is the whole day, `2006-01` the month, `2006` the year, `2006-01-03T06`
/// and `2006-01-03T06:30` are one time.
/// `option` is named in the error. @throws `BadOption` (usage)
[[nodiscard]] Period parse_date(std::string const& option, std::string const& text);
/// `A..B`: from the first time of A to the last one of B. @throws `BadOption` (usage)
[[nodiscard]] Period parse_period(std::string const& option, std::string const& text);
/// `90s`, `30m`, `6h`, `1d`. @throws `BadOption` (usage)
[[nodiscard]] Seconds parse_duration(std::string const& option, std::string const& text);

}  // namespace graticule::models
