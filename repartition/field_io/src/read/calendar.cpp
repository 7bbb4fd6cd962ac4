// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/calendar.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace graticule {
namespace {

constexpr Seconds day_seconds = 86400;
constexpr int giga = 1'000'000'000;

using Months = std::array<int, 12>;
constexpr Months common_months{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
constexpr Months leap_months{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
constexpr Months even_months{30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30};

/// Which years have 366 days.
enum class Leaps : std::uint8_t { never, always, julian, gregorian, reformed };

struct Kind {
  Calendar calendar;
  std::array<std::string_view, 2> names;  ///< in files, the first one when written
  Leaps leaps;
  Months const* months;  ///< of a year that is not a leap year
  int first_year;        ///< 1 where there is no year 0
};

constexpr std::array kinds{
    Kind{Calendar::standard, {"standard", "gregorian"}, Leaps::reformed, &common_months, 1},
    Kind{Calendar::proleptic_gregorian, {"proleptic_gregorian", ""}, Leaps::gregorian, &common_months, 0},
    Kind{Calendar::julian, {"julian", ""}, Leaps::julian, &common_months, 1},
    Kind{Calendar::noleap, {"noleap", "365_day"}, Leaps::never, &common_months, 0},
    Kind{Calendar::all_leap, {"all_leap", "366_day"}, Leaps::always, &leap_months, 0},
    Kind{Calendar::day_360, {"360_day", "360"}, Leaps::never, &even_months, 0},
};

Kind const& kind_of(Calendar calendar) { return kinds[std::size_t(calendar)]; }

/// The first Gregorian day of `standard`, 1582-10-15, follows 1582-10-04.
constexpr DateTime reform{1582, 10, 15, 0};
constexpr DateTime last_julian{1582, 10, 4, 0};

bool is_before(DateTime const& a, DateTime const& b) noexcept {
  return a.year != b.year ? a.year < b.year : a.month != b.month ? a.month < b.month : a.day < b.day;
}

/// Of a date's year and month: that of the reform was Julian when it began.
bool is_leap(Leaps leaps, int year) noexcept {
  switch (leaps) {
    case Leaps::never: return false;
    case Leaps::always: return true;
    case Leaps::julian: return year % 4 == 0;
    case Leaps::gregorian: return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    case Leaps::reformed: return is_leap(year < reform.year ? Leaps::julian : Leaps::gregorian, year);
  }
  return false;
}

int days_in_month(Kind const& kind, int year, int month) noexcept {
  return (is_leap(kind.leaps, year) ? leap_months : *kind.months)[std::size_t(month - 1)];
}

Seconds floor_quotient(Seconds a, Seconds b) noexcept { return a / b - (a % b < 0 ? 1 : 0); }

/// Leap days from year 0 up to the first day of a year.
Seconds leap_days_before(Leaps leaps, int year) noexcept {
  Seconds const before = Seconds(year) - 1;
  Seconds const fourth = floor_quotient(before, 4) + 1;  // year 0 is one of them
  switch (leaps) {
    case Leaps::never: return 0;
    case Leaps::always: return year;
    case Leaps::julian: return fourth;
    case Leaps::gregorian: return fourth - floor_quotient(before, 100) + floor_quotient(before, 400);
    case Leaps::reformed: break;
  }
  return 0;
}

/// Days from 0000-01-01 by these leap years.
Seconds day_number(Kind const& kind, Leaps leaps, DateTime const& date) noexcept {
  Seconds year_days = 0;
  for (int const days : *kind.months) year_days += days;
  if (leaps == Leaps::always) --year_days;  // whose months have the leap day
  Seconds days = date.year * year_days + leap_days_before(leaps, date.year) + date.day - 1;
  auto const& months = is_leap(leaps, date.year) ? leap_months : *kind.months;
  for (int month = 1; month < date.month; ++month) days += months[std::size_t(month - 1)];
  return days;
}

/// Continuous over the reform: a Julian date is counted from the day on which it and the Gregorian calendar meet.
Seconds day_number(Kind const& kind, DateTime const& date) noexcept {
  if (kind.leaps != Leaps::reformed) return day_number(kind, kind.leaps, date);
  if (!is_before(date, reform)) return day_number(kind, Leaps::gregorian, date);
  return day_number(kind, Leaps::julian, date) - day_number(kind, Leaps::julian, last_julian) +
         day_number(kind, Leaps::gregorian, reform) - 1;
}

Seconds epoch(Kind const& kind) noexcept { return day_number(kind, DateTime{}); }

std::string format(char const* pattern, auto... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    c = std::isspace(static_cast<unsigned char>(c)) != 0 ? ' ' : char(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
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

/// Takes what comes before a mark, and the mark, from the front of `text`.
std::string_view take(std::string_view& text, std::string_view marks) {
  auto const end = text.find_first_of(marks);
  auto const part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

/// Nanoseconds of the digits after a point; nothing for parts of one.
std::optional<int> nanoseconds_of(std::string_view digits_after_point) {
  constexpr std::size_t most = 9;
  auto const rest = digits_after_point.substr(std::min(most, digits_after_point.size()));
  if (rest.find_first_not_of('0') != std::string_view::npos) return {};
  std::string text(digits_after_point.substr(0, most));
  text.resize(most, '0');
  return digits(text, most);
}

struct Clock {
  Seconds second = 0;
  int nanosecond = 0;
};

/// The time of day of `HH[:MM[:SS[.FRACTION]]]`.
std::optional<Clock> clock_of(std::string_view text) {
  std::array<int, 3> parts{};
  std::array<int, 3> const limits{23, 59, 59};
  int nanosecond = 0;
  for (std::size_t i = 0; i < 3 && (i == 0 || !text.empty()); ++i) {
    std::string_view part = take(text, ":");
    if (i == 2) {
      std::string_view fraction = part;
      part = take(fraction, ".");
      auto const after = nanoseconds_of(fraction);
      if (!after) return {};
      nanosecond = *after;
    }
    auto const value = digits(part, 2);
    if (!value || *value > limits[i]) return {};
    parts[i] = *value;
  }
  if (!text.empty()) return {};
  return Clock{parts[0] * 3600 + parts[1] * 60 + parts[2], nanosecond};
}

/// Takes a time zone from the end of a date with a time: seconds that its clocks are ahead of UTC. Nothing when what
/// looks like one is none.
std::optional<Seconds> take_zone(std::string_view& text) {
  for (std::string_view const utc : {"utc", "gmt", "z"})
    if (text.ends_with(utc)) {
      text = trimmed(text.substr(0, text.size() - utc.size()));
      return 0;
    }
  auto const clock = text.find_first_of("t ");
  // `00:00:00 0:00`, as some models end their dates.
  if (auto const last = text.rfind(' '); clock != std::string_view::npos && last > clock &&
                                         text.find_first_not_of("0:", last + 1) == std::string_view::npos) {
    text = trimmed(text.substr(0, last));
    return 0;
  }
  auto const sign = clock == std::string_view::npos ? clock : text.find_first_of("+-", clock);
  if (sign == std::string_view::npos) return 0;
  auto const zone = text.substr(sign + 1);
  auto hours = zone;
  auto minutes = std::string_view();
  if (auto const colon = zone.find(':'); colon != std::string_view::npos) {
    hours = zone.substr(0, colon);
    minutes = zone.substr(colon + 1);
  } else if (zone.size() > 2) {
    hours = zone.substr(0, zone.size() - 2);
    minutes = zone.substr(zone.size() - 2);
  }
  auto const h = digits(hours, 2);
  auto const m = minutes.empty() ? std::optional(0) : digits(minutes, 2);
  if (!h || !m || *h > 14 || *m > 59) return {};
  Seconds const ahead = *h * 3600 + *m * 60;
  bool const is_behind = text[sign] == '-';
  text = trimmed(text.substr(0, sign));
  return is_behind ? -ahead : ahead;
}

struct Unit {
  std::array<std::string_view, 6> names;
  double seconds;
  int months;
};

constexpr std::array units_of_time{
    Unit{{"nanoseconds", "nanosecond", "ns"}, 1e-9, 0},
    Unit{{"microseconds", "microsecond", "microsec", "microsecs", "us"}, 1e-6, 0},
    Unit{{"milliseconds", "millisecond", "millisec", "millisecs", "msec", "ms"}, 1e-3, 0},
    Unit{{"seconds", "second", "secs", "sec", "s"}, 1, 0},
    Unit{{"minutes", "minute", "mins", "min"}, 60, 0},
    Unit{{"hours", "hour", "hrs", "hr", "h"}, 3600, 0},
    Unit{{"days", "day", "d"}, 86400, 0},
    Unit{{"weeks", "week"}, 604800, 0},
    Unit{{"months", "month", "mons", "mon"}, 0, 1},
    Unit{{"years", "year", "yrs", "yr"}, 0, 12},
};

[[noreturn]] void refuse(std::string const& text) { throw Error(Fault::input, "BadInput", text); }

/// Where in text of lower case the date of `UNIT since DATE` follows, after the blank.
std::size_t end_of_since(std::string_view text) {
  auto const since = text.find(" since ");
  bool const has_unit = since != std::string_view::npos && !trimmed(text.substr(0, since)).empty();
  return has_unit ? since + 7 : std::string_view::npos;
}

void require_year(Seconds time, Calendar calendar, std::string const& units) {
  auto const year = date_time_of(time, calendar).year;
  auto const first = kind_of(calendar).first_year;
  if (year >= first && year <= 9999) return;
  refuse("a time in '" + units + "' lies in the year " + std::to_string(year) + ", not in " + std::to_string(first) +
         " to 9999 of the calendar " + std::string(to_string(calendar)));
}

/// The same day and time that many months after, where there is one.
Seconds months_after(TimeUnits const& from, double value, std::string const& units, Calendar calendar) {
  auto const count = value * from.months;
  if (count != std::floor(count) || std::abs(count) > 12 * 20000)
    refuse("'" + units + "' count calendar months, of which " + std::to_string(count) +
           " is no whole number within 20000 years: parts of a month have no length in the calendar " +
           std::string(to_string(calendar)) + "; write the times as days");
  auto date = date_time_of(from.reference, calendar);
  auto const month = Seconds(date.year) * 12 + date.month - 1 + Seconds(count);
  date.year = int(floor_quotient(month, 12));
  date.month = int(month - Seconds(date.year) * 12) + 1;
  if (date.year < kind_of(calendar).first_year || date.year > 9999 || !is_date(date, calendar))
    refuse("'" + units + "' count calendar months, and there is no day " + std::to_string(date.day) + " of the month " +
           std::to_string(date.year) + "-" + std::to_string(date.month) + " in the calendar " +
           std::string(to_string(calendar)) + "; write the times as days");
  return seconds_of(date, calendar) + (from.nanoseconds >= giga / 2 ? 1 : 0);
}

/// A period, and what a time lies after the last whole second.
struct Named {
  Period period;
  int nanosecond = 0;
};

std::optional<Named> named_by(std::string_view text, Calendar calendar) {
  text = trimmed(text);
  std::string_view clock = text;
  std::string_view date = take(clock, "Tt ");
  auto const year = digits(take(date, "-"), 4);
  bool const has_month = !date.empty();
  auto const month = has_month ? digits(take(date, "-"), 2) : 1;
  bool const has_day = !date.empty();
  auto const day = has_day ? digits(take(date, "-"), 2) : 1;
  if (!year || !month || !day || !date.empty()) return {};
  DateTime const first{*year, *month, *day, 0};
  if (!is_date(first, calendar)) return {};
  Seconds const begin = seconds_of(first, calendar);
  if (!trimmed(clock).empty()) {
    auto const time = has_day ? clock_of(trimmed(clock)) : std::nullopt;
    if (!time) return {};
    return Named{{begin + time->second, begin + time->second}, time->nanosecond};
  }
  DateTime last = first;
  if (!has_month) last.month = 12;
  if (!has_day) last.day = days_in_month(kind_of(calendar), last.year, last.month);
  return Named{{begin, seconds_of(last, calendar) + day_seconds - 1}};
}

}  // namespace

std::string_view to_string(Calendar calendar) noexcept { return kind_of(calendar).names.front(); }

Calendar calendar_of(std::string_view name) {
  auto const lower = lower_case(name);
  auto const plain = trimmed(lower);
  if (plain.empty()) return Calendar::standard;
  std::string known;
  for (Kind const& kind : kinds)
    for (auto const one : kind.names) {
      if (one == plain) return kind.calendar;
      if (!one.empty()) known += (known.empty() ? "" : ", ") + std::string(one);
    }
  refuse("the calendar '" + std::string(name) + "' is none of " + known);
}

bool is_date(DateTime const& date, Calendar calendar) noexcept {
  auto const& kind = kind_of(calendar);
  if (date.year < kind.first_year || date.year > 9999 || date.month < 1 || date.month > 12 || date.second < 0 ||
      date.second >= day_seconds)
    return false;
  if (date.day < 1 || date.day > days_in_month(kind, date.year, date.month)) return false;
  return kind.leaps != Leaps::reformed || !is_before(date, reform) || !is_before(last_julian, date);
}

Seconds seconds_of(DateTime const& date, Calendar calendar) {
  if (!is_date(date, calendar))
    throw Error("BadArgument", "year " + std::to_string(date.year) + ", month " + std::to_string(date.month) +
                                   ", day " + std::to_string(date.day) + ", second " + std::to_string(date.second) +
                                   " is no time of the calendar " + std::string(to_string(calendar)));
  auto const& kind = kind_of(calendar);
  return (day_number(kind, date) - epoch(kind)) * day_seconds + date.second;
}

DateTime date_time_of(Seconds time, Calendar calendar) noexcept {
  auto const& kind = kind_of(calendar);
  Seconds const day = floor_quotient(time, day_seconds);
  Seconds const number = day + epoch(kind);
  bool const is_julian = kind.leaps == Leaps::reformed && number < day_number(kind, reform);
  auto const leaps = kind.leaps != Leaps::reformed ? kind.leaps : is_julian ? Leaps::julian : Leaps::gregorian;
  auto const begin = [&](int year) {
    DateTime const first{year, 1, 1, 0};
    auto const own = day_number(kind, leaps, first);
    return is_julian
               ? own - day_number(kind, Leaps::julian, last_julian) + day_number(kind, Leaps::gregorian, reform) - 1
               : own;
  };
  // A year has 360 to 366 days; the first guess is at most a few years off in 10000.
  Seconds const mean = kind.months == &even_months ? 360 : kind.leaps == Leaps::always ? 366 : 365;
  int year = int(std::clamp<Seconds>(floor_quotient(number, mean), -1'000'000, 1'000'000));
  while (year > -1'000'000 && begin(year) > number) year -= std::max(1, int((begin(year) - number) / 366));
  while (year < 1'000'000 && begin(year + 1) <= number) ++year;
  DateTime date{year, 1, 1, time - day * day_seconds};
  Seconds rest = number - begin(year);
  auto const& months = is_leap(leaps, year) ? leap_months : *kind.months;
  while (date.month < 12 && rest >= months[std::size_t(date.month - 1)]) rest -= months[std::size_t(date.month++ - 1)];
  date.day = int(rest) + 1;
  return date;
}

std::string time_text(Seconds time, Calendar calendar) {
  auto const [year, month, day, second] = date_time_of(time, calendar);
  auto text = format("%04d-%02d-%02d %02d:%02d", year, month, day, int(second / 3600), int(second / 60 % 60));
  return second % 60 == 0 ? text : text + format(":%02d", int(second % 60));
}

std::string duration_text(Seconds duration) {
  if (duration % 3600 == 0 && (duration < 2 * day_seconds || duration % day_seconds != 0))
    return std::to_string(duration / 3600) + " h";
  if (duration % day_seconds == 0) return std::to_string(duration / day_seconds) + " d";
  return duration % 60 == 0 ? std::to_string(duration / 60) + " min" : std::to_string(duration) + " s";
}

std::optional<Period> period_of(std::string_view text, Calendar calendar) {
  auto const named = named_by(text, calendar);
  if (!named || named->nanosecond != 0) return {};
  return named->period;
}

std::optional<Period> valid_times(FileContents const& contents, std::vector<Seconds> const& times, Calendar calendar) {
  auto const named = [&](std::string_view name) {
    auto const& all = contents.attributes;
    auto const found = std::find_if(all.begin(), all.end(), [&](Attribute const& one) { return one.name == name; });
    return found == all.end() ? std::nullopt : period_of(found->text(), calendar);
  };
  auto const start = named("valid_time_start");
  auto const stop = named("valid_time_stop");
  if (!start || !stop) return {};
  Period const valid{start->first, stop->last};
  auto const num_valid = std::count_if(times.begin(), times.end(), [&](Seconds time) { return valid.contains(time); });
  if (num_valid == 0 || std::size_t(num_valid) == times.size()) return {};
  return valid;
}

bool counts_from_date(std::string_view units) { return end_of_since(lower_case(units)) != std::string_view::npos; }

TimeUnits time_units_of(std::string const& units, Calendar calendar) {
  auto const lower = lower_case(units);
  auto const begin = end_of_since(lower);
  auto const kind_text = "'" + units + "' are no units of time such as 'hours since 2000-01-01 00:00:00' (";
  if (begin == std::string::npos) refuse(kind_text + "nanoseconds to weeks, months or years since a date)");
  TimeUnits result;
  auto const name = trimmed(std::string_view(lower).substr(0, begin - 7));
  for (auto const& [names, seconds, months] : units_of_time)
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      result.seconds = seconds;
      result.months = months;
    }
  if (result.seconds == 0 && result.months == 0)
    refuse(kind_text + "nanoseconds to weeks, months or years since a date)");
  if (result.months > 0 && calendar == Calendar::day_360)
    result = {.seconds = double(30 * day_seconds * result.months)};
  auto date = trimmed(std::string_view(lower).substr(begin));
  auto const zone = take_zone(date);
  auto const found = zone ? named_by(date, calendar) : std::nullopt;
  if (!found)
    refuse(kind_text + "the date is none of the calendar " + std::string(to_string(calendar)) +
           ", or not written as YEAR-MONTH-DAY HOUR:MINUTE:SECOND, in whole nanoseconds, with a zone such as Z or "
           "+05:30)");
  result.reference = found->period.first - *zone;
  result.nanoseconds = found->nanosecond;
  return result;
}

std::vector<Seconds> times_of(std::vector<double> const& values, std::string const& units, Calendar calendar) {
  auto const from = time_units_of(units, calendar);
  std::vector<Seconds> times;
  times.reserve(values.size());
  for (double const value : values) {
    if (!std::isfinite(value)) refuse("a time is missing or not finite");
    if (from.months > 0) {
      times.push_back(months_after(from, value, units, calendar));
      continue;
    }
    double const after = value * from.seconds + double(from.nanoseconds) / giga;
    if (std::abs(after) > 1e12)
      refuse("a time of " + std::to_string(value) + " in '" + units + "' lies more than 30000 years from its date");
    // Halves are rounded upwards before the reference, too: steps of whole seconds stay as long as they are.
    times.push_back(from.reference + Seconds(std::floor(after + 0.5)));
    require_year(times.back(), calendar, units);
  }
  return times;
}

}  // namespace graticule
