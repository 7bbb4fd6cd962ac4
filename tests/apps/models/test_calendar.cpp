// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/calendar.hpp>
#include <graticule/models/detail/time_options.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace graticule::models {
namespace {

using test::ErrorWith;
using test::rule_of;
using test::thrown_by;

/// By the calendar's name.
std::vector<Seconds> times_of(std::vector<double> const& values, std::string const& units, char const* calendar) {
  return graticule::times_of(values, units, calendar_of(calendar));
}

// Numbers of seconds are those of Python's datetime.

TEST(Calendar, reads_times_of_files) {
  EXPECT_EQ(times_of({0}, "seconds since 1970-01-01", ""), std::vector<Seconds>{0});
  EXPECT_EQ(times_of({6, 30}, "hours since 2006-01-01", "proleptic_gregorian"),
            (std::vector<Seconds>{1136095200, 1136181600}));
  EXPECT_EQ(times_of({1.5}, "days since 2000-02-28 12:00:00.0 UTC", "standard"), std::vector<Seconds>{951868800});
  EXPECT_TRUE(times_of({}, "days since 2000-01-01", "").empty());
}

TEST(Calendar, has_a_leap_day_in_2000_but_not_in_1900_and_2100) {
  EXPECT_EQ(times_of({1, 2}, "days since 2000-02-28", "gregorian"), (std::vector<Seconds>{951782400, 951868800}));
  EXPECT_EQ(times_of({1}, "days since 1900-02-28", "gregorian"), std::vector<Seconds>{-2203891200});
  EXPECT_EQ(times_of({1}, "days since 2100-02-28", "gregorian"), std::vector<Seconds>{4107542400});
  EXPECT_EQ(times_of({59.5}, "days since 2004-01-01", "gregorian"), std::vector<Seconds>{1078056000});
  EXPECT_EQ(time_text(951782400), "2000-02-29 00:00");
  EXPECT_EQ(time_text(951868800), "2000-03-01 00:00");
  EXPECT_EQ(time_text(-2203891201), "1900-02-28 23:59:59");
  EXPECT_EQ(time_text(-2203891200), "1900-03-01 00:00");
  EXPECT_EQ(parse_date("--start", "2000-02-29").first, 951782400);
  for (char const* const missing : {"1900-02-29", "2100-02-29", "2001-02-29", "2000-02-30"})
    EXPECT_EQ(rule_of([&] { static_cast<void>(parse_date("--start", missing)); }), "BadOption") << missing;
}

TEST(Calendar, goes_back_beyond_its_reform_where_it_is_proleptic) {
  EXPECT_EQ(times_of({0}, "days since 1582-10-15", "standard"), std::vector<Seconds>{-12219292800});
  EXPECT_EQ(times_of({-1}, "days since 1582-10-15", "proleptic_gregorian"), std::vector<Seconds>{-12219379200});
  EXPECT_EQ(times_of({0}, "days since 0001-01-01", "proleptic_gregorian"), std::vector<Seconds>{-62135596800});
  EXPECT_EQ(time_text(-62135596800, Calendar::proleptic_gregorian), "0001-01-01 00:00");
  EXPECT_EQ(time_text(-62135596800), "0001-01-03 00:00");  // Julian
  for (char const* const calendar : {"", "standard", "gregorian"})
    EXPECT_EQ(time_text(times_of({0, -1}, "days since 1582-10-15", calendar).back()), "1582-10-04 00:00") << calendar;
}

TEST(Calendar, rounds_to_whole_seconds) {
  EXPECT_EQ(times_of({0.25, 0.75, 59.6}, "seconds since 1970-01-01", ""), (std::vector<Seconds>{0, 1, 60}));
  EXPECT_EQ(times_of({1.0 / 3}, "hours since 1970-01-01", ""), std::vector<Seconds>{1200});
  EXPECT_EQ(times_of({0.0001}, "days since 1970-01-01", ""), std::vector<Seconds>{9});  // 8.64 s
}

TEST(Calendar, reads_units_and_zones_as_files_write_them) {
  for (char const* const units :
       {"Minutes since 1970-01-01", "MINUTES Since 1970-01-01 00:00:00", "minutes since 1970-01-01",
        "minute since 1970-01-01 00:00", "mins since 1970-1-1 0:0:0", "min since 1970-01-01T00:00:00Z",
        "minutes since 1970-01-01 00:00:00 UTC", "minutes since 1970-01-01 00:00:00.000 +00:00",
        "minutes  since  1970-01-01"})
    EXPECT_EQ(times_of({2}, units, ""), std::vector<Seconds>{120}) << units;
  EXPECT_EQ(times_of({2}, "d since 1970-01-02 06:30", ""), std::vector<Seconds>{3 * 86400 + 23400});
  for (char const* const wrong : {"hours", "hours since", "hours since yesterday", "hours since 2000-13-01",
                                  "hours since 2000-01-01 00:00 +99:00", "hours since 2000-01-01 25:00", ""})
    EXPECT_EQ(rule_of([&] { static_cast<void>(times_of({0}, wrong, "")); }),
              (ErrorWith{"BadInput", "are no units of time"}))
        << wrong;
}

TEST(Calendar, refuses_unknown_calendars_and_missing_times_as_input) {
  auto const thrown = thrown_by([&] { static_cast<void>(times_of({0}, "days since 2000-01-01", "none")); });
  EXPECT_EQ(thrown.rule, "BadInput");
  EXPECT_EQ(thrown.fault, Fault::input);
  EXPECT_NE(thrown.text.find("calendar 'none'"), std::string::npos) << thrown.text;
  for (double const missing : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(rule_of([&] {
                static_cast<void>(times_of({0, missing}, "days since 2000-01-01", ""));
              }),
              (ErrorWith{"BadInput", "missing"}));
}

TEST(Calendar, writes_times_for_readers_and_for_names_of_files) {
  EXPECT_EQ(time_text(0), "1970-01-01 00:00");
  EXPECT_EQ(time_text(-1), "1969-12-31 23:59:59");
  EXPECT_EQ(compact(1136095200), "2006-01-01T06");
  EXPECT_EQ(compact(1136095200 + 1800), "2006-01-01T0630");
  EXPECT_EQ(compact(1136095230), "2006-01-01T060030");
  EXPECT_EQ(compact(-1), "1969-12-31T235959");
}

TEST(Calendar, writes_durations_in_the_largest_unit_that_fits) {
  EXPECT_EQ(duration_text(6 * 3600), "6 h");
  EXPECT_EQ(duration_text(36 * 3600), "36 h");
  EXPECT_EQ(duration_text(48 * 3600), "2 d");
  EXPECT_EQ(duration_text(1800), "30 min");
  EXPECT_EQ(duration_text(90), "90 s");
}

TEST(Calendar, reads_dates_of_the_command_line) {
  auto const day = parse_date("--start", "2000-02-29");
  EXPECT_EQ(day.last - day.first, 86399);
  EXPECT_EQ(time_text(parse_date("--start", "2000-02").last), "2000-02-29 23:59:59");
  EXPECT_EQ(time_text(parse_date("--start", "2001").last), "2001-12-31 23:59:59");
  EXPECT_EQ(parse_date("--start", "2006"), (Period{1136073600, 1167609599}));
  EXPECT_EQ(parse_date("--start", "2006-01-01T06"), parse_date("--start", "2006-01-01 06:00:00"));
  EXPECT_EQ(parse_date("--start", "2006-01-01T06:30"), (Period{1136097000, 1136097000}));
  for (char const* wrong : {"2006-13-01", "2006-02-30", "06-01", "2006-01-01T25", "2006-01-01T06:60", "2006-01-01T24",
                            "2006-00-01", "2006-01-00", "tomorrow", "", "2006-01T06"}) {
    auto const thrown = thrown_by([&] { static_cast<void>(parse_date("--start", wrong)); });
    EXPECT_EQ(thrown.rule, "BadOption") << wrong;
    EXPECT_EQ(thrown.fault, Fault::usage) << wrong;
    EXPECT_TRUE(thrown.text.starts_with("--start")) << thrown.text;
  }
}

TEST(Calendar, reads_periods_with_both_ends) {
  auto const first = parse_date("", "2000-02-29").first;
  auto const period = parse_period("--train-dates", "2006-01-01..2006-01-02");
  EXPECT_EQ(period, (Period{first + 184291200, first + 184291200 + 2 * 86400 - 1}));
  EXPECT_TRUE(period.contains(period.first));
  EXPECT_TRUE(period.contains(period.last));
  EXPECT_FALSE(period.contains(period.first - 1));
  EXPECT_FALSE(period.contains(period.last + 1));
  EXPECT_EQ(parse_period("", "2006-01-01T06..2006-01-01T06"), (Period{1136095200, 1136095200}));
  EXPECT_EQ(rule_of([] { static_cast<void>(parse_period("--train-dates", "2007..2006")); }),
            (ErrorWith{"BadOption", "ends before it begins"}));
  EXPECT_EQ(rule_of([] { static_cast<void>(parse_period("--train-dates", "2006")); }),
            (ErrorWith{"BadOption", "is no period A..B"}));
  EXPECT_EQ(rule_of([] { static_cast<void>(parse_period("--train-dates", "2006..")); }), "BadOption");
}

TEST(Calendar, reads_durations_of_whole_seconds) {
  EXPECT_EQ(parse_duration("--lead", "90s"), 90);
  EXPECT_EQ(parse_duration("--lead", "30m"), 1800);
  EXPECT_EQ(parse_duration("--lead", "6h"), 21600);
  EXPECT_EQ(parse_duration("--lead", "1.5h"), 5400);
  EXPECT_EQ(parse_duration("--lead", "1d"), 86400);
  for (char const* const wrong : {"6 parsecs", "6", "h", "", "0s", "-6h", "0.5s", "6 h", "6hours", "1e13s", "nanh"})
    EXPECT_EQ(rule_of([&] { static_cast<void>(parse_duration("--lead", wrong)); }),
              (ErrorWith{"BadOption", "is not a duration"}))
        << wrong;
}

TEST(Calendar, dates_of_options_are_those_of_the_calendar) {
  EXPECT_EQ(time_text(parse_date("--start", "2001-02", Calendar::day_360).last, Calendar::day_360),
            "2001-02-30 23:59:59");
  EXPECT_EQ(time_text(parse_date("--start", "2000-02", Calendar::noleap).last, Calendar::noleap),
            "2000-02-28 23:59:59");
  EXPECT_EQ(compact(parse_date("--start", "2001-02-29T06", Calendar::all_leap).first, Calendar::all_leap),
            "2001-02-29T06");
  EXPECT_EQ(rule_of([] { static_cast<void>(parse_date("--start", "2000-02-29", Calendar::noleap)); }),
            (ErrorWith{"BadOption", "'2000-02-29' is no date of the calendar noleap"}));
  EXPECT_EQ(rule_of([] { static_cast<void>(parse_period("--train-dates", "2000..2000-01-31", Calendar::day_360)); }),
            (ErrorWith{"BadOption", "'2000-01-31' is no date of the calendar 360_day"}));
  require_period("--train-dates", "2001-02-30..2001-12-31");
  EXPECT_EQ(rule_of([] { require_period("--train-dates", "2001-02-31..2001-12-31"); }),
            (ErrorWith{"BadOption", "'2001-02-31' is no date"}));
  EXPECT_EQ(rule_of([] { require_period("--train-dates", "2001-02-30..2001-02-28"); }),
            (ErrorWith{"BadOption", "ends before it begins"}));
}

}  // namespace
}  // namespace graticule::models
