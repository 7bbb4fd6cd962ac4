// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/grid.hpp>

#include "coordinates.hpp"
#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace graticule::models {
namespace {

using test::evenly;
using test::rule_of;

TEST(Grid, rows_on_the_poles_are_crossed_as_pole_rows) {
  Grid const grid = make_grid(evenly(90, -10, 19), evenly(-180, 10, 36));

  EXPECT_EQ(grid.boundary, Boundary::sphere(Edge::pole_row));
  EXPECT_TRUE(is_symmetric(grid));
  EXPECT_EQ(extended_latitude(grid, -1), 100);
  EXPECT_EQ(extended_latitude(grid, 19), -100);
  EXPECT_EQ(extended_longitude(grid, -1), -190);
  EXPECT_EQ(extended_longitude(grid, 36), 180);
}

TEST(Grid, rows_half_a_spacing_from_the_poles_are_crossed_as_pole_faces) {
  Grid const grid = make_grid(evenly(-85, 10, 18), evenly(0, 10, 36));

  EXPECT_EQ(grid.boundary, Boundary::sphere(Edge::pole_face));
  EXPECT_EQ(extended_latitude(grid, -1), -95);
  EXPECT_EQ(extended_latitude(grid, 18), 95);
}

TEST(Grid, a_hemisphere_crosses_one_pole_and_repeats_the_other_edge) {
  Grid const grid = make_grid(evenly(90, -10, 10), evenly(0, 10, 36));

  EXPECT_EQ(grid.boundary.axes[0].lower, Edge::pole_row);
  EXPECT_EQ(grid.boundary.axes[0].upper, Edge::replicate);
  EXPECT_EQ(extended_latitude(grid, 10), 0);
  EXPECT_FALSE(is_symmetric(grid));
}

TEST(Grid, a_region_repeats_its_edges_even_at_the_pole) {
  Grid const grid = make_grid(evenly(90, -1, 31), evenly(10, 1, 50));

  EXPECT_EQ(grid.boundary, Boundary::uniform(2, Edge::replicate));
  EXPECT_EQ(extended_longitude(grid, -1), 10);
  EXPECT_EQ(extended_longitude(grid, 50), 59);
}

TEST(Grid, longitudes_of_single_precision_are_still_periodic) {
  std::vector<double> longitudes;
  for (int i = 0; i < 1440; ++i) longitudes.push_back(double(float(-180 + 0.25 * i + 0.1)));

  EXPECT_TRUE(make_grid(evenly(90, -0.25, 721), longitudes).is_periodic());
}

TEST(Grid, goes_on_beyond_its_edges_as_documented) {
  Grid const grid = make_grid(evenly(90, -0.75, 241), evenly(-180, 0.75, 480));

  EXPECT_EQ(grid.boundary, Boundary::sphere(Edge::pole_row));
  EXPECT_EQ(extended_latitude(grid, -1), 90.75);
  EXPECT_EQ(extended_latitude(grid, 241), -90.75);
  EXPECT_EQ(extended_longitude(grid, -1), -180.75);
  EXPECT_EQ(extended_longitude(grid, 480), 180);
}

TEST(Grid, says_what_lies_beyond_its_edges) {
  EXPECT_EQ(describe_edges(make_grid(evenly(90, -10, 19), evenly(0, 10, 36))),
            "first and last row: pole crossed (row on the pole); longitude periodic");
  EXPECT_EQ(describe_edges(make_grid(evenly(85, -10, 9), evenly(0, 10, 36))),
            "first row: pole crossed (row half a spacing from it), last row: edge repeated; longitude periodic");
  EXPECT_EQ(describe_edges(make_grid(evenly(50, -1, 10), evenly(5, 1, 10))),
            "first and last row: edge repeated; longitude not periodic, edges repeated");
}

TEST(Grid, is_its_own_mirror_image_where_latitudes_are_opposite_in_pairs) {
  EXPECT_TRUE(is_symmetric(make_grid({60, 20, -20, -60}, {0, 1})));
  EXPECT_TRUE(is_symmetric(make_grid({-30, 0, 30}, {0, 1})));
  EXPECT_TRUE(is_symmetric(make_grid({0}, {0, 1})));
  EXPECT_FALSE(is_symmetric(make_grid({60, 20, -20, -61}, {0, 1})));
  EXPECT_FALSE(is_symmetric(make_grid({30, 20, 10}, {0, 1})));
  EXPECT_FALSE(is_symmetric(make_grid({10}, {0, 1})));
}

/// A degree of a great circle of the documented radius.
constexpr double degree_m = 2 * std::numbers::pi * 6371e3 / 360;

TEST(Grid, has_distances_of_two_cells_with_the_sign_of_the_coordinates) {
  Grid const falling = make_grid(evenly(90, -10, 19), evenly(0, 10, 36));
  Grid const rising = make_grid(evenly(-85, 10, 18), evenly(0, -10, 36));
  Grid const region = make_grid(evenly(50, -1, 10), evenly(5, 2, 10));

  for (Index const row : {0, 9, 18}) EXPECT_NEAR(metres_between_rows(falling, row), -20 * degree_m, 1e-6) << row;
  EXPECT_NEAR(metres_between_rows(rising, 17), 20 * degree_m, 1e-6);
  // Of the last row and the one before it.
  EXPECT_NEAR(metres_between_rows(region, 9), -degree_m, 1e-6);
  EXPECT_NEAR(metres_on_row(falling, 0.5, 35), 20 * degree_m * 0.5, 1e-6);
  EXPECT_NEAR(metres_on_row(rising, 1, 0), -20 * degree_m, 1e-6);
  EXPECT_NEAR(metres_on_row(region, 1, 0), 2 * degree_m, 1e-6);
}

TEST(Grid, has_cosines_of_latitude_that_do_not_vanish_at_the_pole) {
  Grid const grid = make_grid(evenly(90, -10, 19), evenly(0, 10, 36));
  double const at_85 = std::cos(85 * std::numbers::pi / 180);

  EXPECT_NEAR(bounded_cosine(grid, 0), at_85, 1e-15);
  EXPECT_NEAR(bounded_cosine(grid, 18), at_85, 1e-15);
  EXPECT_NEAR(bounded_cosine(grid, 3), 0.5, 1e-15);  // 60 degrees
  EXPECT_EQ(bounded_cosine(grid, 9), 1);
}

TEST(RowFunctions, are_functions_of_latitude) {
  Grid const grid = make_grid(evenly(90, -5, 37), evenly(-180, 5, 72));

  EXPECT_NEAR(static_rows("coriolis", grid)[0], 2 * 7.292e-5, 1e-12);
  EXPECT_NEAR(static_rows("sin_latitude", grid)[12], 0.5, 1e-12);
  EXPECT_NEAR(static_rows("cos_latitude", grid)[18], 1, 1e-12);
  EXPECT_EQ(rule_of([&] { (void)static_rows("slope", grid); }), (test::ErrorWith{"BadOption", "'slope'"}));
}

TEST(RowFunctions, are_normalised_by_the_areas_of_rows) {
  Grid const grid = make_grid({60, 0, -60}, evenly(0, 90, 4));
  std::vector<double> const areas{1, 2, 1};

  // Mean 0 and mean square 2 * 0.75 / 4; mean (0.5 + 2 + 0.5) / 4 and variance (2 * 0.25^2 + 2 * 0.25^2) / 4.
  auto const sine = normalised_rows("sin_latitude", grid, areas);
  auto const cosine = normalised_rows("cos_latitude", grid, areas);

  std::vector<double> const wanted_sine{std::sqrt(2), 0, -std::sqrt(2)};
  std::vector<double> const wanted_cosine{-1, 1, -1};
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_NEAR(sine[row], wanted_sine[row], 1e-14) << row;
    EXPECT_NEAR(cosine[row], wanted_cosine[row], 1e-14) << row;
  }
  // What is the same everywhere has no scale.
  EXPECT_EQ(normalised_rows("cos_latitude", make_grid({45, -45}, {0, 1}), std::vector<double>{1, 1})[0], 0);
  EXPECT_EQ(rule_of([&] { (void)normalised_rows("slope", grid, areas); }), "BadOption");
}

TEST(Grid, coordinates_that_are_no_grid_are_input_errors) {
  EXPECT_EQ(rule_of([] { (void)make_grid(evenly(90, -10, 19), evenly(0, 8, 45)); }), "BadBoundary");
  EXPECT_EQ(rule_of([] { (void)make_grid(evenly(90, -10, 19), evenly(0, 10, 37)); }),
            (test::ErrorWith{"BadCoordinates", "the last column repeats the first"}));
  EXPECT_EQ(rule_of([] { (void)make_grid(evenly(90, -10, 19), evenly(-10, 10, 38)); }),
            (test::ErrorWith{"BadCoordinates", "more than a circle"}));
  EXPECT_EQ(rule_of([] {
              (void)make_grid({0, 10, 5}, evenly(0, 10, 36));
            }),
            (test::ErrorWith{"BadCoordinates", "latitude"}));
  EXPECT_EQ(rule_of([] {
              (void)make_grid({0, 95}, evenly(0, 10, 36));
            }),
            (test::ErrorWith{"BadCoordinates", "beyond the pole"}));
  EXPECT_EQ(rule_of([] {
              (void)make_grid({0, std::nan("")}, evenly(0, 10, 36));
            }),
            (test::ErrorWith{"BadCoordinates", "latitude"}));
  EXPECT_EQ(rule_of([] { (void)make_grid({0, 10}, {0, 0}); }), (test::ErrorWith{"BadCoordinates", "longitude"}));
  EXPECT_EQ(test::thrown_by([] { (void)make_grid(evenly(90, -10, 19), evenly(0, 8, 45)); }).fault, Fault::input);
}

}  // namespace
}  // namespace graticule::models
