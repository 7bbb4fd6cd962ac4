// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/division.hpp>

#include "node_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace graticule::program::detail {

namespace {

using graticule::detail::floor_div;
using Window = std::pair<std::int64_t, std::int64_t>;

// Convolution or pooling along one axis.
struct Stencil {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  [[nodiscard]] std::int64_t reach() const { return (size - 1) * dilation + 1; }
};

void set_windows(AxisRule& rule, std::int64_t extent, auto const& window) {
  rule.mode = RunMode::window;
  for (std::int64_t row = 0; row < extent; ++row) {
    rule.windows.push_back(window(row));
  }
}

void set_stencil(AxisRule& rule, std::int64_t extent, Stencil const& stencil) {
  if (stencil.size == 1 && stencil.stride == 1 && stencil.padding == 0) {
    rule.mode = RunMode::same;
    return;
  }
  set_windows(rule, extent, [&](std::int64_t row) {
    std::int64_t const lo = row * stencil.stride - stencil.padding;
    return Window{lo, lo + stencil.reach()};
  });
}

// Rows i with row = i * stride - padding + j * dilation for a j below the size.
void set_transposed(AxisRule& rule, std::int64_t extent, std::int64_t rows, Stencil const& stencil) {
  set_windows(rule, extent, [&](std::int64_t row) {
    std::int64_t const last = row + stencil.padding;
    std::int64_t const lo = floor_div(last - stencil.reach() + stencil.stride, stencil.stride);
    std::int64_t const hi = floor_div(last, stencil.stride) + 1;
    return Window{std::clamp<std::int64_t>(lo, 0, rows), std::clamp<std::int64_t>(hi, 0, rows)};
  });
}

std::size_t spatial_axes(std::string_view name) {
  return name.find("1d") != std::string_view::npos ? 1 : name.find("3d") != std::string_view::npos ? 3 : 2;
}

// Row i of n covers [floor(i * rows / n), ceil((i + 1) * rows / n)).
void set_adaptive(AxisRule& rule, std::int64_t extent, std::int64_t rows) {
  set_windows(rule, extent, [&](std::int64_t row) {
    return Window{row * rows / extent, ((row + 1) * rows + extent - 1) / extent};
  });
}

// Rows of the tensor that a row of a resized one depends on, whatever the rounding of the scale.
Window resized(std::string_view name, std::int64_t row, std::int64_t from, double scale, bool corners) {
  double const rounding = 1e-3;
  bool const nearest = name.find("nearest") != std::string_view::npos;
  bool const centers = !corners && (!nearest || name.find("exact") != std::string_view::npos);
  double const at =
      centers ? (static_cast<double>(row) + 0.5) * scale - (nearest ? 0 : 0.5) : static_cast<double>(row) * scale;
  auto lo = static_cast<std::int64_t>(std::floor(at - rounding));
  auto hi = static_cast<std::int64_t>(std::floor(at + rounding)) + (nearest ? 1 : 2);
  if (name.find("bicubic") != std::string_view::npos) {
    lo -= 1;
    hi += 1;
  }
  lo = std::clamp<std::int64_t>(lo, 0, from - 1);
  return {lo, std::clamp<std::int64_t>(hi, lo + 1, from)};
}

// Rows of the tensor per row of the result: by the sizes, unless the node gives its inverse.
double scale_of(NodeShapes const& shapes, std::size_t axis, bool corners) {
  auto const from = static_cast<double>(shapes.in()[axis]);
  auto const to = static_cast<double>(shapes.out()[axis]);
  if (corners) {
    return to > 1 ? (from - 1) / (to - 1) : 0;
  }
  std::size_t const i = axis - 2;
  std::size_t const spatial = shapes.out().size() - 2;
  static constexpr std::array<std::string_view, 3> names{"scales_d", "scales_h", "scales_w"};
  if (auto const* list = std::get_if<std::vector<double>>(shapes.node().input("scale_factors"));
      list != nullptr && i < list->size() && (*list)[i] > 0) {
    return 1 / (*list)[i];
  }
  auto const name = spatial > 3 ? "" : spatial == 1 ? std::string_view("scales") : names[3 - spatial + i];
  auto const* const factor = std::get_if<double>(shapes.node().input(name));
  return factor != nullptr && *factor > 0 ? 1 / *factor : from / to;
}

}  // namespace

void convolution_rule(NodeShapes& shapes) {
  std::string_view const name = shapes.operator_name();
  bool const transposed = name.starts_with("conv_transpose") || shapes.flag("transposed", false);
  Shape const& weight = shapes.in(1);
  std::size_t const spatial = weight.size() - 2;
  if (shapes.in().size() != weight.size()) {
    return;  // without a batch: on the whole
  }
  auto const stride = shapes.integers("stride", spatial, 1);
  auto const dilation = shapes.integers("dilation", spatial, 1);
  auto padding = shapes.integers("padding", spatial, 0);
  bool const same = shapes.text("padding", "") == "same";
  shapes.cut_alike(0, shapes.of_first(0));
  if (!transposed && shapes.integer("groups", 1) == 1) {
    // Output channels follow the weights' first axis, for which the tensor is needed whole.
    auto channels = shapes.of_all(0);
    channels[0] = -1;
    shapes.cut_alike(1, std::move(channels));
  }
  std::vector<std::int64_t> reaches;
  for (std::size_t i = 0; i < spatial; ++i) {
    reaches.push_back((weight[i + 2] - 1) * dilation[i] + 1);
  }
  for (std::size_t i = 0; i < spatial; ++i) {
    AxisRule& rule = shapes.rule.axes[i + 2];
    rule.axes = shapes.of_first(static_cast<std::int64_t>(i + 2));
    Stencil stencil{weight[i + 2], stride[i], padding[i], dilation[i]};
    if (same) {
      stencil.padding = (stencil.reach() - 1) / 2;
    }
    if (same && std::ranges::any_of(reaches, [](std::int64_t reach) { return reach % 2 == 0; })) {
      rule.mode = RunMode::whole;  // one side is padded more than the other
      continue;
    }
    if (transposed) {
      set_transposed(rule, shapes.out()[i + 2], shapes.in()[i + 2], stencil);
    } else {
      set_stencil(rule, shapes.out()[i + 2], stencil);
    }
  }
  std::int64_t const products = num_elements(weight) / std::max<std::int64_t>(1, weight[transposed ? 1 : 0]);
  // Cells of a transposed one are made from their group, and only by what is a multiple of the stride away.
  std::int64_t apart = transposed ? shapes.integer("groups", 1) : 1;
  for (std::size_t i = 0; transposed && i < spatial; ++i) {
    apart *= stride[i];
  }
  shapes.rule.operations = std::max<std::int64_t>(1, 2 * products / std::max<std::int64_t>(1, apart));
}

void pooling_rule(NodeShapes& shapes) {
  std::size_t const spatial = spatial_axes(shapes.operator_name());
  auto const sizes = shapes.integers("kernel_size", spatial, 1);
  auto const stride = shapes.integers("stride", spatial, 0);
  auto const padding = shapes.integers("padding", spatial, 0);
  auto const dilation = shapes.integers("dilation", spatial, 1);
  std::size_t const first = shapes.out().size() - spatial;
  for (std::size_t axis = 0; axis < shapes.out().size(); ++axis) {
    AxisRule& rule = shapes.rule.axes[axis];
    rule.mode = RunMode::same;
    rule.axes = shapes.of_first(static_cast<std::int64_t>(axis));
    if (axis < first) {
      continue;
    }
    std::size_t const i = axis - first;
    if (shapes.operator_name().find("adaptive") != std::string_view::npos) {
      set_adaptive(rule, shapes.out()[axis], shapes.in()[axis]);
      continue;
    }
    bool const average = shapes.operator_name().starts_with("avg");
    bool const counts_padding = shapes.flag("count_include_pad", true) || padding[i] == 0;
    if (average && (!counts_padding || shapes.flag("ceil_mode", false))) {
      rule.mode = RunMode::whole;  // the divisor differs from row to row
      continue;
    }
    bool const given = i < stride.size() && stride[i] > 0;
    set_stencil(rule, shapes.out()[axis], {sizes[i], given ? stride[i] : sizes[i], padding[i], dilation[i]});
  }
}

void resizing_rule(NodeShapes& shapes) {
  std::string_view const name = shapes.operator_name();
  bool const corners = shapes.flag("align_corners", false);
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    shapes.cut_alike(axis, shapes.of_first(axis));
    if (axis >= 2) {
      double const scale = scale_of(shapes, index(axis), corners);
      set_windows(shapes.at(axis), shapes.out()[index(axis)],
                  [&](std::int64_t row) { return resized(name, row, shapes.in()[index(axis)], scale, corners); });
    }
  }
}

}  // namespace graticule::program::detail
