// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/calendar.hpp>
#include <graticule/field_io/contents.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {

/// Whether the calendar has this date. Example: 2001-02-30 is one of `day_360` alone.
[[nodiscard]] bool is_date(DateTime const& date, Calendar calendar) noexcept;
/// `6 h`, `36 h`, `2 d`, `30 min`, `90 s`.
[[nodiscard]] std::string duration_text(Seconds duration);

/// The times that a date names: `2006-01-03` is the whole day, `2006-01` the month, `2006` the year, `2006-01-03T06`,
/// `2006-01-03 06:30` and `2006-01-03 06:30:00.0` are one time. Nothing for other text, and for no date of the
/// calendar.
[[nodiscard]] std::optional<Period> period_of(std::string_view text, Calendar calendar);

/// Units that count time from a date: `hours since 2000-01-01 00:00:00`.
///
/// A value means `value * seconds` after the reference or, in months and years, that many calendar months.
struct TimeUnits {
  double seconds = 0;  ///< of one unit; 0 for calendar months
  int months = 0;      ///< of one unit; 0 for seconds
  Seconds reference = 0;
  int nanoseconds = 0;  ///< of the reference, after that second

  friend bool operator==(TimeUnits const&, TimeUnits const&) = default;
};

/// Understands `UNIT since DATE[ TIME][ ZONE]`: nanoseconds to weeks, and months and years, in singular, plural or
/// short, in capitals or not; the zone is `Z`, `UTC` or an offset such as `+05:30`. The time may have parts of a second
/// down to nanoseconds, as numpy and pandas write them: `days since 2000-01-01T00:00:00.000000000`.
/// @throws `BadInput` (input) with the units, for all others and for dates that the calendar has not
[[nodiscard]] TimeUnits time_units_of(std::string const& units, Calendar calendar);
/// The times that hold data where the axis is longer: from the attribute `valid_time_start` of the file to
/// `valid_time_stop`, both included, as ARCO-ERA5 has them, whose axis runs from 1900 to 2050 with absent chunks.
/// Nothing without them, and where all or none of `times` lie there: a part of such a store may keep its attributes.
[[nodiscard]] std::optional<Period> valid_times(FileContents const& contents, std::vector<Seconds> const& times,
                                                Calendar calendar);
/// Whether units count from a date, understood or not. Example: `Hours Since 2000-01-01`, but not `hours`.
[[nodiscard]] bool counts_from_date(std::string_view units);

}  // namespace graticule
