// SPDX-License-Identifier: BSD-3-Clause
#include "map_picture.hpp"

#include "colours.hpp"
#include "png.hpp"
#include "units.hpp"

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <numbers>

namespace graticule::app {
namespace {

constexpr double margin_left = 104;
constexpr double margin_right = 26;
constexpr double header_height = 100;
constexpr double footer_height = 46;
constexpr double heading_height = 30;  // above each panel
constexpr double ticks_height = 30;    // below each panel
constexpr double panel_width = 580;
constexpr double panel_gap = 22;
constexpr double bar_space = 106;  // a colour bar and its numbers
constexpr double bar_width = 16;
constexpr Colour missing_colour{150, 150, 150};

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using Context = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;

struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// Bounds between the cells of one axis: half way between coordinates, outside by half a spacing.
std::vector<double> bounds_of(std::vector<double> const& centres) {
  std::size_t const n = centres.size();
  if (n == 0) return {0, 1};
  if (n == 1) return {centres[0] - 0.5, centres[0] + 0.5};
  std::vector<double> bounds(n + 1);
  for (std::size_t i = 1; i < n; ++i) bounds[i] = (centres[i - 1] + centres[i]) / 2;
  bounds[0] = centres[0] - (centres[1] - centres[0]) / 2;
  bounds[n] = centres[n - 1] + (centres[n - 1] - centres[n - 2]) / 2;
  return bounds;
}

/// The visible part of the globe, and which cell each pixel shows.
struct Projection {
  std::vector<double> latitude_bounds;
  std::vector<double> longitude_bounds;
  double south = -90;
  double north = 90;
  double west = 0;
  double east = 360;

  template <class Picture>
  explicit Projection(Picture const& picture)
      : latitude_bounds(bounds_of(picture.latitudes)), longitude_bounds(bounds_of(picture.longitudes)) {
    for (double& latitude : latitude_bounds) latitude = std::clamp(latitude, -90.0, 90.0);
    std::tie(south, north) = std::minmax(latitude_bounds.front(), latitude_bounds.back());
    std::tie(west, east) = std::minmax(longitude_bounds.front(), longitude_bounds.back());
  }

  double panel_height() const {
    double const ratio = (north - south) / (east - west);
    return panel_width * (ratio > 0.25 ? std::min(ratio, 1.2) : 0.25);
  }
  double x(double longitude, Rectangle const& panel) const {
    return panel.x + (longitude - west) / (east - west) * panel.width;
  }
  double y(double latitude, Rectangle const& panel) const {
    return panel.y + (north - latitude) / (north - south) * panel.height;
  }
};

/// Index of the cell whose bounds hold `value`.
std::size_t cell_of(std::vector<double> const& bounds, double value) {
  bool const rises = bounds.back() > bounds.front();
  auto const after = rises ? std::upper_bound(bounds.begin(), bounds.end(), value)
                           : std::upper_bound(bounds.begin(), bounds.end(), value, std::greater<>());
  auto const index = std::distance(bounds.begin(), after) - 1;
  return std::size_t(std::clamp<std::ptrdiff_t>(index, 0, std::ptrdiff_t(bounds.size()) - 2));
}

/// Values that a colour bar spans: finite numbers, `low` below `high`. Signed fields are symmetric about zero.
struct Range {
  double low = -1;
  double high = 1;
  bool is_signed = true;
  bool clips_low = false;
  bool clips_high = false;

  Colour colour(double value) const {
    if (std::isnan(value)) return missing_colour;
    return is_signed ? diverging_colour(value / high) : sequential_colour(place(value));
  }
  /// Of a value between `low`, 0, and `high`, 1. Differences of halves do not overflow.
  double place(double value) const { return (value / 2 - low / 2) / (high / 2 - low / 2); }
  /// The value at a place.
  double at(double part) const { return low * (1 - part) + high * part; }
};

/// Colour bars neither span less than this about zero nor reach further: their ticks are then ordinary numbers.
constexpr double least_bound = 1e-300;
constexpr double most_bound = 1e308;

/// The next larger of 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten, between the bounds.
double rounded_up(double value) {
  if (!(value > 0)) return 1;
  if (value <= least_bound) return least_bound;
  if (value >= most_bound) return most_bound;
  double const power = std::pow(10.0, std::floor(std::log10(value)));
  for (double step : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0})
    if (step * power >= value * (1 - 1e-12)) return step * power;
  return 10 * power;
}

/// A range of one sign from `low` to `high`, widened to round numbers and to what its ticks need to differ.
void set_round(Range& range, double low, double high) {
  low = std::clamp(low, -most_bound, most_bound);
  high = std::clamp(high, -most_bound, most_bound);
  double const largest = std::max(std::abs(low), std::abs(high));
  // A constant spans one unit, or a tenth of itself where units are lost in its digits.
  double const least = low < high ? 1e-12 * largest : largest < 1e6 ? 1 : 0.1 * largest;
  double const step = std::max(rounded_up(high / 10 - low / 10), rounded_up(least));
  range.low = std::floor(low / step) * step;
  range.high = std::max(std::ceil(high / step) * step, range.low + step);
}

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  auto const middle = values.begin() + std::ptrdiff_t(part * double(values.size() - 1));
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Spans all but the largest 0.2 % of the values, so that single cells do not bleach the map.
Range range_of(std::vector<double> const& values) {
  std::vector<double> known;
  std::copy_if(values.begin(), values.end(), std::back_inserter(known), [](double v) { return std::isfinite(v); });
  if (known.empty()) return {};
  auto const [least, most] = std::minmax_element(known.begin(), known.end());
  double const smallest = *least;
  double const largest = *most;
  Range range;
  if (smallest < 0 && largest > 0) {
    for (double& v : known) v = std::abs(v);
    range.high = rounded_up(quantile(known, 0.998));
    range.low = -range.high;
  } else {
    range.is_signed = false;
    set_round(range, quantile(known, 0.001), quantile(known, 0.999));
  }
  range.clips_low = smallest < range.low;
  range.clips_high = largest > range.high;
  return range;
}

/// @param step of the numbers beside it, from which it must be told
std::string number(double value, double step) {
  char text[32];
  double const digits = std::ceil(std::log10(std::abs(value) / step)) + 1;
  int const shown = digits > 6 ? int(std::min(digits, 12.0)) : 6;
  std::snprintf(text, sizeof text, "%.*g", shown, std::abs(value) < 1e-9 * step ? 0.0 : value);
  std::string result = text;
  if (!result.empty() && result.front() == '-') result.replace(0, 1, "−");
  return result;
}

std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

enum class Align { left, centre, right };

class Painter {
 public:
  Painter(MapPicture const& picture, PictureSize size)
      : picture_(picture),
        projection_(picture),
        surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, size.width, size.height), &cairo_surface_destroy),
        context_(cairo_create(surface_.get()), &cairo_destroy) {
    cairo_set_source_rgb(context_.get(), 1, 1, 1);
    cairo_paint(context_.get());
  }

  void paint(PictureSize size) {
    paint_header();
    double y = header_height;
    for (MapRow const& row : picture_.rows) {
      paint_row(row, y);
      y += heading_height + projection_.panel_height() + ticks_height;
    }
    paint_footer("rmse weighted by cell area", double(size.height) - 20);
  }

  void paint(FieldPicture const& picture, PictureSize size) {
    paint_header();
    double const height = projection_.panel_height();
    for (std::size_t c = 0; c < picture.columns.size(); ++c) {
      FieldColumn const& column = picture.columns[c];
      std::vector<double> all;
      for (auto const& map : column.maps) all.insert(all.end(), map.begin(), map.end());
      Range const range = range_of(all);
      double const x = margin_left + double(c) * (panel_width + bar_space);
      for (std::size_t t = 0; t < picture.times.size(); ++t) {
        double const top = header_height + double(t) * (heading_height + height + ticks_height) + heading_height;
        paint_panel(column.maps[t], range, {x, top, panel_width, height}, column.name + ", " + picture.times[t],
                    c == 0 ? Labels::rows_and_columns : Labels::columns);
        paint_bar(range, {x + panel_width + 16, top, bar_width, height}, pretty_units(column.units));
      }
    }
    paint_footer("", double(size.height) - 20);
  }

  void write(std::filesystem::path const& path) { write_png(surface_.get(), path); }

 private:
  void paint_header() {
    ink(0.10);
    text(picture_.title, margin_left, 42, 24, Align::left, CAIRO_FONT_WEIGHT_BOLD);
    ink(0.35);
    text(picture_.subtitle, margin_left, 70, 16, Align::left);
  }

  void ink(double grey) { cairo_set_source_rgb(context_.get(), grey, grey, grey); }

  void text(std::string const& words, double x, double y, double size, Align align,
            cairo_font_weight_t weight = CAIRO_FONT_WEIGHT_NORMAL) {
    cairo_select_font_face(context_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, weight);
    cairo_set_font_size(context_.get(), size);
    cairo_text_extents_t extents;
    cairo_text_extents(context_.get(), words.c_str(), &extents);
    double const shift = align == Align::left ? 0 : align == Align::centre ? extents.x_advance / 2 : extents.x_advance;
    cairo_move_to(context_.get(), x - shift, y);
    cairo_show_text(context_.get(), words.c_str());
  }

  void paint_row(MapRow const& row, double top) {
    double const height = projection_.panel_height();
    double x = margin_left;
    auto const panel_at = [&](double left) { return Rectangle{left, top + heading_height, panel_width, height}; };

    std::vector<double> difference(row.truth.size());
    std::transform(row.prediction.begin(), row.prediction.end(), row.truth.begin(), difference.begin(), std::minus<>());
    Range const range = range_of(row.truth);
    Range error_range = range_of(difference);
    if (!error_range.is_signed) {
      error_range.is_signed = true;
      error_range.high = std::max(std::abs(error_range.low), std::abs(error_range.high));
      error_range.low = -error_range.high;
    }

    std::string const units = pretty_units(row.units);
    paint_panel(row.truth, range, panel_at(x), row.name + ": truth", Labels::rows_and_columns);
    x += panel_width + panel_gap;
    paint_panel(row.prediction, range, panel_at(x), row.name + ": prediction", Labels::columns);
    x += panel_width;
    paint_bar(range, {x + 16, top + heading_height, bar_width, height}, units);
    x += bar_space;
    std::string const rmse = "rmse " + three_digits(rms(difference)) + (units.empty() ? "" : " " + units);
    paint_panel(difference, error_range, panel_at(x), row.name + ": prediction − truth, " + rmse, Labels::columns);
    x += panel_width;
    paint_bar(error_range, {x + 16, top + heading_height, bar_width, height}, units);
  }

  enum class Labels { columns, rows_and_columns };

  void paint_panel(std::vector<double> const& values, Range const& range, Rectangle const& panel,
                   std::string const& heading, Labels labels) {
    ink(0.10);
    text(heading, panel.x, panel.y - 9, 16, Align::left, CAIRO_FONT_WEIGHT_BOLD);
    paint_cells(values, range, panel);
    paint_rank_boundaries(panel);
    paint_ticks(panel, labels);
    ink(0.25);
    cairo_set_line_width(context_.get(), 1);
    cairo_rectangle(context_.get(), panel.x + 0.5, std::floor(panel.y) + 0.5, panel.width - 1,
                    std::floor(panel.height) - 1);
    cairo_stroke(context_.get());
  }

  void paint_cells(std::vector<double> const& values, Range const& range, Rectangle const& panel) {
    if (values.empty()) return;
    cairo_surface_flush(surface_.get());
    unsigned char* const data = cairo_image_surface_get_data(surface_.get());
    int const stride = cairo_image_surface_get_stride(surface_.get());
    int const height = int(panel.height);
    int const width = int(panel.width);
    std::vector<std::size_t> columns(static_cast<std::size_t>(width));
    for (int i = 0; i < width; ++i) {
      double const longitude = projection_.west + (i + 0.5) / width * (projection_.east - projection_.west);
      columns[std::size_t(i)] = cell_of(projection_.longitude_bounds, longitude);
    }
    for (int j = 0; j < height; ++j) {
      double const latitude = projection_.north - (j + 0.5) / height * (projection_.north - projection_.south);
      std::size_t const row = cell_of(projection_.latitude_bounds, latitude);
      auto* const line = data + std::ptrdiff_t(int(panel.y) + j) * stride + std::ptrdiff_t(panel.x) * 4;
      for (int i = 0; i < width; ++i) {
        Colour const colour = range.colour(values[row * picture_.longitudes.size() + columns[std::size_t(i)]]);
        line[4 * i] = colour.blue;
        line[4 * i + 1] = colour.green;
        line[4 * i + 2] = colour.red;
        line[4 * i + 3] = 255;
      }
    }
    cairo_surface_mark_dirty(surface_.get());
  }

  void line(double x0, double y0, double x1, double y1) {
    cairo_move_to(context_.get(), x0, y0);
    cairo_line_to(context_.get(), x1, y1);
    cairo_stroke(context_.get());
  }

  /// A dark dashed line on a light one: seen on any colour.
  void boundary_line(double x0, double y0, double x1, double y1) {
    std::array<double, 2> const dashes{7, 5};
    cairo_set_source_rgba(context_.get(), 1, 1, 1, 0.75);
    cairo_set_line_width(context_.get(), 2.6);
    line(x0, y0, x1, y1);
    cairo_set_source_rgb(context_.get(), 0.08, 0.08, 0.08);
    cairo_set_line_width(context_.get(), 1.3);
    cairo_set_dash(context_.get(), dashes.data(), 2, 0);
    line(x0, y0, x1, y1);
    cairo_set_dash(context_.get(), nullptr, 0, 0);
  }

  void paint_rank_boundaries(Rectangle const& panel) {
    Layout const& layout = picture_.layout;
    if (picture_.latitudes.empty() || picture_.longitudes.empty()) return;
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      Box const box = layout.owned(rank);
      if (box.empty()) continue;
      double const y0 = projection_.y(projection_.latitude_bounds[std::size_t(box.lo(0))], panel);
      double const y1 = projection_.y(projection_.latitude_bounds[std::size_t(box.hi(0))], panel);
      double const x0 = projection_.x(projection_.longitude_bounds[std::size_t(box.lo(1))], panel);
      double const x1 = projection_.x(projection_.longitude_bounds[std::size_t(box.hi(1))], panel);
      if (box.hi(0) < layout.extent(0)) boundary_line(x0, y1, x1, y1);
      if (box.hi(1) < layout.extent(1)) boundary_line(x1, y0, x1, y1);
      if (layout.num_ranks() > 1 && std::abs(y1 - y0) > 22 && std::abs(x1 - x0) > 60)
        rank_label(rank, std::min(x0, x1) + 7, std::min(y0, y1) + 17);
    }
  }

  void rank_label(int rank, double x, double y) {
    std::string const label = "rank " + std::to_string(rank);
    cairo_select_font_face(context_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(context_.get(), 12);
    cairo_text_extents_t extents;
    cairo_text_extents(context_.get(), label.c_str(), &extents);
    cairo_set_source_rgba(context_.get(), 1, 1, 1, 0.72);
    cairo_rectangle(context_.get(), x - 4, y - 12, extents.x_advance + 8, 16);
    cairo_fill(context_.get());
    ink(0.08);
    text(label, x, y, 12, Align::left);
  }

  static double tick_step(double span) {
    for (double step : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0})
      if (span / step <= 6.5) return step;
    return 90;
  }

  static std::string degrees(double value, char const* positive, char const* negative) {
    double const rounded = std::abs(value) < 1e-9 ? 0.0 : value;
    return number(std::abs(rounded), 1) + "°" + (rounded > 0 ? positive : rounded < 0 ? negative : "");
  }

  static std::string longitude_label(double longitude) {
    double const wrapped = longitude > 180 ? longitude - 360 : longitude < -180 ? longitude + 360 : longitude;
    return std::abs(std::abs(wrapped) - 180) < 1e-9 ? "180°" : degrees(wrapped, "E", "W");
  }

  void paint_ticks(Rectangle const& panel, Labels labels) {
    cairo_set_line_width(context_.get(), 1);
    double const latitude_step = tick_step(projection_.north - projection_.south);
    for (double latitude = std::ceil(projection_.south / latitude_step - 1e-6) * latitude_step;
         latitude <= projection_.north + 1e-6; latitude += latitude_step) {
      double const y = std::clamp(std::round(projection_.y(latitude, panel)), panel.y, panel.y + panel.height) + 0.5;
      ink(0.25);
      line(panel.x - 5, y, panel.x, y);
      if (labels == Labels::rows_and_columns) text(degrees(latitude, "N", "S"), panel.x - 9, y + 4.5, 13, Align::right);
    }
    double const longitude_step = tick_step(projection_.east - projection_.west);
    for (double longitude = std::ceil(projection_.west / longitude_step - 1e-6) * longitude_step;
         longitude <= projection_.east + 1e-6; longitude += longitude_step) {
      double const x =
          std::clamp(std::round(projection_.x(longitude, panel)), panel.x, panel.x + panel.width - 1) + 0.5;
      double const bottom = std::floor(panel.y) + std::floor(panel.height);
      ink(0.25);
      line(x, bottom, x, bottom + 5);
      text(longitude_label(longitude), x, bottom + 19, 13, Align::centre);
    }
  }

  void paint_bar(Range const& range, Rectangle const& bar, std::string const& units) {
    double const tip = 11;
    Rectangle const body{bar.x, bar.y + tip, bar.width, bar.height - 2 * tip};
    for (int j = 0; j < int(body.height); ++j) {
      double const value = range.at(1 - (j + 0.5) / std::floor(body.height));
      fill(range.colour(value), {body.x, std::floor(body.y) + j, body.width, 1});
    }
    double const top = std::floor(body.y);
    double const bottom = top + std::floor(body.height);
    if (range.clips_high) triangle(range.colour(range.high), body.x, top, -tip, body.width);
    if (range.clips_low) triangle(range.colour(range.low), body.x, bottom, tip, body.width);
    ink(0.25);
    cairo_set_line_width(context_.get(), 1);
    cairo_rectangle(context_.get(), body.x + 0.5, top + 0.5, body.width - 1, bottom - top - 1);
    cairo_stroke(context_.get());

    double const step = bar_step(range);
    double const first = std::ceil(range.low / step - 1e-9);
    for (int i = 0; i < most_ticks; ++i) {
      double const value = (first + i) * step;
      if (!(value <= range.high + 1e-9 * step)) break;
      double const y = std::clamp(std::round(top + (1 - range.place(value)) * (bottom - top)), top, bottom - 1) + 0.5;
      ink(0.25);
      line(body.x + body.width, y, body.x + body.width + 4, y);
      text(number(value, step), body.x + body.width + 8, y + 4.5, 13, Align::left);
    }
    ink(0.10);
    text(units, bar.x - 2, bar.y - 9, 14, Align::left);
  }

  static constexpr int most_ticks = 16;

  static double bar_step(Range const& range) {
    double const quarter = range.high / 4 - range.low / 4;
    double const power = std::pow(10.0, std::floor(std::log10(quarter)));
    for (double step : {1.0, 2.0, 2.5, 5.0})
      if (quarter / (step * power) <= 6.5 / 4) return step * power;
    return 10 * power;
  }

  void fill(Colour colour, Rectangle const& area) {
    cairo_set_source_rgb(context_.get(), colour.red / 255.0, colour.green / 255.0, colour.blue / 255.0);
    cairo_rectangle(context_.get(), area.x, area.y, area.width, area.height);
    cairo_fill(context_.get());
  }

  void triangle(Colour colour, double x, double y, double tip, double width) {
    cairo_move_to(context_.get(), x, y);
    cairo_line_to(context_.get(), x + width / 2, y + tip);
    cairo_line_to(context_.get(), x + width, y);
    cairo_close_path(context_.get());
    cairo_set_source_rgb(context_.get(), colour.red / 255.0, colour.green / 255.0, colour.blue / 255.0);
    cairo_fill_preserve(context_.get());
    ink(0.25);
    cairo_set_line_width(context_.get(), 1);
    cairo_stroke(context_.get());
  }

  double rms(std::vector<double> const& values) const {
    double sum = 0;
    double weight = 0;
    std::size_t const columns = picture_.longitudes.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;
      sum += picture_.row_weights[i / columns] * values[i] * values[i];
      weight += picture_.row_weights[i / columns];
    }
    return weight > 0 ? std::sqrt(sum / weight) : std::numeric_limits<double>::quiet_NaN();
  }

  void paint_footer(std::string words, double y) {
    ink(0.35);
    if (picture_.layout.num_ranks() > 1)
      words += (words.empty() ? "" : "; ") + std::string("dashed: boundaries between ranks");
    auto const has_missing = [](MapRow const& row) {
      return std::any_of(row.truth.begin(), row.truth.end(), [](double v) { return std::isnan(v); });
    };
    if (std::any_of(picture_.rows.begin(), picture_.rows.end(), has_missing)) words += "; grey: missing";
    text(words, margin_left, y, 13, Align::left);
  }

  MapPicture const& picture_;
  Projection projection_;
  Surface surface_;
  Context context_;
};

}  // namespace

PictureSize picture_size(MapPicture const& picture) {
  double const width = margin_left + 3 * panel_width + panel_gap + 2 * bar_space + margin_right;
  double const row = heading_height + Projection(picture).panel_height() + ticks_height;
  return {int(width), int(header_height + double(picture.rows.size()) * row + footer_height)};
}

PictureSize picture_size(FieldPicture const& picture) {
  double const width = margin_left + double(picture.columns.size()) * (panel_width + bar_space) + margin_right;
  double const row = heading_height + Projection(picture).panel_height() + ticks_height;
  return {int(width), int(header_height + double(picture.times.size()) * row + footer_height)};
}

void draw_map(MapPicture const& picture, std::filesystem::path const& path) {
  PictureSize const size = picture_size(picture);
  Painter painter(picture, size);
  painter.paint(size);
  painter.write(path);
}

void draw_fields(FieldPicture const& picture, std::filesystem::path const& path) {
  MapPicture const frame{
      picture.title, picture.subtitle, picture.latitudes, picture.longitudes, {}, picture.layout, {}};
  PictureSize const size = picture_size(picture);
  Painter painter(frame, size);
  painter.paint(picture, size);
  painter.write(path);
}

}  // namespace graticule::app
