// SPDX-License-Identifier: BSD-3-Clause
// One time axis for files that count from dates of their own.
#pragma once

#include <graticule/field_io/contents.hpp>

#include <string>

namespace graticule::detail {

/// Whether two coordinates of time have one calendar, by whatever names.
[[nodiscard]] bool same_calendar(Variable const& a, Variable const& b);

/// Reads times that a file counts from another date, or in other units, in those of the first file, whose times, and
/// their bounds, become f64 where their own type cannot hold them. Nothing changes where that cannot be done.
void adopt_times(FileContents& own, FileContents& first, std::string const& dimension);

}  // namespace graticule::detail
