// SPDX-License-Identifier: BSD-3-Clause
// One time axis for files that count from dates of their own.
#pragma once

#include <graticule/field_io/contents.hpp>

#include <string>
#include <vector>

namespace graticule::detail {

/// Whether two coordinates of time have one calendar, by whatever names. `standard` and `proleptic_gregorian` are one
/// where both count from a date that both have.
[[nodiscard]] bool same_calendar(Variable const& a, Variable const& b);

/// Whether times of a file, in units of the first one, have the same dates in the calendars of both: `standard` and
/// `proleptic_gregorian` differ before 1582-10-15. @pre `same_calendar(own, first)` @throws `BadInput` for values that
/// are no times
[[nodiscard]] bool same_dates(Variable const& own, Variable const& first, std::vector<double> const& values);

/// Reads times that a file counts from another date, or in other units, in those of the first file, whose times, and
/// their bounds, become f64 where their own type cannot hold them. Nothing changes where that cannot be done.
void adopt_times(FileContents& own, FileContents& first, std::string const& dimension);

}  // namespace graticule::detail
