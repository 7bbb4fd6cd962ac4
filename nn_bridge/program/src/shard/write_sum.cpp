// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "shard/local_builder.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

// Sums of which each rank has a part, and what is made of sums.
namespace graticule::program::detail {

namespace {

// The numbers that the node's result is a mean of, over all ranks.
double count_of(PlannedNode const& node) {
  return static_cast<double>(num_elements(node.shapes.in())) /
         static_cast<double>(std::max<std::int64_t>(1, num_elements(node.shapes.out())));
}

// The sum over the axes that the node names, of another tensor of this rank, over all ranks.
ValueId total_of(LocalBuilder& builder, PlannedNode const& node, ValueId x, bool keep, Dtype dtype) {
  auto const ndim = static_cast<std::int64_t>(node.shapes.in().size());
  std::vector<std::int64_t> all(node.shapes.in().size());
  std::iota(all.begin(), all.end(), 0);
  auto axes = node.shapes.axes("dim", ndim).value_or(all);
  axes = axes.empty() ? all : axes;
  Shape shape;
  for (std::int64_t axis = 0; axis < ndim; ++axis) {
    bool const over = std::ranges::find(axes, axis) != axes.end();
    if (!over || keep) {
      shape.push_back(over ? 1 : builder.shape(x)[static_cast<std::size_t>(axis)]);
    }
  }
  Inputs inputs{tensor_input("self", x), input_of("dim", axes), input_of("keepdim", keep)};
  if (Argument const* type = node.node.input("dtype")) {
    inputs.push_back(input_of("dtype", *type));
  }
  return builder.summed(builder.emit("aten.sum.dim_IntList", std::move(inputs), shape, dtype));
}

ValueId divided(LocalBuilder& builder, ValueId x, double by) {
  return builder.emit("aten.div.Scalar", {tensor_input("self", x), input_of("other", by)}, builder.shape(x),
                      builder.dtype(x));
}

// What is subtracted from the count in a variance.
double correction_of(PlannedNode const& node) {
  Argument const* const given = node.node.input("correction");
  if (given != nullptr) {
    if (auto const* whole = std::get_if<std::int64_t>(given)) {
      return static_cast<double>(*whole);
    }
    if (auto const* real = std::get_if<double>(given)) {
      return *real;
    }
    return 1;
  }
  return node.shapes.flag("unbiased", true) ? 1 : 0;
}

// In two passes: the sum of squared deviations from the mean loses no digits.
ValueId write_variance(LocalBuilder& builder, PlannedNode& node) {
  ValueId const x = node.tensors.at(0);
  Dtype const dtype = builder.dtype(x);
  ValueId const mean = divided(builder, total_of(builder, node, x, true, dtype), count_of(node));
  ValueId const deviation =
      builder.emit("aten.sub.Tensor", {tensor_input("self", x), tensor_input("other", mean)}, builder.shape(x), dtype);
  ValueId const square = builder.emit(
      "aten.mul.Tensor", {tensor_input("self", deviation), tensor_input("other", deviation)}, builder.shape(x), dtype);
  ValueId const total = total_of(builder, node, square, node.shapes.flag("keepdim", false), dtype);
  return divided(builder, total, std::max(0.0, count_of(node) - correction_of(node)));
}

}  // namespace

ValueId write_sum(LocalBuilder& builder, PlannedNode& node) {
  std::string_view const name = node.name();
  Dtype const dtype = node.shapes.rule.results.empty() ? Dtype::f32 : builder.result_dtype(node);
  if (name == "mean") {
    return divided(builder, total_of(builder, node, node.tensors.at(0), node.shapes.flag("keepdim", false), dtype),
                   count_of(node));
  }
  if (name == "var") {
    return write_variance(builder, node);
  }
  return builder.summed(builder.emit(node.node.target, node.node.inputs, node.local, dtype));
}

}  // namespace graticule::program::detail
