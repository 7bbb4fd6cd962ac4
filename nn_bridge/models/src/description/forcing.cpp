// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/detail/forcing.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace graticule::models {
namespace {

constexpr double turn = 2 * std::numbers::pi;
constexpr Seconds day_seconds = 86400;

/// Seconds since midnight, 0 to 86399.
Seconds second_of_day(Seconds time) { return (time % day_seconds + day_seconds) % day_seconds; }

/// Part of the year that has passed, 0 to 1.
double part_of_year(Seconds time, Calendar calendar) {
  auto const date = date_time_of(time, calendar);
  // Where the year is the first or the last of the calendar, its neighbor has no date: the length is that of its days.
  Seconds const begin = seconds_of({date.year, 1, 1, 0}, calendar);
  int const last_day = calendar == Calendar::day_360 ? 30 : 31;
  Seconds const end = seconds_of({date.year, 12, last_day, 0}, calendar) + day_seconds;
  return double(time - begin) / double(end - begin);
}

/// Position of the sun at a time.
struct Sun {
  double sine;       ///< of the declination
  double cosine;     ///< of it
  double greenwich;  ///< hour angle at longitude 0, radians
};

/// J. W. Spencer, "Fourier series representation of the position of the sun", Search 2 (1971).
Sun sun_at(Seconds time, Calendar calendar) {
  double const g = turn * part_of_year(time, calendar);
  double const declination = 0.006918 - 0.399912 * std::cos(g) + 0.070257 * std::sin(g) - 0.006758 * std::cos(2 * g) +
                             0.000907 * std::sin(2 * g) - 0.002697 * std::cos(3 * g) + 0.00148 * std::sin(3 * g);
  double const equation_of_time = 0.000075 + 0.001868 * std::cos(g) - 0.032077 * std::sin(g) -
                                  0.014615 * std::cos(2 * g) - 0.040849 * std::sin(2 * g);
  return {std::sin(declination), std::cos(declination),
          turn * (double(second_of_day(time)) / 86400 - 0.5) + equation_of_time};
}

double zenith(Sun const& sun, double latitude, double longitude) {
  return std::sin(latitude * radians) * sun.sine +
         std::cos(latitude * radians) * sun.cosine * std::cos(sun.greenwich + longitude * radians);
}

constexpr std::size_t num_points = 9;
constexpr std::array<double, num_points> simpson{1. / 24, 4. / 24, 2. / 24, 4. / 24, 2. / 24,
                                                 4. / 24, 2. / 24, 4. / 24, 1. / 24};

template <class Value, class Function>
Value* fill_cells(Places const& places, Value* out, Function&& value) {
  for (double const latitude : places.latitudes)
    for (double const longitude : places.longitudes) *out++ = Value(value(latitude, longitude));
  return out;
}

template <class Value>
Value* fill_insolation(Places const& places, Seconds time, Seconds step, Calendar calendar, Value* out) {
  std::array<Sun, num_points> suns{};
  for (std::size_t i = 0; i < num_points; ++i)
    suns[i] = sun_at(time + step * Seconds(i) / Seconds(num_points - 1), calendar);
  return fill_cells(places, out, [&](double latitude, double longitude) {
    double sum = 0;
    for (std::size_t i = 0; i < num_points; ++i)
      sum += simpson[i] * std::max(0.0, zenith(suns[i], latitude, longitude));
    return sum;
  });
}

template <class Value>
Value* fill_time_of_day(Places const& places, Seconds time, Value* out) {
  double const day = turn * double(second_of_day(time)) / 86400;
  out = fill_cells(places, out, [&](double, double longitude) { return std::sin(day + longitude * radians); });
  out = fill_cells(places, out, [&](double, double longitude) { return std::cos(day + longitude * radians); });
  out = fill_cells(places, out, [&](double, double) { return std::sin(day); });
  return fill_cells(places, out, [&](double, double) { return std::cos(day); });
}

template <class Value>
Value* fill_time_of_year(Places const& places, Seconds time, Calendar calendar, Value* out) {
  double const year = turn * part_of_year(time, calendar);
  out = fill_cells(places, out, [&](double, double) { return std::sin(year); });
  return fill_cells(places, out, [&](double, double) { return std::cos(year); });
}

}  // namespace

std::vector<Forcing> forcings_of(std::vector<std::string> const& names, std::string const& option) {
  std::vector<Forcing> forcings;
  for (std::string const& name : names) {
    if (name == "insolation")
      forcings.push_back(Forcing::insolation);
    else if (name == "time_of_day")
      forcings.push_back(Forcing::time_of_day);
    else if (name == "time_of_year")
      forcings.push_back(Forcing::time_of_year);
    else
      throw Error(Fault::usage, "BadOption",
                  option + " takes insolation, time_of_day and time_of_year, got '" + name + "'");
  }
  return forcings;
}

std::vector<std::string> forcing_channels(std::vector<Forcing> const& forcings) {
  std::vector<std::string> names;
  for (Forcing const forcing : forcings) switch (forcing) {
      case Forcing::insolation: names.emplace_back("insolation"); break;
      case Forcing::time_of_day:
        names.insert(names.end(), {"sin_local_time", "cos_local_time", "sin_utc", "cos_utc"});
        break;
      case Forcing::time_of_year: names.insert(names.end(), {"sin_year", "cos_year"}); break;
    }
  return names;
}

double cosine_of_zenith(Seconds time, double latitude, double longitude, Calendar calendar) {
  return zenith(sun_at(time, calendar), latitude, longitude);
}

template <class Value>
void fill_forcing(std::vector<Forcing> const& forcings, Places const& places, Seconds time, Seconds step, Value* out,
                  Calendar calendar) {
  for (Forcing const forcing : forcings) switch (forcing) {
      case Forcing::insolation: out = fill_insolation(places, time, step, calendar, out); break;
      case Forcing::time_of_day: out = fill_time_of_day(places, time, out); break;
      case Forcing::time_of_year: out = fill_time_of_year(places, time, calendar, out); break;
    }
}

template void fill_forcing<float>(std::vector<Forcing> const&, Places const&, Seconds, Seconds, float*, Calendar);
template void fill_forcing<double>(std::vector<Forcing> const&, Places const&, Seconds, Seconds, double*, Calendar);

}  // namespace graticule::models
