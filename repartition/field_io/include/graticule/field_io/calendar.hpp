// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {

/// Calendars of the CF conventions.
///
/// - `standard` (also `gregorian`, or no attribute): Julian dates up to 1582-10-04, then Gregorian from 1582-10-15.
/// - `noleap` (also `365_day`), `all_leap` (also `366_day`): every year has 365 or 366 days.
/// - `day_360` (`360_day` in files): every month has 30 days.
enum class Calendar : std::uint8_t { standard, proleptic_gregorian, julian, noleap, all_leap, day_360 };

/// The name in files. Example: `360_day`.
[[nodiscard]] std::string_view to_string(Calendar calendar) noexcept;
/// From the attribute `calendar`, in capitals or not; empty text is `standard`. @throws `BadInput` (input)
[[nodiscard]] Calendar calendar_of(std::string_view name);

/// Whole seconds since 1970-01-01 00:00:00 of a calendar, negative before. Differences are durations of that calendar;
/// times of different calendars cannot be compared.
using Seconds = Index;

/// A date of some calendar and the second of its day.
struct DateTime {
  int year = 1970;  ///< 0 to 9999; `standard` and `julian` have no year 0
  int month = 1;
  int day = 1;
  Seconds second = 0;  ///< since midnight, 0 to 86399

  friend bool operator==(DateTime const&, DateTime const&) = default;
};

/// @throws `BadArgument` for no date of the calendar
[[nodiscard]] Seconds seconds_of(DateTime const& date, Calendar calendar);
/// The years of times before year 0 are negative; 0 and negative years of `standard` and `julian` count as astronomers
/// do.
[[nodiscard]] DateTime date_time_of(Seconds time, Calendar calendar) noexcept;

/// `2006-01-01 06:00`, with seconds where they are not zero.
[[nodiscard]] std::string time_text(Seconds time, Calendar calendar = Calendar::standard);

/// The times from `first` to `last`, both included.
struct Period {
  Seconds first = 0;
  Seconds last = 0;

  [[nodiscard]] bool contains(Seconds time) const noexcept { return first <= time && time <= last; }
  friend bool operator==(Period const&, Period const&) = default;
};

/// The values of a time coordinate, rounded to whole seconds, halves upwards.
///
/// Example: 6 with the units `hours since 2006-01-01` is 2006-01-01 06:00:00. 60 with `days since 2000-01-01` is
/// 2000-03-01 of `standard`, 2000-03-02 of `noleap` and 2000-03-01 of `day_360`.
/// @throws `BadInput` (input) for units that are not understood or count from a date that the calendar has not; for
/// missing values, for years before 0 (`standard`, `julian`: 1) or
///         after 9999; for parts of months (but in `day_360`) or of years, and for months without the reference's day
[[nodiscard]] std::vector<Seconds> times_of(std::vector<double> const& values, std::string const& units,
                                            Calendar calendar);

}  // namespace graticule
