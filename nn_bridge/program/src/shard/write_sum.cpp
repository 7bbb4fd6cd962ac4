// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "shard/local_builder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

// Sums of which each rank has a part, and what is made of sums.
namespace graticule::program::detail {

namespace {

// Writes the node's steps. Axes are those that the node names, or all, and are kept with extent 1 until the end.
class Reduction {
 public:
  Reduction(LocalBuilder& builder, PlannedNode& node) : builder_(builder), node_(node), x_(node.tensors.at(0)) {}

  ValueId write() {
    std::string_view const name = node_.name();
    Dtype const dtype = builder_.result_dtype(node_);
    if (name == "mean") {
      return as_result(mean_of(x_, dtype));
    }
    if (name.starts_with("var") || name.starts_with("std")) {
      return as_result(spread());
    }
    if (name == "linalg_vector_norm") {
      Argument const* const order = node_.node.input("ord");
      return as_result(norm_of(x_, order == nullptr ? Argument(2.0) : *order, dtype));
    }
    if (name == "logsumexp") {
      return as_result(log_sum_exp());
    }
    if (one_of(name, {"amax", "max", "amin", "min"})) {
      return as_result(extreme(name.ends_with("max")));
    }
    return builder_.summed(builder_.emit(node_.node.target, node_.node.inputs, node_.local, dtype));
  }

 private:
  // The numbers that the node's result is a mean of, over all ranks.
  [[nodiscard]] double count() const {
    return static_cast<double>(num_elements(node_.shapes.in())) /
           static_cast<double>(std::max<std::int64_t>(1, num_elements(node_.shapes.out())));
  }

  // What the squares of deviations are divided by.
  [[nodiscard]] double degrees_of_freedom() const {
    double const correction = node_.node.input("correction") != nullptr ? real_input(node_.node, "correction", 1)
                              : node_.shapes.flag("unbiased", true)     ? 1
                                                                        : 0;
    return std::max(0.0, count() - correction);
  }

  [[nodiscard]] Shape reduced(ValueId x) const {
    Shape shape = builder_.shape(x);
    for (std::int64_t const axis : reduced_axes(node_.shapes)) {
      shape.at(index(axis)) = 1;
    }
    return shape;
  }

  // The sum over all ranks of another tensor of this rank.
  ValueId total_of(ValueId x, Dtype dtype) {
    Inputs inputs{tensor_input("self", x), input_of("dim", reduced_axes(node_.shapes)), input_of("keepdim", true)};
    if (dtype != builder_.dtype(x)) {
      inputs.push_back(input_of("dtype", dtype));
    }
    return builder_.summed(builder_.emit("aten.sum.dim_IntList", std::move(inputs), reduced(x), dtype));
  }
  ValueId total_of(ValueId x) { return total_of(x, builder_.dtype(x)); }

  ValueId divided(ValueId x, double by) { return builder_.apply("aten.div.Scalar", x, {input_of("other", by)}); }

  // Of tensors with the same number of axes, extents of 1 repeated.
  ValueId binary(std::string const& target, ValueId a, ValueId b) {
    Shape shape = builder_.shape(a);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      shape[axis] = shape[axis] == 1 ? builder_.shape(b).at(axis) : shape[axis];
    }
    return builder_.apply(target, a, {tensor_input("other", b)}, shape);
  }

  ValueId detached(ValueId x) { return builder_.apply("aten.detach.default", x); }

  // The value without the axes that are kept with extent 1, unless the node keeps them.
  ValueId as_result(ValueId x, std::size_t result = 0) {
    Shape const& shape = node_.shapes.rule.result_shapes.at(result);
    return builder_.shape(x) == shape ? x : builder_.reshaped(x, shape);
  }

  // Sums of f16 leave its range, and those of bf16 its digits, before they are divided; LibTorch's own have more of
  // both.
  [[nodiscard]] Dtype type_of_sums(Dtype dtype) const {
    auto const type = builder_.conversion()(dtype);
    return type == torch::kHalf || type == torch::kBFloat16 ? Dtype::f64 : dtype;
  }

  ValueId in_type(ValueId x, Dtype dtype) { return builder_.dtype(x) == dtype ? x : builder_.converted(x, dtype); }

  ValueId mean_of(ValueId x, Dtype dtype) { return in_type(divided(total_of(x, type_of_sums(dtype)), count()), dtype); }

  // Norms of this rank's parts, of all ranks, and their norm. Its gradient is 0 where all values are 0, as LibTorch's.
  ValueId norm_of(ValueId x, Argument const& order, Dtype dtype) {
    // The norm of no values is 0, of any order; LibTorch computes it for finite orders alone.
    Argument const own_order = num_elements(builder_.shape(x)) > 0 ? order : Argument(2.0);
    ValueId const own = builder_.emit("aten.linalg_vector_norm.default",
                                      {tensor_input("self", x), input_of("ord", own_order),
                                       input_of("dim", reduced_axes(node_.shapes)), input_of("keepdim", true)},
                                      reduced(x), dtype);
    return over_ranks("aten.linalg_vector_norm.default", own, {input_of("ord", order)});
  }

  ValueId over_ranks(std::string const& target, ValueId own, Inputs more) {
    more.push_back(input_of("dim", std::vector<std::int64_t>{0}));
    more.push_back(input_of("keepdim", false));
    return builder_.apply(target, builder_.of_all_ranks(own), std::move(more), builder_.shape(own));
  }

  // The largest, or smallest, value over all ranks, without a gradient.
  ValueId extreme_of(bool largest) {
    Dtype const dtype = builder_.dtype(x_);
    Shape const shape = reduced(x_);
    std::string const target = largest ? "aten.amax.default" : "aten.amin.default";
    ValueId own = -1;
    if (num_elements(builder_.shape(x_)) > 0) {
      own = builder_.apply(target, detached(x_),
                           {input_of("dim", reduced_axes(node_.shapes)), input_of("keepdim", true)}, shape);
    } else {
      double const none = std::numeric_limits<double>::infinity();
      own = builder_.emit(
          "aten.full.default",
          {input_of("size", shape), input_of("fill_value", largest ? -none : none), input_of("dtype", dtype)}, shape,
          dtype);
    }
    return over_ranks(target, own, {});
  }

  // The mean of the values that equal the extreme one, of all ranks: so the gradient is theirs in equal shares.
  ValueId extreme(bool largest) {
    Dtype const dtype = builder_.dtype(x_);
    ValueId const found = extreme_of(largest);
    ValueId const alike = builder_.emit("aten.eq.Tensor", {tensor_input("self", x_), tensor_input("other", found)},
                                        builder_.shape(x_), Dtype::boolean);
    ValueId const count = total_of(builder_.converted(alike, dtype));
    ValueId const zero = builder_.constant(torch::zeros({}, builder_.conversion()(dtype)), dtype);
    ValueId const kept = builder_.emit(
        "aten.where.self", {tensor_input("condition", alike), tensor_input("self", x_), tensor_input("other", zero)},
        builder_.shape(x_), dtype);
    ValueId const mean = binary("aten.div.Tensor", total_of(kept), count);
    // The mean for its gradient alone: its value has been rounded.
    ValueId const nothing = binary("aten.sub.Tensor", mean, detached(mean));
    return binary("aten.add.Tensor", found, builder_.apply("aten.nan_to_num.default", nothing));
  }

  ValueId log_sum_exp() {
    ValueId const largest = builder_.apply("aten.nan_to_num.default", extreme_of(true),
                                           {input_of("nan", NAN), input_of("posinf", 0.0), input_of("neginf", 0.0)});
    ValueId const shifted = binary("aten.sub.Tensor", x_, largest);
    ValueId const sum = total_of(builder_.apply("aten.exp.default", shifted));
    return binary("aten.add.Tensor", builder_.apply("aten.log.default", sum), largest);
  }

  // Of one result; of two, also the mean, which is the second one. In two passes, so that no digits are lost.
  ValueId spread() {
    Dtype const dtype = builder_.dtype(x_);
    Dtype const wide = type_of_sums(dtype);
    ValueId const x = in_type(x_, wide);
    ValueId const mean = mean_of(x, wide);
    if (node_.shapes.rule.results.size() > 1) {
      builder_.finish(node_, as_result(in_type(mean, dtype), 1), 1);
    }
    ValueId const deviation = binary("aten.sub.Tensor", x, mean);
    if (node_.name().starts_with("std")) {
      return in_type(divided(norm_of(deviation, 2.0, wide), std::sqrt(degrees_of_freedom())), dtype);
    }
    ValueId const square = binary("aten.mul.Tensor", deviation, deviation);
    return in_type(divided(total_of(square), degrees_of_freedom()), dtype);
  }

  LocalBuilder& builder_;
  PlannedNode& node_;
  ValueId x_;
};

}  // namespace

ValueId write_sum(LocalBuilder& builder, PlannedNode& node) { return Reduction(builder, node).write(); }

}  // namespace graticule::program::detail
