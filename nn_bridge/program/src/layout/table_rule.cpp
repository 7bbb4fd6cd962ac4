// SPDX-License-Identifier: BSD-3-Clause
#include "node_shapes.hpp"

#include <algorithm>
#include <string>

namespace graticule::program::detail {

namespace {

void keep_all(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    shapes.cut_alike(axis, shapes.of_all(axis));
  }
}

// Along the axis, cells of the tensors' axis `from`.
void set_table(NodeShapes& shapes, std::int64_t axis, PullTable table, std::int64_t from) {
  shapes.at(axis) = {RunMode::table, shapes.of_all(from), std::move(table), {}};
}
void set_table(NodeShapes& shapes, std::int64_t axis, PullTable table) {
  set_table(shapes, axis, std::move(table), axis);
}

std::int64_t extent(NodeShapes const& shapes, std::int64_t axis) { return shapes.in().at(index(axis)); }

PadMode mode_of(NodeShapes const& shapes) {
  std::string_view const name = shapes.operator_name();
  if (name.starts_with("reflection")) {
    return PadMode::reflect;
  }
  if (name.starts_with("replication")) {
    return PadMode::replicate;
  }
  return pad_mode(shapes.text("mode", "constant"));
}

}  // namespace

void roll_rule(NodeShapes& shapes) {
  auto const axes = shapes.axes("dims", shapes.ndim());
  if (axes.empty()) {
    return;  // of the flattened tensor: on the whole
  }
  auto const shifts = shapes.integers("shifts", axes.size(), 0);
  keep_all(shapes);
  for (std::int64_t const axis : axes) {
    std::int64_t shift = 0;  // an axis may be named twice
    for (std::size_t i = 0; i < axes.size(); ++i) {
      shift += axes[i] == axis ? shifts[i] : 0;
    }
    set_table(shapes, axis, roll_table(extent(shapes, axis), shift));
  }
}

void flip_rule(NodeShapes& shapes) {
  keep_all(shapes);
  for (std::int64_t const axis : shapes.axes("dims", shapes.ndim())) {
    set_table(shapes, axis, flip_table(extent(shapes, axis)));
  }
}

// A quarter turn from axis a to axis b: result[i, j] = tensor[j, n - 1 - i].
void rot90_rule(NodeShapes& shapes) {
  auto const axes = shapes.axes("dims", shapes.ndim(), {0, 1});
  std::int64_t const turns = ((shapes.integer("k", 1) % 4) + 4) % 4;
  keep_all(shapes);
  std::int64_t const a = axes.at(0);
  std::int64_t const b = axes.at(1);
  auto const set = [&](std::int64_t axis, std::int64_t from, bool flipped) {
    std::int64_t const rows = extent(shapes, from);
    set_table(shapes, axis, flipped ? flip_table(rows) : slice_table(0, rows, 1), from);
  };
  if (turns == 1) {
    set(a, b, true);
    set(b, a, false);
  } else if (turns == 2) {
    set(a, a, true);
    set(b, b, true);
  } else if (turns == 3) {
    set(a, b, false);
    set(b, a, true);
  }
}

void pad_rule(NodeShapes& shapes) {
  auto const widths = shapes.integers(shapes.has("padding") ? "padding" : "pad", 2, 0);
  PadMode const mode = mode_of(shapes);
  keep_all(shapes);
  for (std::size_t i = 0; 2 * i + 1 < widths.size(); ++i) {
    std::int64_t const axis = shapes.ndim() - 1 - static_cast<std::int64_t>(i);
    std::int64_t const lower = widths[2 * i];
    std::int64_t const upper = widths[2 * i + 1];
    std::int64_t const kept = extent(shapes, axis) + std::min<std::int64_t>(std::min(lower, upper), 0);
    if (mode == PadMode::circular && std::max(lower, upper) > kept && std::max(lower, upper) > 0) {
      shapes.refuse("circular padding by " + std::to_string(lower) + " and " + std::to_string(upper) + " of " +
                    std::to_string(extent(shapes, axis)) +
                    " cells goes round what the crop leaves more than once; crop and pad in two calls");
    }
    if (lower != 0 || upper != 0) {
      set_table(shapes, axis, pad_table(extent(shapes, axis), lower, upper, mode));
    }
  }
}

void slice_rule(NodeShapes& shapes) {
  std::int64_t const axis = shapes.axis("dim", 0, shapes.ndim());
  std::int64_t const rows = extent(shapes, axis);
  auto const place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rows : at, 0, rows); };
  bool const narrow = shapes.operator_name() == "narrow";
  std::int64_t const begin = place(shapes.integer("start", 0));
  std::int64_t const end = narrow ? begin + shapes.integer("length", 0) : place(shapes.integer("end", rows));
  keep_all(shapes);
  if (begin != 0 || end != rows || shapes.integer("step", 1) != 1) {
    set_table(shapes, axis, slice_table(begin, end, shapes.integer("step", 1)));
  }
}

void cat_rule(NodeShapes& shapes) {
  std::int64_t const axis = shapes.axis("dim", 0, shapes.ndim());
  std::vector<std::int64_t> extents;
  for (Shape const& shape : shapes.rule.shapes) {
    if (shape.size() != shapes.out().size()) {
      return;  // one without cells among them: on the whole
    }
    extents.push_back(shape[index(axis)]);
  }
  keep_all(shapes);
  set_table(shapes, axis, cat_table(extents));
}

// Results with one axis more (stack) or less (select, unbind) than the tensors.
void stack_rule(NodeShapes& shapes) {
  std::int64_t const axis = shapes.axis("dim", 0, shapes.ndim());
  for (std::int64_t a = 0; a < shapes.ndim(); ++a) {
    if (a != axis) {
      shapes.cut_alike(a, shapes.of_all(a - (a > axis ? 1 : 0)));
    }
  }
}

void select_rule(NodeShapes& shapes) {
  std::int64_t const axis = shapes.axis("dim", 0, shapes.ndim() + 1);
  for (std::int64_t a = 0; a < shapes.ndim(); ++a) {
    shapes.cut_alike(a, shapes.of_all(a + (a >= axis ? 1 : 0)));
  }
}

// A tensor with an interval of one axis, or an index, from another; along that axis every rank needs all of it.
void scatter_rule(NodeShapes& shapes) {
  std::int64_t const axis = shapes.axis("dim", 0, shapes.ndim());
  bool const gone = shapes.operator_name() == "select_scatter";
  keep_all(shapes);
  for (std::int64_t a = axis; gone && a < shapes.ndim(); ++a) {
    shapes.at(a).axes.at(1) = a - 1;
  }
  shapes.at(axis) = {};
}

void split_rule(NodeShapes& shapes) {
  std::int64_t const axis = shapes.axis("dim", 0, shapes.ndim());
  keep_all(shapes);
  shapes.at(axis) = {};
}

}  // namespace graticule::program::detail
