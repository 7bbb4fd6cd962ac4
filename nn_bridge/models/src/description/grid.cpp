// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/fields.hpp>
#include <graticule/models/grid.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace graticule::models {
namespace {

/// Coordinates in files are often f32: a spacing is known to about this part of itself.
constexpr double spacing_tolerance = 1e-3;
/// Two steps of f32 at 90 degrees.
constexpr double on_pole_degrees = 2e-5;
constexpr double earth_radius_m = 6.371e6;
constexpr double earth_rotation_per_s = 7.292e-5;

std::string degrees(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

void require_monotonic(std::vector<double> const& values, char const* rule, char const* what) {
  if (values.empty()) throw Error(Fault::input, rule, std::string("the grid has no ") + what);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]))
      throw Error(Fault::input, rule, std::string(what) + " number " + std::to_string(i) + " is missing or not finite");
    if (i < 2) continue;
    if ((values[i] > values[i - 1]) != (values[1] > values[0]) || values[i] == values[i - 1])
      throw Error(Fault::input, rule,
                  std::string(what) + " neither rise nor fall throughout: " + degrees(values[i - 1]) +
                      " is followed by " + degrees(values[i]));
  }
  if (values.size() > 1 && values[0] == values[1])
    throw Error(Fault::input, rule, std::string(what) + " repeat " + degrees(values[0]));
}

enum class Longitude { periodic, regional };

Longitude longitude_kind(std::vector<double> const& longitudes) {
  auto const n = double(longitudes.size());
  if (longitudes.size() < 2) return Longitude::regional;
  double const span = std::abs(longitudes.back() - longitudes.front());
  double const spacing = span / (n - 1);
  if (span > 360 + spacing_tolerance * spacing)
    throw Error(Fault::input, "BadCoordinates",
                "longitudes run from " + degrees(longitudes.front()) + " to " + degrees(longitudes.back()) +
                    ", more than a circle: the last columns repeat the first; remove them (ncks -d longitude,0,LAST)");
  if (std::abs(span - 360) < spacing_tolerance * spacing)
    throw Error(Fault::input, "BadCoordinates",
                "longitudes run from " + degrees(longitudes.front()) + " to " + degrees(longitudes.back()) +
                    ": the last column repeats the first; remove it (ncks -d longitude,0," +
                    std::to_string(longitudes.size() - 2) + ")");
  for (std::size_t i = 1; i < longitudes.size(); ++i)
    if (std::abs(std::abs(longitudes[i] - longitudes[i - 1]) - spacing) > 10 * spacing_tolerance * spacing)
      return Longitude::regional;
  return std::abs(n * spacing - 360) < n * spacing_tolerance * spacing && n * spacing > 360 - spacing / 2
             ? Longitude::periodic
             : Longitude::regional;
}

/// What lies beyond an outer row at `latitude` whose neighbor is `spacing` degrees away.
Edge edge_of_row(double latitude, double spacing) {
  double const gap = 90 - std::abs(latitude);
  if (gap < on_pole_degrees) return Edge::pole_row;
  return std::abs(gap - spacing / 2) < 0.05 * spacing ? Edge::pole_face : Edge::replicate;
}

double spacing_at(std::vector<double> const& values, std::size_t index, std::size_t neighbor) {
  return std::abs(values[index] - values[neighbor]);
}

}  // namespace

Grid make_grid(std::vector<double> latitudes, std::vector<double> longitudes) {
  require_monotonic(latitudes, "BadCoordinates", "latitudes");
  require_monotonic(longitudes, "BadCoordinates", "longitudes");
  for (double& latitude : latitudes) {
    if (std::abs(latitude) > 90 + on_pole_degrees)
      throw Error(Fault::input, "BadCoordinates", "latitude " + degrees(latitude) + " lies beyond the pole");
    latitude = std::clamp(latitude, -90.0, 90.0);
  }

  Grid grid{std::move(latitudes), std::move(longitudes), {}};
  grid.boundary.axes.assign(2, AxisBoundary{Edge::replicate, Edge::replicate});
  if (longitude_kind(grid.longitudes) == Longitude::regional) return grid;

  grid.boundary.axes[1] = {Edge::periodic, Edge::periodic};
  grid.boundary.longitude_axis = 1;
  std::size_t const last = grid.latitudes.size() - 1;
  if (last == 0) return grid;
  grid.boundary.axes[0].lower = edge_of_row(grid.latitudes[0], spacing_at(grid.latitudes, 0, 1));
  grid.boundary.axes[0].upper = edge_of_row(grid.latitudes[last], spacing_at(grid.latitudes, last, last - 1));
  bool const crosses = grid.boundary.axes[0].lower != Edge::replicate || grid.boundary.axes[0].upper != Edge::replicate;
  if (crosses && grid.num_columns() % 2 != 0)
    throw Error(
        Fault::input, "BadBoundary",
        "the grid reaches a pole with " + std::to_string(grid.num_columns()) +
            " longitudes; crossing the pole leads to the meridian 180 degrees away, which needs an even number");
  return grid;
}

double extended_latitude(Grid const& grid, Index row) {
  Index const last = grid.num_rows() - 1;
  auto const at = [&](Index r) { return grid.latitudes[std::size_t(std::clamp<Index>(r, 0, last))]; };
  if (row >= 0 && row <= last) return at(row);
  Edge const edge = row < 0 ? grid.boundary.axes[0].lower : grid.boundary.axes[0].upper;
  double const outer = row < 0 ? at(0) : at(last);
  double const image = edge == Edge::pole_row ? (row < 0 ? at(1) : at(last - 1)) : outer;
  if (edge == Edge::replicate) return outer;
  return std::copysign(180.0, outer) - image;
}

double extended_longitude(Grid const& grid, Index column) {
  Index const n = grid.num_columns();
  auto const at = [&](Index c) { return grid.longitudes[std::size_t(std::clamp<Index>(c, 0, n - 1))]; };
  if (column >= 0 && column < n) return at(column);
  if (!grid.is_periodic()) return at(column);
  double const turn = at(n - 1) > at(0) ? 360 : -360;
  return column < 0 ? at(column + n) - turn : at(column - n) + turn;
}

bool is_symmetric(Grid const& grid) {
  std::size_t const n = grid.latitudes.size();
  if (n < 2) return n == 1 && grid.latitudes[0] == 0;
  double const tolerance = spacing_tolerance * spacing_at(grid.latitudes, 0, 1);
  for (std::size_t i = 0; i < n; ++i)
    if (std::abs(grid.latitudes[i] + grid.latitudes[n - 1 - i]) > tolerance) return false;
  return true;
}

std::string describe_edges(Grid const& grid) {
  auto const row = [](Edge edge) -> std::string {
    switch (edge) {
      case Edge::pole_row: return "pole crossed (row on the pole)";
      case Edge::pole_face: return "pole crossed (row half a spacing from it)";
      default: return "edge repeated";
    }
  };
  AxisBoundary const& latitude = grid.boundary.axes[0];
  std::string text = latitude.lower == latitude.upper
                         ? "first and last row: " + row(latitude.lower)
                         : "first row: " + row(latitude.lower) + ", last row: " + row(latitude.upper);
  return text + (grid.is_periodic() ? "; longitude periodic" : "; longitude not periodic, edges repeated");
}

double bounded_cosine(Grid const& grid, Index row) {
  double const row_spacing =
      grid.num_rows() > 1 ? std::abs(grid.latitudes[1] - grid.latitudes[0]) * radians : std::numbers::pi;
  double const smallest_cosine = std::sin(std::min(row_spacing, std::numbers::pi) / 2);
  return std::max(std::cos(grid.latitudes[std::size_t(row)] * radians), smallest_cosine);
}

double metres_on_row(Grid const& grid, double cosine, Index column) {
  return (extended_longitude(grid, column + 1) - extended_longitude(grid, column - 1)) * radians * cosine *
         earth_radius_m;
}

double metres_between_rows(Grid const& grid, Index row) {
  return (extended_latitude(grid, row + 1) - extended_latitude(grid, row - 1)) * radians * earth_radius_m;
}

ChannelInfo channel_of(Feature feature, FieldInfo const& info) {
  if (feature == Feature::value) return {info.name, info.parity};
  return {(feature == Feature::east ? "d/dx " : "d/dy ") + info.name,
          info.parity == Parity::even ? Parity::odd : Parity::even};
}

std::vector<double> static_rows(std::string const& name, Grid const& grid) {
  double (*function)(double) = nullptr;
  if (name == "coriolis")
    function = [](double latitude) { return 2 * earth_rotation_per_s * std::sin(latitude * radians); };
  if (name == "sin_latitude") function = [](double latitude) { return std::sin(latitude * radians); };
  if (name == "cos_latitude") function = [](double latitude) { return std::cos(latitude * radians); };
  if (function == nullptr)
    throw Error(Fault::usage, "BadOption",
                "'" + name + "' is no function of latitude; there are coriolis, sin_latitude and cos_latitude");
  std::vector<double> rows(grid.latitudes.size());
  std::transform(grid.latitudes.begin(), grid.latitudes.end(), rows.begin(), function);
  return rows;
}

std::vector<double> normalised_rows(std::string const& name, Grid const& grid, std::span<double const> row_weights) {
  std::vector<double> rows = static_rows(name, grid);
  double const area = std::accumulate(row_weights.begin(), row_weights.end(), 0.0);
  double const mean = std::inner_product(rows.begin(), rows.end(), row_weights.begin(), 0.0) / area;
  double squares = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) squares += row_weights[i] * (rows[i] - mean) * (rows[i] - mean);
  double const deviation = std::sqrt(squares / area);
  for (double& row : rows) row = deviation > 0 ? (row - mean) / deviation : 0;
  return rows;
}

}  // namespace graticule::models
