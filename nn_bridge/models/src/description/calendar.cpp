// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/calendar.hpp>
#include <graticule/partition/error.hpp>

#include "time_parts.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace graticule::models {
namespace {

using std::chrono::sys_days;

constexpr Seconds day_seconds = 86400;

struct ClockDate {
  std::chrono::year_month_day date;
  Seconds second = 0;
};

ClockDate split(Seconds time) {
  Seconds const days = (time >= 0 ? time : time - day_seconds + 1) / day_seconds;
  return {sys_days(std::chrono::days(days)), time - days * day_seconds};
}

Seconds join(std::chrono::year_month_day const& date, Seconds second) {
  return Seconds(sys_days(date).time_since_epoch().count()) * day_seconds + second;
}

std::string format(char const* pattern, auto... values) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

/// A whole number that fills all of `text`, of at most `most` digits.
std::optional<int> digits(std::string_view text, std::size_t most) {
  int value = 0;
  if (text.empty() || text.size() > most || std::isdigit(static_cast<unsigned char>(text.front())) == 0) return {};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Takes what comes before `mark`, and the mark, from the front of `text`.
std::string_view take(std::string_view& text, std::string_view marks) {
  auto const end = text.find_first_of(marks);
  auto const part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

struct Parsed {
  Seconds first = 0;
  Seconds last = 0;
};

/// Seconds of `HH[:MM[:SS[.0]]]`.
std::optional<Seconds> parse_clock(std::string_view text) {
  std::array<int, 3> parts{};
  std::array<int, 3> const limits{23, 59, 59};
  for (std::size_t i = 0; i < 3 && (i == 0 || !text.empty()); ++i) {
    std::string_view part = take(text, ":");
    if (i == 2) {
      std::string_view fraction = part;
      part = take(fraction, ".");
      if (fraction.find_first_not_of('0') != std::string_view::npos) return {};
    }
    auto const value = digits(part, 2);
    if (!value || *value > limits[i]) return {};
    parts[i] = *value;
  }
  if (!text.empty()) return {};
  return parts[0] * 3600 + parts[1] * 60 + parts[2];
}

/// The first and last second of a year, month, day or time.
std::optional<Parsed> parse_moment(std::string_view text) {
  using namespace std::chrono;
  text = trimmed(text);
  std::string_view clock = text;
  std::string_view date = take(clock, "T ");
  auto const y = digits(take(date, "-"), 4);
  if (!y) return {};
  bool const has_month = !date.empty();
  auto const m = has_month ? digits(take(date, "-"), 2) : 1;
  bool const has_day = !date.empty();
  auto const d = has_day ? digits(take(date, "-"), 2) : 1;
  if (!m || !d || !date.empty()) return {};
  year_month_day const first{year(*y), month(unsigned(*m)), day(unsigned(*d))};
  if (!first.ok()) return {};
  if (!trimmed(clock).empty()) {
    auto const second = has_day ? parse_clock(trimmed(clock)) : std::nullopt;
    if (!second) return {};
    return Parsed{join(first, *second), join(first, *second)};
  }
  Seconds const begin = join(first, 0);
  if (has_day) return Parsed{begin, begin + day_seconds - 1};
  if (has_month)
    return Parsed{begin,
                  join(year_month_day(sys_days(year_month_day_last(first.year(), month_day_last(first.month())))),
                       day_seconds - 1)};
  return Parsed{begin, join(year_month_day(first.year(), December, day(31)), day_seconds - 1)};
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

double unit_seconds(std::string const& unit) {
  for (char const* name : {"seconds", "second", "secs", "sec", "s"})
    if (unit == name) return 1;
  for (char const* name : {"minutes", "minute", "mins", "min"})
    if (unit == name) return 60;
  for (char const* name : {"hours", "hour", "hrs", "hr", "h"})
    if (unit == name) return 3600;
  for (char const* name : {"days", "day", "d"})
    if (unit == name) return 86400;
  return 0;
}

[[noreturn]] void refuse_time(std::string const& text) { throw Error(Fault::input, "BadInput", text); }

/// The date that a file's times are counted from, without its time zone, which must be UTC.
std::optional<Seconds> reference(std::string_view text) {
  text = trimmed(text);
  for (std::string_view zone : {"UTC", "Z", "+00:00", "+0:00", "+00"})
    if (text.ends_with(zone)) {
      text.remove_suffix(zone.size());
      break;
    }
  auto const parsed = parse_moment(text);
  if (!parsed) return {};
  return parsed->first;
}

}  // namespace

std::vector<Seconds> times_of(std::vector<double> const& values, std::string const& units,
                              std::string const& calendar) {
  bool const is_standard = calendar.empty() || calendar == "standard" || calendar == "gregorian";
  if (!is_standard && calendar != "proleptic_gregorian")
    refuse_time("times of the calendar '" + calendar + "' are not supported; standard and proleptic_gregorian are");
  auto const since = lower_case(units).find(" since ");
  double const factor =
      since == std::string::npos ? 0 : unit_seconds(lower_case(trimmed(std::string_view(units).substr(0, since))));
  auto const begin = factor > 0 ? reference(std::string_view(units).substr(since + 7)) : std::nullopt;
  if (!begin)
    refuse_time("'" + units +
                "' are no units of time such as 'hours since 2000-01-01 00:00:00' (seconds, minutes, "
                "hours or days; UTC)");
  Seconds const reform = join({std::chrono::year(1582), std::chrono::October, std::chrono::day(15)}, 0);
  if (is_standard && *begin < reform)
    refuse_time("'" + units +
                "' counts from before 1582-10-15, where the standard calendar is Julian; rewrite the time "
                "axis with a later date (cdo setreftime)");
  std::vector<Seconds> times;
  for (double const value : values) {
    if (!std::isfinite(value)) refuse_time("a time is missing or not finite");
    times.push_back(*begin + Seconds(std::llround(value * factor)));
    if (is_standard && times.back() < reform)
      refuse_time("a time lies before 1582-10-15, where the standard calendar is Julian");
  }
  return times;
}

std::string time_text(Seconds time) {
  auto const [date, second] = split(time);
  auto text = format("%04d-%02u-%02u %02d:%02d", int(date.year()), unsigned(date.month()), unsigned(date.day()),
                     int(second / 3600), int(second / 60 % 60));
  return second % 60 == 0 ? text : text + format(":%02d", int(second % 60));
}

std::string compact(Seconds time) {
  auto const [date, second] = split(time);
  auto text =
      format("%04d-%02u-%02uT%02d", int(date.year()), unsigned(date.month()), unsigned(date.day()), int(second / 3600));
  if (second % 3600 != 0) text += format("%02d", int(second / 60 % 60));
  return second % 60 == 0 ? text : text + format("%02d", int(second % 60));
}

std::string duration_text(Seconds duration) {
  if (duration % 3600 == 0 && (duration < 2 * day_seconds || duration % day_seconds != 0))
    return std::to_string(duration / 3600) + " h";
  if (duration % day_seconds == 0) return std::to_string(duration / day_seconds) + " d";
  return duration % 60 == 0 ? std::to_string(duration / 60) + " min" : std::to_string(duration) + " s";
}

Seconds second_of_day(Seconds time) { return split(time).second; }

double part_of_year(Seconds time) {
  auto const year = split(time).date.year();
  Seconds const begin = join({year, std::chrono::January, std::chrono::day(1)}, 0);
  Seconds const end = join({year + std::chrono::years(1), std::chrono::January, std::chrono::day(1)}, 0);
  return double(time - begin) / double(end - begin);
}

Period parse_date(std::string const& option, std::string const& text) {
  auto const parsed = parse_moment(text);
  bool const has_year = text.find_first_not_of("0123456789") >= 4;
  if (!parsed || !has_year)
    throw Error(Fault::usage, "BadOption",
                option + ": '" + text + "' is no date such as 2006, 2006-01, 2006-01-03 or 2006-01-03T06:00");
  return {parsed->first, parsed->last};
}

Period parse_period(std::string const& option, std::string const& text) {
  auto const dots = text.find("..");
  if (dots == std::string::npos)
    throw Error(Fault::usage, "BadOption",
                option + ": '" + text + "' is no period A..B such as 2006-01-01..2006-01-05");
  Period const period{parse_date(option, text.substr(0, dots)).first, parse_date(option, text.substr(dots + 2)).last};
  if (period.last < period.first)
    throw Error(Fault::usage, "BadOption", option + " " + text + " ends before it begins");
  return period;
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
