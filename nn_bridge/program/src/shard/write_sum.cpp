// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "shard/local_builder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

// Sums of which each rank has a part, and what is made of sums.
namespace graticule::program::detail {

namespace {

// The numbers that the node's result is a mean of, over all ranks.
double count_of(PlannedNode const& node) {
  return static_cast<double>(num_elements(node.shapes.in())) /
         static_cast<double>(std::max<std::int64_t>(1, num_elements(node.shapes.out())));
}

// The axes that the node names, or all.
std::vector<std::int64_t> axes_over(PlannedNode const& node) {
  std::vector<std::int64_t> all(node.shapes.in().size());
  std::iota(all.begin(), all.end(), 0);
  auto const axes = node.shapes.axes("dim", static_cast<std::int64_t>(all.size())).value_or(all);
  return axes.empty() ? all : axes;
}

// The shape of the tensor with these axes gone, or of extent 1.
Shape reduced(Shape const& whole, std::vector<std::int64_t> const& axes, bool keep) {
  Shape shape;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    bool const over = std::ranges::find(axes, static_cast<std::int64_t>(axis)) != axes.end();
    if (!over || keep) {
      shape.push_back(over ? 1 : whole[axis]);
    }
  }
  return shape;
}

// The sum over the axes that the node names, of another tensor of this rank, over all ranks.
ValueId total_of(LocalBuilder& builder, PlannedNode const& node, ValueId x, bool keep, Dtype dtype) {
  auto const axes = axes_over(node);
  Shape const shape = reduced(builder.shape(x), axes, keep);
  Inputs inputs{tensor_input("self", x), input_of("dim", axes), input_of("keepdim", keep)};
  if (dtype != builder.dtype(x)) {
    inputs.push_back(input_of("dtype", dtype));
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

// Of tensors with the same number of axes, extents of 1 repeated.
ValueId binary(LocalBuilder& builder, std::string const& target, ValueId a, ValueId b, Dtype dtype) {
  Shape shape = builder.shape(a);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    shape[axis] = shape[axis] == 1 ? builder.shape(b).at(axis) : shape[axis];
  }
  return builder.emit(target, {tensor_input("self", a), tensor_input("other", b)}, shape, dtype);
}

ValueId unary(LocalBuilder& builder, std::string const& target, ValueId x) {
  return builder.emit(target, {tensor_input("self", x)}, builder.shape(x), builder.dtype(x));
}

// The value without the axes that are kept with extent 1, unless the node keeps them.
ValueId as_result(LocalBuilder& builder, PlannedNode const& node, ValueId x, std::size_t result = 0) {
  Shape const& shape = node.shapes.rule.result_shapes.at(result);
  return builder.shape(x) == shape
             ? x
             : builder.emit("aten.reshape.default", {tensor_input("self", x), input_of("shape", shape)}, shape,
                            builder.dtype(x));
}

// Sums of f16 leave its range, and those of bf16 its digits, before they are divided; LibTorch's own have more of both.
Dtype type_of_sums(LocalBuilder const& builder, Dtype dtype) {
  auto const type = builder.conversion()(dtype);
  return type == torch::kHalf || type == torch::kBFloat16 ? Dtype::f64 : dtype;
}

ValueId converted(LocalBuilder& builder, ValueId x, Dtype dtype) {
  return builder.dtype(x) == dtype
             ? x
             : builder.emit("aten._to_copy.default", {tensor_input("self", x), input_of("dtype", dtype)},
                            builder.shape(x), dtype);
}

ValueId mean_of(LocalBuilder& builder, PlannedNode const& node, ValueId x, Dtype dtype) {
  ValueId const total = total_of(builder, node, x, true, type_of_sums(builder, dtype));
  return converted(builder, divided(builder, total, count_of(node)), dtype);
}

// Deviations from the mean, and the number that their squares are divided by. In two passes no digits are lost.
ValueId deviations(LocalBuilder& builder, PlannedNode const& node, ValueId mean) {
  return binary(builder, "aten.sub.Tensor", node.tensors.at(0), mean, builder.dtype(node.tensors[0]));
}

double degrees_of_freedom(PlannedNode const& node) { return std::max(0.0, count_of(node) - correction_of(node)); }

ValueId variance_of(LocalBuilder& builder, PlannedNode const& node, ValueId mean) {
  ValueId const deviation = deviations(builder, node, mean);
  ValueId const square = binary(builder, "aten.mul.Tensor", deviation, deviation, builder.dtype(deviation));
  return divided(builder, total_of(builder, node, square, true, builder.dtype(square)), degrees_of_freedom(node));
}

// Norms of this rank's parts, of all ranks, and their norm. Its gradient is 0 where all values are 0, as LibTorch's.
ValueId norm_of(LocalBuilder& builder, PlannedNode const& node, ValueId x, Argument const& order, Dtype dtype) {
  auto const axes = axes_over(node);
  Shape const shape = reduced(builder.shape(x), axes, true);
  // The norm of no values is 0, of any order; LibTorch computes it for finite orders alone.
  Argument const own_order = num_elements(builder.shape(x)) > 0 ? order : Argument(2.0);
  ValueId const own = builder.emit(
      "aten.linalg_vector_norm.default",
      {tensor_input("self", x), input_of("ord", own_order), input_of("dim", axes), input_of("keepdim", true)}, shape,
      dtype);
  return builder.emit("aten.linalg_vector_norm.default",
                      {tensor_input("self", builder.of_all_ranks(own)), input_of("ord", order),
                       input_of("dim", std::vector<std::int64_t>{0}), input_of("keepdim", false)},
                      shape, dtype);
}

// The largest, or smallest, value over all ranks, without a gradient.
ValueId extreme_of(LocalBuilder& builder, PlannedNode const& node, bool largest) {
  ValueId const x = node.tensors.at(0);
  Dtype const dtype = builder.dtype(x);
  auto const axes = axes_over(node);
  Shape const shape = reduced(builder.shape(x), axes, true);
  std::string const target = largest ? "aten.amax.default" : "aten.amin.default";
  ValueId own = -1;
  if (num_elements(builder.shape(x)) > 0) {
    own = builder.emit(target,
                       {tensor_input("self", unary(builder, "aten.detach.default", x)), input_of("dim", axes),
                        input_of("keepdim", true)},
                       shape, dtype);
  } else {
    double const none = std::numeric_limits<double>::infinity();
    own = builder.emit(
        "aten.full.default",
        {input_of("size", shape), input_of("fill_value", largest ? -none : none), input_of("dtype", dtype)}, shape,
        dtype);
  }
  return builder.emit(target,
                      {tensor_input("self", builder.of_all_ranks(own)), input_of("dim", std::vector<std::int64_t>{0}),
                       input_of("keepdim", false)},
                      shape, dtype);
}

// The mean of the values that equal the extreme one, of all ranks: so the gradient is theirs in equal shares.
ValueId write_extreme(LocalBuilder& builder, PlannedNode& node, bool largest) {
  ValueId const x = node.tensors.at(0);
  Dtype const dtype = builder.dtype(x);
  ValueId const extreme = extreme_of(builder, node, largest);
  ValueId const alike = binary(builder, "aten.eq.Tensor", x, extreme, Dtype::boolean);
  ValueId const ones = builder.emit("aten._to_copy.default", {tensor_input("self", alike), input_of("dtype", dtype)},
                                    builder.shape(x), dtype);
  ValueId const count = total_of(builder, node, ones, true, dtype);
  ValueId const zero = builder.constant(torch::zeros({}, builder.conversion()(dtype)), dtype);
  ValueId const kept = builder.emit(
      "aten.where.self", {tensor_input("condition", alike), tensor_input("self", x), tensor_input("other", zero)},
      builder.shape(x), dtype);
  ValueId const mean = binary(builder, "aten.div.Tensor", total_of(builder, node, kept, true, dtype), count, dtype);
  // The mean for its gradient alone: its value has been rounded.
  ValueId const nothing = binary(builder, "aten.sub.Tensor", mean, unary(builder, "aten.detach.default", mean), dtype);
  ValueId const clean =
      builder.emit("aten.nan_to_num.default", {tensor_input("self", nothing)}, builder.shape(nothing), dtype);
  return binary(builder, "aten.add.Tensor", extreme, clean, dtype);
}

ValueId write_log_sum_exp(LocalBuilder& builder, PlannedNode& node) {
  ValueId const x = node.tensors.at(0);
  Dtype const dtype = builder.dtype(x);
  ValueId const largest = builder.emit("aten.nan_to_num.default",
                                       {tensor_input("self", extreme_of(builder, node, true)), input_of("nan", NAN),
                                        input_of("posinf", 0.0), input_of("neginf", 0.0)},
                                       reduced(builder.shape(x), axes_over(node), true), dtype);
  ValueId const shifted = binary(builder, "aten.sub.Tensor", x, largest, dtype);
  ValueId const sum = total_of(builder, node, unary(builder, "aten.exp.default", shifted), true, dtype);
  return binary(builder, "aten.add.Tensor", unary(builder, "aten.log.default", sum), largest, dtype);
}

// Of one result; of two, also the mean, which is the second one.
ValueId write_spread(LocalBuilder& builder, PlannedNode& node) {
  Dtype const dtype = builder.dtype(node.tensors.at(0));
  Dtype const wide = type_of_sums(builder, dtype);
  node.tensors[0] = converted(builder, node.tensors[0], wide);
  ValueId const mean = mean_of(builder, node, node.tensors[0], wide);
  if (node.shapes.rule.results.size() > 1) {
    builder.finish(node, as_result(builder, node, converted(builder, mean, dtype), 1), 1);
  }
  ValueId const spread = node.name().starts_with("std")
                             ? divided(builder, norm_of(builder, node, deviations(builder, node, mean), 2.0, wide),
                                       std::sqrt(degrees_of_freedom(node)))
                             : variance_of(builder, node, mean);
  return converted(builder, spread, dtype);
}

}  // namespace

ValueId write_sum(LocalBuilder& builder, PlannedNode& node) {
  std::string_view const name = node.name();
  Dtype const dtype = node.shapes.rule.results.empty() ? Dtype::f32 : builder.result_dtype(node);
  if (name == "mean") {
    return as_result(builder, node, mean_of(builder, node, node.tensors.at(0), dtype));
  }
  if (name.starts_with("var") || name.starts_with("std")) {
    return as_result(builder, node, write_spread(builder, node));
  }
  if (name == "linalg_vector_norm") {
    Argument const* const order = node.node.input("ord");
    return as_result(builder, node,
                     norm_of(builder, node, node.tensors.at(0), order == nullptr ? Argument(2.0) : *order, dtype));
  }
  if (name == "logsumexp") {
    return as_result(builder, node, write_log_sum_exp(builder, node));
  }
  if (name == "amax" || name == "max" || name == "amin" || name == "min") {
    return as_result(builder, node, write_extreme(builder, node, name.ends_with("max")));
  }
  return builder.summed(builder.emit(node.node.target, node.node.inputs, node.local, dtype));
}

}  // namespace graticule::program::detail
