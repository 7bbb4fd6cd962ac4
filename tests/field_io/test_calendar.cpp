// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/calendar.hpp>
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/partition/error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <string>

namespace graticule {
namespace {

constexpr Calendar all_calendars[] = {Calendar::standard, Calendar::proleptic_gregorian,
                                      Calendar::julian,   Calendar::noleap,
                                      Calendar::all_leap, Calendar::day_360};

/// Text of the error of a rule; empty without an error.
std::string text_of(std::function<void()> const& action) {
  try {
    action();
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadInput");
    EXPECT_EQ(int(error.fault()), int(Fault::input));
    return error.text();
  }
  return {};
}

std::string refusal(double value, std::string const& units, Calendar calendar) {
  return text_of([&] { static_cast<void>(times_of({value}, units, calendar)); });
}

DateTime date_of(double value, std::string const& units, Calendar calendar) {
  return date_time_of(times_of({value}, units, calendar).front(), calendar);
}

TEST(Calendar, names_are_those_of_the_conventions) {
  struct Case {
    char const* name;
    Calendar calendar;
  };
  for (auto const& [name, calendar] :
       {Case{"", Calendar::standard}, Case{"standard", Calendar::standard}, Case{"Gregorian", Calendar::standard},
        Case{"proleptic_gregorian", Calendar::proleptic_gregorian}, Case{"JULIAN", Calendar::julian},
        Case{"noleap", Calendar::noleap}, Case{"NoLeap", Calendar::noleap}, Case{"365_day", Calendar::noleap},
        Case{"all_leap", Calendar::all_leap}, Case{"366_day", Calendar::all_leap}, Case{" 360_day", Calendar::day_360},
        Case{"360", Calendar::day_360}})
    EXPECT_EQ(calendar_of(name), calendar) << name;
  for (Calendar const calendar : all_calendars) EXPECT_EQ(calendar_of(to_string(calendar)), calendar);
  EXPECT_EQ(text_of([] { static_cast<void>(calendar_of("none")); }),
            "the calendar 'none' is none of standard, gregorian, proleptic_gregorian, julian, noleap, 365_day, "
            "all_leap, 366_day, 360_day, 360");
}

TEST(Calendar, dates_and_seconds_are_inverses) {
  for (Calendar const calendar : all_calendars) {
    // Days that follow one another, over years 0 and 1, the reform, and a turn of the century.
    for (auto const& [from, to] : {std::pair{0, 9}, std::pair{1580, 1585}, std::pair{1898, 1905}, std::pair{1999, 2005},
                                   std::pair{9995, 9999}}) {
      bool has_begun = false;
      Seconds expected = 0;
      for (int year = from; year <= to; ++year)
        for (int month = 1; month <= 12; ++month)
          for (int day = 1; day <= 31; ++day) {
            DateTime const date{year, month, day, 4711};
            if (!is_date(date, calendar)) continue;
            auto const time = seconds_of(date, calendar);
            if (has_begun) {
              ASSERT_EQ(time, expected) << year << "-" << month << "-" << day;
            }
            ASSERT_EQ(date_time_of(time, calendar), date) << year << "-" << month << "-" << day;
            has_begun = true;
            expected = time + 86400;
          }
      EXPECT_TRUE(has_begun);
    }
    EXPECT_EQ(seconds_of({1970, 1, 1, 0}, calendar), 0);
  }
}

TEST(Calendar, each_has_the_days_that_it_has) {
  struct Case {
    DateTime date;
    std::array<bool, 6> exists;  ///< in the order of `all_calendars`
  };
  for (auto const& [date, exists] : {Case{{2001, 2, 28, 0}, {true, true, true, true, true, true}},
                                     Case{{2001, 2, 29, 0}, {false, false, false, false, true, true}},
                                     Case{{2000, 2, 29, 0}, {true, true, true, false, true, true}},
                                     Case{{1900, 2, 29, 0}, {false, false, true, false, true, true}},
                                     Case{{1500, 2, 29, 0}, {true, false, true, false, true, true}},
                                     Case{{2000, 2, 30, 0}, {false, false, false, false, false, true}},
                                     Case{{2000, 1, 31, 0}, {true, true, true, true, true, false}},
                                     Case{{1582, 10, 10, 0}, {false, true, true, true, true, true}},
                                     Case{{0, 1, 1, 0}, {false, true, false, true, true, true}},
                                     Case{{10000, 1, 1, 0}, {false, false, false, false, false, false}},
                                     Case{{2000, 13, 1, 0}, {false, false, false, false, false, false}},
                                     Case{{2000, 1, 1, 86400}, {false, false, false, false, false, false}}})
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(is_date(date, all_calendars[i]), exists[i])
          << date.year << "-" << date.month << "-" << date.day << " " << to_string(all_calendars[i]);
  EXPECT_THROW(static_cast<void>(seconds_of({2001, 2, 29, 0}, Calendar::noleap)), Error);
}

/// Computed with cftime 1.6.
TEST(Calendar, times_are_those_of_cftime) {
  struct Case {
    double value;
    char const* units;
    Calendar calendar;
    DateTime date;
  };
  for (auto const& [value, units, calendar, date] :
       {Case{60, "days since 2000-01-01", Calendar::standard, {2000, 3, 1, 0}},
        Case{60, "days since 2000-01-01", Calendar::noleap, {2000, 3, 2, 0}},
        Case{60, "days since 2001-01-01", Calendar::all_leap, {2001, 3, 1, 0}},
        Case{60, "days since 2000-01-01", Calendar::day_360, {2000, 3, 1, 0}},
        Case{60, "days since 1900-01-01", Calendar::julian, {1900, 3, 1, 0}},
        Case{54750.5, "days since 1850-01-01", Calendar::noleap, {2000, 1, 1, 43200}},
        Case{54785.5, "days since 1850-01-01", Calendar::proleptic_gregorian, {1999, 12, 31, 43200}},
        Case{54015, "days since 1850-01-01", Calendar::day_360, {2000, 1, 16, 0}},
        Case{17575632, "hours since 1-1-1 00:00:0.0", Calendar::standard, {2006, 1, 6, 0}},
        Case{17575584, "hours since 0001-01-01", Calendar::proleptic_gregorian, {2006, 1, 6, 0}},
        Case{577736, "days since 1-1-1", Calendar::standard, {1582, 10, 4, 0}},
        Case{577737, "days since 1-1-1", Calendar::standard, {1582, 10, 15, 0}},
        Case{-1, "days since 1582-10-15", Calendar::standard, {1582, 10, 4, 0}},
        Case{1.5, "Days Since 2000-02-28T12:00:00Z", Calendar::standard, {2000, 3, 1, 0}},
        Case{3, "hour  since  2000-01-01 00:00 +05:30", Calendar::standard, {1999, 12, 31, 77400}},
        Case{3, "hours since 2000-01-01 00:00:00 -6:00", Calendar::noleap, {2000, 1, 1, 32400}},
        Case{3, "hours since 2000-01-01 00:00:00 -0600", Calendar::noleap, {2000, 1, 1, 32400}},
        Case{3, "hours since 2000-01-01 12:00:00 0:00", Calendar::noleap, {2000, 1, 1, 54000}},
        Case{3, "hours since 2000-01-01T12:00:00 00:00", Calendar::julian, {2000, 1, 1, 54000}},
        Case{3, "hours since 2000-01-01  00:00", Calendar::standard, {2000, 1, 1, 10800}},
        Case{1e9, "milliseconds since 1970-01-01", Calendar::standard, {1970, 1, 12, 49600}},
        Case{946684800e9, "nanoseconds since 1970-01-01", Calendar::proleptic_gregorian, {2000, 1, 1, 0}},
        Case{1, "days since 2000-01-01T00:00:00.000000000", Calendar::noleap, {2000, 1, 2, 0}},
        Case{6, "hours since 2000-01-01T00:00:00.000000000000+00:00", Calendar::standard, {2000, 1, 1, 21600}},
        Case{500, "milliseconds since 2000-01-01 00:00:00.500000", Calendar::standard, {2000, 1, 1, 1}},
        Case{-250, "milliseconds since 2000-01-01 00:00:00.25Z", Calendar::julian, {2000, 1, 1, 0}},
        Case{999999999, "nanoseconds since 1970-01-01T00:00:00.000000001", Calendar::standard, {1970, 1, 1, 1}},
        Case{2, "weeks since 2000-01-01", Calendar::day_360, {2000, 1, 15, 0}},
        Case{2.5, "months since 2000-01-01", Calendar::day_360, {2000, 3, 16, 0}}})
    EXPECT_EQ(date_of(value, units, calendar), date) << value << " " << units << " " << to_string(calendar);
}

/// Of a reference between two seconds, all times lie between two: steps keep their lengths on both sides of it.
TEST(Calendar, halves_of_a_second_are_rounded_upwards) {
  auto const begin = seconds_of({2000, 1, 1, 0}, Calendar::standard);
  auto const times = times_of({-2, -1, 0, 1}, "hours since 2000-01-01 00:00:00.5", Calendar::standard);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(times[std::size_t(i)] - begin, (i - 2) * 3600 + 1) << i;
  EXPECT_EQ(date_of(1, "months since 2000-01-01 00:00:00.5", Calendar::noleap), (DateTime{2000, 2, 1, 1}));
  EXPECT_EQ(date_of(1, "months since 2000-01-01 00:00:00.4", Calendar::noleap), (DateTime{2000, 2, 1, 0}));
}

TEST(Calendar, months_and_years_are_those_of_the_calendar) {
  for (Calendar const calendar :
       {Calendar::standard, Calendar::proleptic_gregorian, Calendar::julian, Calendar::noleap, Calendar::all_leap}) {
    EXPECT_EQ(date_of(0, "months since 1979-01-01", calendar), (DateTime{1979, 1, 1, 0}));
    EXPECT_EQ(date_of(14, "Months since 1979-01-16 12:00", calendar), (DateTime{1980, 3, 16, 43200}));
    EXPECT_EQ(date_of(-1, "month since 1979-01-01", calendar), (DateTime{1978, 12, 1, 0}));
    EXPECT_EQ(date_of(21, "years since 1979-02-01", calendar), (DateTime{2000, 2, 1, 0}));
    EXPECT_NE(refusal(0.5, "months since 1979-01-01", calendar).find("write the times as days"), std::string::npos);
    EXPECT_NE(refusal(3, "months since 1979-01-31", calendar).find("no day 31 of the month 1979-4"), std::string::npos);
  }
}

/// The axis of ARCO-ERA5 is longer than its data.
TEST(Calendar, valid_times_are_those_of_the_attributes) {
  FileContents contents;
  std::vector<Seconds> times;
  for (int year = 2000; year < 2010; ++year) times.push_back(seconds_of({year, 6, 1, 0}, Calendar::noleap));
  auto const found = [&](char const* start, char const* stop) {
    contents.attributes = {Attribute::of_text("valid_time_start", start), Attribute::of_text("valid_time_stop", stop)};
    return valid_times(contents, times, Calendar::noleap);
  };

  EXPECT_EQ(valid_times(contents, times, Calendar::noleap), std::nullopt);
  EXPECT_EQ(found("2002-01-01", "2006-12-31"), (Period{seconds_of({2002, 1, 1, 0}, Calendar::noleap),
                                                       seconds_of({2006, 12, 31, 86399}, Calendar::noleap)}));
  EXPECT_EQ(found("2002-01-01T06", "2006-12-31T18")->last, seconds_of({2006, 12, 31, 64800}, Calendar::noleap));
  EXPECT_EQ(found("1940-01-01", "2024-12-31"), std::nullopt);  // all of the times: a part was copied
  EXPECT_EQ(found("1940-01-01", "1950-12-31"), std::nullopt);
  EXPECT_EQ(found("2002-01-01", "unknown"), std::nullopt);
}

TEST(Calendar, what_is_no_time_is_refused_by_name) {
  for (char const* wrong :
       {"hours", "since 2000-01-01", "fortnights since 2000-01-01", "day as %Y%m%d.%f", "hours since yesterday",
        "hours since 2000-13-01", "hours since 2000-01-01 25:00", "hours since 2000-01-01 00:00:00.0000000005",
        "hours since 2000-01-01 00:00:00.5x", "hours since 2000-01-01 00:00.5", "hours since 2000-01-01 00:00 +99:00",
        "hours since 2000-01-01 00:00 X", "hours since 2000-01-01 12:00 1:00", "hours since ",
        "hours since -100-01-01"})
    EXPECT_NE(refusal(0, wrong, Calendar::standard).find(wrong), std::string::npos) << wrong;
  EXPECT_NE(refusal(0, "days since 2001-02-29", Calendar::noleap).find("noleap"), std::string::npos);
  EXPECT_NE(refusal(0, "days since 2001-01-31", Calendar::day_360).find("360_day"), std::string::npos);
  EXPECT_NE(refusal(0, "days since 0000-01-01", Calendar::standard).find("standard"), std::string::npos);
  EXPECT_NE(refusal(-400, "days since 0001-01-01", Calendar::noleap).find("year -1"), std::string::npos);
  EXPECT_NE(refusal(1e30, "days since 2000-01-01", Calendar::standard).find("30000 years"), std::string::npos);
  EXPECT_EQ(refusal(std::numeric_limits<double>::quiet_NaN(), "days since 2000-01-01", Calendar::standard),
            "a time is missing or not finite");
  EXPECT_TRUE(counts_from_date("Hours Since 2000-01-01"));
  EXPECT_FALSE(counts_from_date("hours"));
  EXPECT_FALSE(counts_from_date("since 2000-01-01"));
}

TEST(Units, spellings_of_one_unit_are_the_same) {
  for (auto const& [a, b] :
       {std::pair{"m s-1", "m/s"}, std::pair{"m s**-1", "m.s-1"}, std::pair{"m s^-1", "m*s-1"},
        std::pair{"K", "Kelvin"}, std::pair{"kg m-2 s-1", "kg/m2/s"}, std::pair{"kg m**-2", "kg m-2"},
        std::pair{"m2 s-2", "m**2 s**-2"}, std::pair{"", "1"}, std::pair{"1/s", "s-1"}, std::pair{"kg kg-1", "1"},
        std::pair{"hPa", "millibars"}, std::pair{"degrees_north", "degree_N"}, std::pair{"%", "percent"},
        std::pair{"(0 - 1)", "(0 - 1)"}})
    EXPECT_TRUE(same_units(a, b)) << a << " " << b;
  for (auto const& [a, b] :
       {std::pair{"K", "degC"}, std::pair{"m", "10 m"}, std::pair{"m", "0.1 m"}, std::pair{"m s-1", "m s-2"},
        std::pair{"Pa", "hPa"}, std::pair{"m s-1", "m/s/day"}, std::pair{"g", "kg"}, std::pair{"mm", "m"},
        std::pair{"m", ""}, std::pair{"1e-3 kg", "1e-6 kg"}, std::pair{"m", "M"}})
    EXPECT_FALSE(same_units(a, b)) << a << " " << b;
}

TEST(Units, pressures_have_a_size) {
  for (auto const* units : {"hPa", "HPA", "mb", "mbar", "millibar", "millibars", "hectopascals"})
    EXPECT_EQ(pascals_per_unit(units), 100) << units;
  EXPECT_EQ(pascals_per_unit("Pa"), 1);
  EXPECT_EQ(pascals_per_unit("kPa"), 1000);
  EXPECT_EQ(pascals_per_unit("bar"), 1e5);
  for (auto const* units : {"", "1", "m", "Pa s-1", "Pa2", "level"}) EXPECT_FALSE(pascals_per_unit(units)) << units;
}

}  // namespace
}  // namespace graticule
