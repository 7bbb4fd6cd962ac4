// SPDX-License-Identifier: BSD-3-Clause
#include "colours.hpp"
#include "map_picture.hpp"
#include "shared_folder.hpp"

#include <cairo.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace graticule::app {
namespace {

constexpr Colour missing{150, 150, 150};
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// What lies at a pixel of a PNG file.
class Picture {
 public:
  explicit Picture(std::filesystem::path const& path)
      : surface_(cairo_image_surface_create_from_png(path.c_str()), &cairo_surface_destroy) {}
  [[nodiscard]] bool is_good() const { return cairo_surface_status(surface_.get()) == CAIRO_STATUS_SUCCESS; }
  [[nodiscard]] int width() const { return cairo_image_surface_get_width(surface_.get()); }
  [[nodiscard]] int height() const { return cairo_image_surface_get_height(surface_.get()); }
  [[nodiscard]] Colour at(int x, int y) const {
    auto const* const pixel =
        cairo_image_surface_get_data(surface_.get()) + y * cairo_image_surface_get_stride(surface_.get()) + 4 * x;
    return {pixel[2], pixel[1], pixel[0]};
  }

 private:
  std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface_;
};

MapPicture picture_of(std::vector<double> truth, std::vector<double> prediction, Index rows, Index columns) {
  MapPicture picture{"title", "subtitle", {}, {}, {}, Layout(ProcessGrid{1, 1}, {rows, columns}), {}};
  for (Index i = 0; i < rows; ++i) picture.latitudes.push_back(80 - 160.0 * double(i) / double(rows));
  for (Index j = 0; j < columns; ++j) picture.longitudes.push_back(360.0 * double(j) / double(columns));
  picture.row_weights.assign(std::size_t(rows), 1.0);
  picture.rows.push_back({"z", "m", std::move(truth), std::move(prediction)});
  return picture;
}

/// Cells of the first map, by the place of their pixels: margins of 104 and of 100 + 30 pixels, 580 wide.
Colour cell(Picture const& picture, double x, double y) { return picture.at(104 + int(580 * x), 130 + int(200 * y)); }

TEST(Pictures, of_any_values_are_drawn) {
  test::Folder const folder(Comm::world());
  auto const path = folder / "map.png";
  double const tiny = std::numeric_limits<double>::denorm_min();
  double const huge = std::numeric_limits<double>::max();
  for (auto const& [first, second] : std::vector<std::pair<double, double>>{
           {0, 0},         {1, 1},       {273.15, 273.15}, {1e16, 1e16},     {9.97e36, 9.97e36}, {-1e20, -1e20},
           {1e300, 1e300}, {huge, huge}, {-huge, huge},    {0, huge},        {-huge, 0},         {tiny, tiny},
           {-tiny, tiny},  {0, tiny},    {1e-310, 2e-310}, {nan, nan},       {nan, 1e300},       {inf, inf},
           {-inf, inf},    {inf, 1e300}, {-inf, 0},        {1e16, 1e16 + 2}, {1e-300, 1e300},    {5, nan}}) {
    std::filesystem::remove(path);

    draw_map(picture_of({first, second, second, first}, {second, first, nan, inf}, 2, 2), path);

    Picture const picture(path);
    ASSERT_TRUE(picture.is_good()) << first << " " << second;
    EXPECT_EQ(cell(picture, 0.25, 0.25) == missing, std::isnan(first)) << first << " " << second;
    EXPECT_EQ(cell(picture, 0.75, 0.25) == missing, std::isnan(second)) << first << " " << second;
  }
}

TEST(Pictures, tell_values_apart_whatever_their_size) {
  test::Folder const folder(Comm::world());
  auto const path = folder / "map.png";
  for (double const scale : {1e-320, 1e-300, 1e-30, 1.0, 1e30, 1e300, 1e307}) {
    draw_map(picture_of({1 * scale, 8 * scale, 1 * scale, 8 * scale}, {0, 0, 0, 0}, 2, 2), path);

    Picture const picture(path);
    ASSERT_TRUE(picture.is_good());
    EXPECT_EQ(cell(picture, 0.25, 0.25) == cell(picture, 0.75, 0.25), scale < 1e-300) << scale;
  }
}

TEST(Pictures, of_one_cell_and_of_none_are_drawn) {
  test::Folder const folder(Comm::world());
  auto const path = folder / "map.png";
  for (auto const& [rows, columns] :
       std::vector<std::pair<Index, Index>>{{1, 1}, {1, 5}, {5, 1}, {0, 4}, {4, 0}, {0, 0}}) {
    std::filesystem::remove(path);
    std::vector<double> const values(std::size_t(rows * columns), 7.0);

    draw_map(picture_of(values, values, rows, columns), path);

    EXPECT_TRUE(Picture(path).is_good()) << rows << " x " << columns;
    FieldPicture const fields{"t",
                              "s",
                              picture_of(values, values, rows, columns).latitudes,
                              picture_of(values, values, rows, columns).longitudes,
                              Layout(ProcessGrid{1, 1}, {rows, columns}),
                              {"day 1"},
                              {{"z", "m", {values}}}};
    draw_fields(fields, path);
    EXPECT_TRUE(Picture(path).is_good()) << rows << " x " << columns;
  }
}

TEST(Colours, of_no_number_are_in_the_table) {
  EXPECT_EQ(sequential_colour(nan), sequential_colour(0));
  EXPECT_EQ(diverging_colour(nan), diverging_colour(0));
  EXPECT_EQ(sequential_colour(inf), sequential_colour(1));
  EXPECT_EQ(sequential_colour(-inf), sequential_colour(0));
  EXPECT_EQ(diverging_colour(-inf), diverging_colour(-1));
}

}  // namespace
}  // namespace graticule::app
