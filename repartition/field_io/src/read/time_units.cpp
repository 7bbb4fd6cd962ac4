// SPDX-License-Identifier: BSD-3-Clause
#include "time_units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

namespace graticule::detail {

namespace {

std::string in_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

struct Date {
  int year = 0;
  int month = 1;
  int day = 1;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

/// `YEAR-MONTH-DAY[ HOUR[:MINUTE[:SECOND[.0]]]]` in UTC.
std::optional<Date> date_of(std::string text) {
  for (std::string_view const zone : {"utc", "z", "+00:00", "+0:00", "+00"})
    if (text.ends_with(zone)) {
      text.resize(text.size() - zone.size());
      break;
    }
  std::replace(text.begin(), text.end(), 't', ' ');
  if (auto const point = text.find('.');
      point != std::string::npos && text.find_first_not_of("0 ", point + 1) == std::string::npos)
    text.resize(point);
  while (text.ends_with(' ')) text.pop_back();
  Date date;
  auto& [year, month, day, hour, minute, second] = date;
  int used = 0;
  auto const fills = [&] { return used > 0 && std::size_t(used) == text.size(); };
  std::sscanf(text.c_str(), "%d-%d-%d%n", &year, &month, &day, &used);
  if (!fills()) std::sscanf(text.c_str(), "%d-%d-%d %d%n", &year, &month, &day, &hour, &used);
  if (!fills()) std::sscanf(text.c_str(), "%d-%d-%d %d:%d%n", &year, &month, &day, &hour, &minute, &used);
  if (!fills()) std::sscanf(text.c_str(), "%d-%d-%d %d:%d:%d%n", &year, &month, &day, &hour, &minute, &second, &used);
  bool const is_time = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second < 60;
  if (!fills() || !is_time || year < 0 || year > 9999 || month < 1 || month > 12 || day < 1) return {};
  return date;
}

constexpr std::array month_days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

std::optional<std::int64_t> days_of(Date const& date, std::string const& calendar) {
  if (calendar == "360_day") {
    if (date.day > 30) return {};
    return (date.year * 12 + date.month - 1) * 30 + date.day - 1;
  }
  if (calendar == "noleap") {
    if (date.day > month_days[std::size_t(date.month - 1)]) return {};
    std::int64_t days = std::int64_t(date.year) * 365 + date.day - 1;
    for (int month = 1; month < date.month; ++month) days += month_days[std::size_t(month - 1)];
    return days;
  }
  if (calendar != "standard" && calendar != "proleptic_gregorian") return {};
  using namespace std::chrono;
  year_month_day const day{year(date.year), month(unsigned(date.month)), std::chrono::day(unsigned(date.day))};
  constexpr sys_days reform{year_month_day{year(1582), October, std::chrono::day(15)}};
  if (!day.ok() || (calendar == "standard" && sys_days(day) < reform)) return {};
  return sys_days(day).time_since_epoch().count();
}

}  // namespace

std::string plain_calendar(std::string calendar) {
  calendar = in_lower_case(std::move(calendar));
  if (calendar.empty() || calendar == "gregorian") return "standard";
  return calendar == "365_day" ? "noleap" : calendar;
}

std::optional<TimeUnits> time_units(std::string units, std::string const& calendar) {
  units = in_lower_case(std::move(units));
  auto const since = units.find(" since ");
  auto const first = units.find_first_not_of(' ');
  if (since == std::string::npos || first >= since) return {};
  auto const begin = units.find_first_not_of(' ', since + 7);
  if (begin == std::string::npos) return {};
  auto const unit = units.substr(first, units.find(' ', first) - first);
  using Names = std::array<std::string_view, 5>;
  TimeUnits result;
  for (auto const& [names, seconds] :
       {std::pair(Names{"seconds", "second", "secs", "sec", "s"}, 1),
        std::pair(Names{"minutes", "minute", "mins", "min"}, 60),
        std::pair(Names{"hours", "hour", "hrs", "hr", "h"}, 3600), std::pair(Names{"days", "day", "d"}, 86400)})
    if (std::find(names.begin(), names.end(), unit) != names.end()) result.seconds = seconds;
  auto const date = date_of(units.substr(begin));
  if (result.seconds == 0 || !date) return {};
  auto const days = days_of(*date, plain_calendar(calendar));
  if (!days) return {};
  result.reference = *days * 86400 + date->hour * 3600 + date->minute * 60 + date->second;
  return result;
}

}  // namespace graticule::detail
