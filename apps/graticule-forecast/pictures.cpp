// SPDX-License-Identifier: BSD-3-Clause
#include "png.hpp"
#include "run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>

namespace graticule::forecast {
namespace {

constexpr double chart_width = 460;
constexpr double chart_height = 330;
constexpr double margin_left = 84;
constexpr double margin_right = 22;
constexpr double margin_top = 40;
constexpr double margin_bottom = 58;
constexpr double header = 64;
constexpr double scale = 2;  // pixels per unit
constexpr int most_columns = 3;

struct Rgb {
  double red, green, blue;
};
/// Distinct also for those who do not see red or green (Okabe and Ito 2008).
constexpr std::array<Rgb, 4> colours{Rgb{0.00, 0.45, 0.70}, Rgb{0.84, 0.37, 0.00}, Rgb{0.40, 0.40, 0.40},
                                     Rgb{0.00, 0.62, 0.45}};

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string tick_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// About five round numbers.
double tick_step(double span) {
  double const power = std::pow(10.0, std::floor(std::log10(span / 5)));
  for (double const factor : {1.0, 2.0, 5.0})
    if (span / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

class Painter {
 public:
  Painter(int columns, int rows)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, int(scale * (columns * chart_width)),
                                            int(scale * (header + rows * chart_height))),
                 &cairo_surface_destroy),
        cr_(cairo_create(surface_.get()), &cairo_destroy) {
    cairo_scale(cr_.get(), scale, scale);
    cairo_set_source_rgb(cr_.get(), 1, 1, 1);
    cairo_paint(cr_.get());
  }

  /// Smaller where the picture is narrow.
  void title(std::string const& text, int columns) {
    constexpr double size = 17;
    cairo_select_font_face(cr_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cr_.get(), size);
    cairo_text_extents_t extents;
    cairo_text_extents(cr_.get(), text.c_str(), &extents);
    double const room = columns * chart_width - margin_left - margin_right;
    write(text, margin_left, 34, size * std::min(1.0, room / extents.x_advance), CAIRO_FONT_WEIGHT_BOLD, 0);
  }

  void chart(Chart const& chart, double left, double top) {
    x0_ = left + margin_left;
    y0_ = top + margin_top;
    width_ = chart_width - margin_left - margin_right;
    height_ = chart_height - margin_top - margin_bottom;
    is_logarithmic_ = chart.is_logarithmic;
    find_bounds(chart);
    write(chart.title, x0_, top + 26, 13, CAIRO_FONT_WEIGHT_BOLD, 0);
    axes(chart);
    for (Curve const& curve : chart.curves) draw(curve);
    legend(chart);
  }

  void save(std::filesystem::path const& path) { app::write_png(surface_.get(), path); }

 private:
  void find_bounds(Chart const& chart) {
    x_ = {};
    y_ = {};
    for (Curve const& curve : chart.curves) {
      for (double const value : curve.x) x_.add(transformed(value));
      for (double const value : curve.y) y_.add(transformed(value));
    }
    if (!(x_.low <= x_.high)) x_ = y_ = {0, 1};
    if (is_logarithmic_) {
      y_.low = std::max(std::floor(y_.low), y_.high - 12);
      y_.high = std::ceil(y_.high);
    } else {
      y_.low = 0;
      y_.high *= 1.35;  // room for the legend
      x_.high += 0.03 * std::abs(x_.high);
      if (x_.low > 0) x_.low = 0;
    }
    if (!(x_.high > x_.low)) x_.high = x_.low + 1;
    if (!(y_.high > y_.low)) y_.high = y_.low + 1;
  }
  [[nodiscard]] double transformed(double value) const { return is_logarithmic_ ? std::log10(value) : value; }
  [[nodiscard]] double px(double value) const {
    return x0_ + (transformed(value) - x_.low) / (x_.high - x_.low) * width_;
  }
  [[nodiscard]] double py(double value) const {
    return y0_ + height_ - (transformed(value) - y_.low) / (y_.high - y_.low) * height_;
  }

  void axes(Chart const& chart) {
    for (double const tick : ticks(x_)) {
      rule(px(tick), y0_, px(tick), y0_ + height_);
      write(tick_text(tick), px(tick), y0_ + height_ + 17, 11, CAIRO_FONT_WEIGHT_NORMAL, 0.5);
    }
    for (double const tick : ticks(y_)) {
      rule(x0_, py(tick), x0_ + width_, py(tick));
      write(tick_text(tick), x0_ - 7, py(tick) + 4, 11, CAIRO_FONT_WEIGHT_NORMAL, 1);
    }
    cairo_set_source_rgb(cr_.get(), 0.25, 0.25, 0.25);
    cairo_set_line_width(cr_.get(), 1);
    cairo_rectangle(cr_.get(), x0_, y0_, width_, height_);
    cairo_stroke(cr_.get());
    write(chart.x_label, x0_ + width_ / 2, y0_ + height_ + 38, 12, CAIRO_FONT_WEIGHT_NORMAL, 0.5);
    cairo_save(cr_.get());
    cairo_translate(cr_.get(), x0_ - 58, y0_ + height_ / 2);
    cairo_rotate(cr_.get(), -1.5707963267948966);
    write(chart.y_label, 0, 0, 12, CAIRO_FONT_WEIGHT_NORMAL, 0.5);
    cairo_restore(cr_.get());
  }

  [[nodiscard]] std::vector<double> ticks(Bounds const& bounds) const {
    std::vector<double> ticks;
    if (is_logarithmic_) {
      double const step = std::max(1.0, std::ceil((bounds.high - bounds.low) / 6));
      for (double power = std::ceil(bounds.low - 1e-9); power <= bounds.high + 1e-9; power += step)
        ticks.push_back(std::pow(10.0, power));
      return ticks;
    }
    double const step = tick_step(bounds.high - bounds.low);
    for (double tick = std::ceil(bounds.low / step - 1e-9) * step; tick <= bounds.high * (1 + 1e-9); tick += step)
      ticks.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
    return ticks;
  }

  void rule(double x0, double y0, double x1, double y1) {
    cairo_set_source_rgb(cr_.get(), 0.88, 0.88, 0.88);
    cairo_set_line_width(cr_.get(), 0.8);
    cairo_move_to(cr_.get(), x0, y0);
    cairo_line_to(cr_.get(), x1, y1);
    cairo_stroke(cr_.get());
  }

  void pen(Curve const& curve) {
    auto const colour = colours[std::size_t(curve.colour) % colours.size()];
    cairo_set_source_rgb(cr_.get(), colour.red, colour.green, colour.blue);
    cairo_set_line_width(cr_.get(), 2);
    std::array<double, 2> const dashes{6, 4};
    cairo_set_dash(cr_.get(), dashes.data(), curve.is_dashed ? 2 : 0, 0);
  }

  void draw(Curve const& curve) {
    cairo_save(cr_.get());
    cairo_rectangle(cr_.get(), x0_, y0_ - 1, width_, height_ + 2);
    cairo_clip(cr_.get());
    pen(curve);
    for (std::size_t i = 0; i < curve.x.size(); ++i)
      i == 0 ? cairo_move_to(cr_.get(), px(curve.x[i]), py(curve.y[i]))
             : cairo_line_to(cr_.get(), px(curve.x[i]), py(curve.y[i]));
    cairo_stroke(cr_.get());
    cairo_set_dash(cr_.get(), nullptr, 0, 0);
    for (std::size_t i = 0; i < curve.x.size() && curve.x.size() <= 24; ++i) {
      cairo_arc(cr_.get(), px(curve.x[i]), py(curve.y[i]), 3, 0, 6.3);
      cairo_fill(cr_.get());
    }
    cairo_restore(cr_.get());
  }

  /// At the top in two columns for scores, at the bottom left for spectra, which fall.
  void legend(Chart const& chart) {
    for (std::size_t i = 0; i < chart.curves.size(); ++i) {
      double const x = x0_ + 14 + (is_logarithmic_ ? 0 : double(i % 2) * 150);
      double const y = is_logarithmic_ ? y0_ + height_ - 10 - 17 * double(chart.curves.size() - 1 - i)
                                       : y0_ + 20 + 17 * double(i / 2);
      cairo_save(cr_.get());
      pen(chart.curves[i]);
      cairo_move_to(cr_.get(), x, y - 4);
      cairo_line_to(cr_.get(), x + 30, y - 4);
      cairo_stroke(cr_.get());
      cairo_restore(cr_.get());
      write(chart.curves[i].name, x + 38, y, 11, CAIRO_FONT_WEIGHT_NORMAL, 0);
    }
  }

  /// @param anchor 0: begins at x, 0.5: centred, 1: ends there
  void write(std::string const& text, double x, double y, double size, cairo_font_weight_t weight, double anchor) {
    cairo_select_font_face(cr_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, weight);
    cairo_set_font_size(cr_.get(), size);
    cairo_set_source_rgb(cr_.get(), 0.1, 0.1, 0.1);
    cairo_text_extents_t extents;
    cairo_text_extents(cr_.get(), text.c_str(), &extents);
    cairo_move_to(cr_.get(), x - anchor * extents.x_advance, y);
    cairo_show_text(cr_.get(), text.c_str());
  }

  std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface_;
  std::unique_ptr<cairo_t, decltype(&cairo_destroy)> cr_;
  Bounds x_;
  Bounds y_;
  double x0_ = 0;
  double y0_ = 0;
  double width_ = 0;
  double height_ = 0;
  bool is_logarithmic_ = false;
};

}  // namespace

void draw_charts(std::string const& title, std::vector<Chart> const& charts, std::filesystem::path const& path) {
  int const columns = std::max(1, std::min(most_columns, int(charts.size())));
  Painter painter(columns, (int(charts.size()) + columns - 1) / columns);
  painter.title(title, columns);
  for (std::size_t i = 0; i < charts.size(); ++i)
    painter.chart(charts[i], double(int(i) % columns) * chart_width, header + double(int(i) / columns) * chart_height);
  painter.save(path);
}

}  // namespace graticule::forecast
