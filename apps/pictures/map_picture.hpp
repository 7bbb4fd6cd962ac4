// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace graticule::app {

/// One row of maps: truth, prediction and their difference of one field. Values are row-major over the whole grid, in
/// the order of the coordinates; NaN is drawn grey.
struct MapRow {
  std::string name;
  std::string units;
  std::vector<double> truth;
  std::vector<double> prediction;
};

struct MapPicture {
  std::string title;
  std::string subtitle;
  std::vector<double> latitudes;    ///< degrees north of the rows, monotonic either way
  std::vector<double> longitudes;   ///< degrees east of the columns, monotonic either way
  std::vector<double> row_weights;  ///< area of a cell of each row, for the rmse in the headings
  Layout layout;                    ///< whose boxes are outlined
  std::vector<MapRow> rows;
};

/// A field at several times: a column of maps with one range of colours.
struct FieldColumn {
  std::string name;
  std::string units;
  std::vector<std::vector<double>> maps;  ///< one per time, as in `MapRow`
};

/// Fields side by side, times from top to bottom.
struct FieldPicture {
  std::string title;
  std::string subtitle;
  std::vector<double> latitudes;
  std::vector<double> longitudes;
  Layout layout;
  std::vector<std::string> times;  ///< headings, such as `day 5`
  std::vector<FieldColumn> columns;
};

/// Size of the file that `draw_map` or `draw_fields` writes, in pixels.
struct PictureSize {
  int width = 0;
  int height = 0;
};
[[nodiscard]] PictureSize picture_size(MapPicture const& picture);
[[nodiscard]] PictureSize picture_size(FieldPicture const& picture);

/// Writes the maps as a PNG file: north up, one colour bar for truth and prediction and one for the difference.
/// Serial.
/// @throws `OutputError`; an older file remains
void draw_map(MapPicture const& picture, std::filesystem::path const& path);

/// Writes the fields as a PNG file, with a colour bar per column and row. Serial.
/// @throws `OutputError`; an older file remains
void draw_fields(FieldPicture const& picture, std::filesystem::path const& path);

}  // namespace graticule::app
