// SPDX-License-Identifier: BSD-3-Clause
#include "series_times.hpp"

#include <graticule/field_io/calendar.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/field_io/detail/value_types.hpp>

#include "hdf5/values.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace graticule::detail {

namespace {

/// A list's entry for values that are no longer in the file's type.
void become_f64(Variable& variable) {
  variable.type = ValueType::f64;
  variable.value_bytes = size_in_bytes(ValueType::f64);
  variable.is_big_endian = false;
  std::erase_if(variable.attributes, [](Attribute const& one) {
    return one.name == "scale_factor" || one.name == "add_offset" || one.name == "_Unsigned";
  });
}

/// Whether a variable of the first file's type can hold times that have moved: outputs repeat them in that type.
bool holds_moved_times(ValueType type, double factor, double shift) {
  constexpr double largest = 1 << 23;  // where f32 still has halves
  if (type == ValueType::f64) return true;
  if (type == ValueType::f32) return std::abs(shift) < largest && factor >= 1;
  bool const is_whole = factor == std::trunc(factor) && shift == std::trunc(shift);
  if (size_in_bytes(type) == 8) return is_whole;
  // Half of what 32 bits count is left for the values themselves.
  return size_in_bytes(type) == 4 && is_whole && factor == 1 && std::abs(shift) < double(1 << 30);
}

/// Times of one unit in another: `value * factor + shift`.
struct TimeChange {
  double factor = 1;
  double shift = 0;
};

/// The variable's values are read changed, in these units.
void rescale(FileContents& contents, std::string const& name, TimeChange const& change, std::string const& units) {
  for (auto& variable : contents.variables) {
    if (variable.name != name) continue;
    auto const unpacking = unpacking_of(contents, variable);
    std::erase_if(variable.attributes,
                  [](Attribute const& one) { return one.name == "scale_factor" || one.name == "add_offset"; });
    variable.attributes.push_back(Attribute::of_number("scale_factor", unpacking.scale * change.factor));
    variable.attributes.push_back(Attribute::of_number("add_offset", unpacking.offset * change.factor + change.shift));
    for (auto& attribute : variable.attributes)
      if (attribute.name == "units") attribute = Attribute::of_text("units", units);
  }
}

/// From when on `standard` and `proleptic_gregorian` have the same dates.
Seconds gregorian_begins() { return seconds_of({1582, 10, 15, 0}, Calendar::proleptic_gregorian); }

/// Nothing where units are not understood, or months meet units of a fixed length.
std::optional<TimeChange> time_change(std::string const& from_units, std::string const& to_units, Calendar calendar) {
  TimeUnits from;
  TimeUnits to;
  try {
    from = time_units_of(from_units, calendar);
    to = time_units_of(to_units, calendar);
  } catch (Error const&) {
    return {};
  }
  if (from.months == 0 && to.months == 0) {
    // In nanoseconds, of which units have whole numbers.
    constexpr double giga = 1e9;
    double const shift = double(from.reference - to.reference) * giga + double(from.nanoseconds - to.nanoseconds);
    return TimeChange{from.seconds / to.seconds, shift / (to.seconds * giga)};
  }
  if (from.months == 0 || to.months == 0) return {};
  auto const begin = date_time_of(from.reference, calendar);
  auto const origin = date_time_of(to.reference, calendar);
  if (begin.day != origin.day || begin.second != origin.second || from.nanoseconds != to.nanoseconds) return {};
  int const months = (begin.year - origin.year) * 12 + begin.month - origin.month;
  return TimeChange{double(from.months) / to.months, double(months) / to.months};
}

}  // namespace

bool same_calendar(Variable const& a, Variable const& b) {
  if (a.text("calendar") == b.text("calendar")) return true;
  try {
    auto const calendar = calendar_of(a.text("calendar"));
    auto const other = calendar_of(b.text("calendar"));
    if (calendar == other) return true;
    auto const is_gregorian = [](Calendar one) {
      return one == Calendar::standard || one == Calendar::proleptic_gregorian;
    };
    return is_gregorian(calendar) && is_gregorian(other) &&
           time_units_of(a.text("units"), calendar).reference >= gregorian_begins() &&
           time_units_of(b.text("units"), other).reference >= gregorian_begins();
  } catch (Error const&) {
    return false;
  }
}

bool same_dates(Variable const& own, Variable const& first, std::vector<double> const& values) {
  auto const calendar = first.text("calendar");
  if (!counts_from_date(first.text("units")) || own.text("calendar") == calendar) return true;
  auto const of_first = calendar_of(calendar);
  if (calendar_of(own.text("calendar")) == of_first) return true;
  auto const times = times_of(values, first.text("units"), of_first);
  return std::all_of(times.begin(), times.end(), [](Seconds time) { return time >= gregorian_begins(); });
}

void adopt_times(FileContents& own, FileContents& first, std::string const& dimension) {
  auto const* const expected = first.coordinate(dimension);
  auto const* const found = expected != nullptr ? own.find(expected->name) : nullptr;
  if (found == nullptr || !found->refusal.empty() || found->text("units") == expected->text("units")) return;
  if (!same_calendar(*found, *expected)) return;
  auto const units = found->text("units");
  auto const to_units = expected->text("units");
  auto const change = time_change(units, to_units, calendar_of(expected->text("calendar")));
  if (!change) return;
  for (std::string const& name : {expected->name, expected->text("bounds"), expected->text("climatology")}) {
    auto const* const one = name.empty() ? nullptr : own.find(name);
    bool const follows =
        one != nullptr && one->refusal.empty() && (one->text("units").empty() || one->text("units") == units);
    if (!follows) continue;
    for (auto& listed : first.variables)
      if (listed.name == name && !holds_moved_times(listed.type, change->factor, change->shift)) become_f64(listed);
    rescale(own, name, *change, to_units);
  }
}

}  // namespace graticule::detail
