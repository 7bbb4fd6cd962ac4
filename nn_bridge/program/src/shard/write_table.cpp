// SPDX-License-Identifier: BSD-3-Clause
#include "layout/pull.hpp"
#include "shard/local_builder.hpp"

#include <algorithm>

// Operators that take rows from other places: the rows came in order, so the operator does nothing along that axis.
namespace graticule::program::detail {

namespace {

ValueId write_roll(LocalBuilder& builder, PlannedNode& node) {
  auto const axes = node.shapes.axes("dims", node.shapes.ndim());
  auto const shifts = node.shapes.integers("shifts", axes.size(), 0);
  std::vector<std::int64_t> other_axes;
  std::vector<std::int64_t> other_shifts;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != node.axis) {
      other_axes.push_back(axes[i]);
      other_shifts.push_back(shifts[i]);
    }
  }
  ValueId const x = node.tensors.at(0);
  return other_axes.empty()
             ? x
             : builder.apply("aten.roll.default", x, {input_of("shifts", other_shifts), input_of("dims", other_axes)},
                             node.local);
}

ValueId flipped(LocalBuilder& builder, ValueId x, std::vector<std::int64_t> const& axes) {
  return axes.empty() ? x : builder.apply("aten.flip.default", x, {input_of("dims", axes)});
}

ValueId write_flip(LocalBuilder& builder, PlannedNode& node) {
  auto axes = node.shapes.axes("dims", node.shapes.ndim());
  std::erase(axes, node.axis);
  return flipped(builder, node.tensors.at(0), axes);
}

// One turn is a flip along b, two one along both, three one along a; an odd number exchanges the axes then.
ValueId write_turn(LocalBuilder& builder, PlannedNode& node) {
  auto const axes = node.shapes.axes("dims", node.shapes.ndim(), {0, 1});
  std::int64_t const turns = ((node.shapes.integer("k", 1) % 4) + 4) % 4;
  std::int64_t const a = axes.at(0);
  std::int64_t const b = axes.at(1);
  bool const odd = turns % 2 == 1;
  std::vector<std::int64_t> flips;
  if (turns == 1 || turns == 2) {
    flips.push_back(b);
  }
  if (turns == 2 || turns == 3) {
    flips.push_back(a);
  }
  std::erase(flips, !odd ? node.axis : node.axis == a ? b : node.axis == b ? a : -1);
  ValueId const x = flipped(builder, node.tensors.at(0), flips);
  return odd ? builder.apply("aten.transpose.int", x, {input_of("dim0", a), input_of("dim1", b)}, node.local) : x;
}

ValueId write_pad(LocalBuilder& builder, PlannedNode& node) {
  std::string const name = node.shapes.has("padding") ? "padding" : "pad";
  auto widths = node.shapes.integers(name, 2, 0);
  std::size_t const from_last = index(node.shapes.ndim() - 1 - node.axis);
  widths.at(2 * from_last) = 0;
  widths.at(2 * from_last + 1) = 0;
  ValueId const x = node.tensors.at(0);
  if (std::ranges::all_of(widths, [](std::int64_t width) { return width == 0; })) {
    return x;
  }
  set_input(node.node, name, widths);
  return builder.emit(node.node.target, node.node.inputs, node.local, builder.dtype(x));
}

ValueId write_cat(LocalBuilder& builder, PlannedNode& node) {
  Tensors parts;
  for (ValueId const tensor : node.tensors) {
    parts.push_back({tensor});
  }
  return builder.emit("aten.cat.default", {input_of("tensors", parts), input_of("dim", node.axis)}, node.local,
                      builder.result_dtype(node));
}

}  // namespace

ValueId write_table(LocalBuilder& builder, PlannedNode& node) {
  std::string_view const name = node.name();
  if (name == "roll") {
    return write_roll(builder, node);
  }
  if (name == "flip") {
    return write_flip(builder, node);
  }
  if (name == "rot90") {
    return write_turn(builder, node);
  }
  if (name == "slice" || name == "narrow") {
    return node.tensors.at(0);
  }
  return name == "cat" || name == "concat" || name == "concatenate" ? write_cat(builder, node)
                                                                    : write_pad(builder, node);
}

}  // namespace graticule::program::detail
