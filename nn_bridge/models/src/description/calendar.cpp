// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/calendar.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/partition/error.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace graticule::models {
namespace {

constexpr std::array calendars{Calendar::standard, Calendar::proleptic_gregorian,
                               Calendar::julian,   Calendar::noleap,
                               Calendar::all_leap, Calendar::day_360};

std::string format(char const* pattern, auto... values) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

bool has_year(std::string const& text) { return text.find_first_not_of("0123456789") >= 4; }

[[noreturn]] void refuse_date(std::string const& option, std::string const& text, std::string const& of) {
  throw Error(Fault::usage, "BadOption",
              option + ": '" + text + "' is no date " + of + "such as 2006, 2006-01, 2006-01-03 or 2006-01-03T06:00");
}

/// The texts of A and B of `A..B`.
std::array<std::string, 2> ends_of(std::string const& option, std::string const& text) {
  auto const dots = text.find("..");
  if (dots == std::string::npos)
    throw Error(Fault::usage, "BadOption",
                option + ": '" + text + "' is no period A..B such as 2006-01-01..2006-01-05");
  return {text.substr(0, dots), text.substr(dots + 2)};
}

void require_order(std::string const& option, std::string const& text, Period const& period) {
  if (period.last < period.first)
    throw Error(Fault::usage, "BadOption", option + " " + text + " ends before it begins");
}

}  // namespace

std::string compact(Seconds time, Calendar calendar) {
  auto const [year, month, day, second] = date_time_of(time, calendar);
  auto text = format("%04d-%02d-%02dT%02d", year, month, day, int(second / 3600));
  if (second % 3600 != 0) text += format("%02d", int(second / 60 % 60));
  return second % 60 == 0 ? text : text + format("%02d", int(second % 60));
}

Period parse_date(std::string const& option, std::string const& text, Calendar calendar) {
  auto const period = has_year(text) ? period_of(text, calendar) : std::nullopt;
  if (!period)
    refuse_date(option, text,
                calendar == Calendar::standard ? "" : "of the calendar " + std::string(to_string(calendar)) + ", ");
  return *period;
}

Period parse_period(std::string const& option, std::string const& text, Calendar calendar) {
  auto const [from, to] = ends_of(option, text);
  Period const period{parse_date(option, from, calendar).first, parse_date(option, to, calendar).last};
  require_order(option, text, period);
  return period;
}

void require_period(std::string const& option, std::string const& text) {
  for (auto const& end : ends_of(option, text)) {
    bool exists = false;
    for (Calendar const calendar : calendars) exists = exists || (has_year(end) && period_of(end, calendar));
    if (!exists) refuse_date(option, end, "");
  }
  // Of two dates that one calendar has, the order is the same in all.
  auto const [from, to] = ends_of(option, text);
  for (Calendar const calendar : calendars)
    if (auto const a = period_of(from, calendar), b = period_of(to, calendar); a && b)
      return require_order(option, text, {a->first, b->last});
}

Seconds parse_duration(std::string const& option, std::string const& text) {
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view const unit(end, std::size_t(text.data() + text.size() - end));
  double const factor = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86400 : 0;
  double const seconds = value * factor;
  if (error != std::errc() || factor == 0 || !(seconds >= 1) || seconds > 1e12 || seconds != std::floor(seconds))
    throw Error(Fault::usage, "BadOption", option + " " + text + " is not a duration such as 6h, 30m or 1d");
  return Seconds(seconds);
}

}  // namespace graticule::models
