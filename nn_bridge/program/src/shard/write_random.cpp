// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "shard/local_builder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Operators that draw numbers, which are functions of the place in the whole field: dropout with a mask, attention that
// drops weights, stochastic depth, dropped channels and noise.
namespace graticule::program::detail {

namespace {

Shape with_last(Shape shape, std::int64_t rows, std::int64_t columns) {
  shape.at(shape.size() - 2) = rows;
  shape.back() = columns;
  return shape;
}

// Attention that drops weights, step by step.
class Attention {
 public:
  Attention(LocalBuilder& builder, PlannedNode& node)
      : builder_(builder), node_(node), dtype_(builder.result_dtype(node)) {
    Shape const& query = builder.shape(node.tensors.at(0));
    Shape const& key = builder.shape(node.tensors.at(1));
    rows_ = query.at(query.size() - 2);
    columns_ = key.at(key.size() - 2);
    weights_shape_ = with_last(node.local, rows_, columns_);
  }

  ValueId write(double dropped) {
    ValueId const weights = call("aten._safe_softmax.default",
                                 {tensor_input("self", masked(products())), input_of("dim", -1)}, weights_shape_);
    Shape const whole = with_last(node_.shapes.out(), node_.shapes.in(0).at(node_.shapes.in(0).size() - 2), columns_);
    ValueId const kept = builder_.drawn(node_, weights, whole, dropped);
    return call("aten.matmul.default",
                {tensor_input("self", kept), tensor_input("other", of_each_head(node_.tensors.at(2)))}, node_.local);
  }

 private:
  static NamedArgument input_of(std::string name, std::int64_t value) {
    return detail::input_of(std::move(name), value);
  }

  ValueId call(std::string const& target, Inputs inputs, Shape shape) {
    return builder_.emit(target, std::move(inputs), std::move(shape), dtype_);
  }

  // Fewer heads of keys and values than of queries: each serves several, one after the other.
  ValueId of_each_head(ValueId x) {
    Shape shape = builder_.shape(x);
    Shape const& query = builder_.shape(node_.tensors.at(0));
    if (!node_.shapes.flag("enable_gqa", false) || shape.size() < 3 ||
        shape[shape.size() - 3] == query[query.size() - 3]) {
      return x;
    }
    std::int64_t const copies = query[query.size() - 3] / std::max<std::int64_t>(1, shape[shape.size() - 3]);
    shape[shape.size() - 3] *= copies;
    return call("aten.repeat_interleave.self_int",
                {tensor_input("self", x), input_of("repeats", copies), input_of("dim", -3)}, std::move(shape));
  }

  ValueId products() {
    ValueId const key = of_each_head(node_.tensors.at(1));
    Shape turned = builder_.shape(key);
    std::swap(turned.back(), turned.at(turned.size() - 2));
    auto const width = static_cast<double>(turned.at(turned.size() - 2));
    auto const* const scale = std::get_if<double>(node_.node.input("scale"));
    ValueId const transposed =
        call("aten.transpose.int", {tensor_input("self", key), input_of("dim0", -2), input_of("dim1", -1)},
             std::move(turned));
    ValueId const products =
        call("aten.matmul.default", {tensor_input("self", node_.tensors.at(0)), tensor_input("other", transposed)},
             weights_shape_);
    return call(
        "aten.mul.Scalar",
        {tensor_input("self", products), detail::input_of("other", scale != nullptr ? *scale : 1 / std::sqrt(width))},
        weights_shape_);
  }

  ValueId excluded(ValueId products, ValueId mask) {
    return call("aten.masked_fill.Scalar",
                {tensor_input("self", products), tensor_input("mask", mask),
                 detail::input_of("value", -std::numeric_limits<double>::infinity())},
                weights_shape_);
  }

  ValueId masked(ValueId products) {
    if (node_.shapes.flag("is_causal", false)) {
      torch::Tensor const later = torch::ones({rows_, columns_}, torch::kBool).tril().logical_not();
      products = excluded(products, builder_.constant(later, Dtype::boolean));
    }
    if (node_.tensors.size() < 4) {
      return products;
    }
    ValueId const mask = node_.tensors[3];
    if (builder_.dtype(mask) == Dtype::boolean) {
      return excluded(products, builder_.apply("aten.logical_not.default", mask));
    }
    return call("aten.add.Tensor", {tensor_input("self", products), tensor_input("other", mask)}, weights_shape_);
  }

  LocalBuilder& builder_;
  PlannedNode& node_;
  Dtype dtype_;
  std::int64_t rows_ = 0;     // of queries, on this rank
  std::int64_t columns_ = 0;  // of keys
  Shape weights_shape_;
};

// Numbers of other operators.
class Random {
 public:
  Random(LocalBuilder& builder, PlannedNode& node)
      : builder_(builder), node_(node), dtype_(builder.result_dtype(node)) {
    if (is_complex(dtype_)) {
      refuse_node(node.node, "random complex numbers are not run; draw both parts");
    }
  }

  ValueId write() {
    std::string_view const name = node_.name();
    if (name == "bernoulli") {
      bool const given = node_.node.input("p") != nullptr;
      Inputs inputs{tensor_input("self", numbers(Draw::uniform, Dtype::f32))};
      inputs.push_back(given ? input_of("other", real_input(node_.node, "p", 0.5))
                             : tensor_input("other", node_.tensors.at(0)));
      ValueId const kept =
          builder_.emit(given ? "aten.lt.Scalar" : "aten.lt.Tensor", std::move(inputs), node_.local, Dtype::boolean);
      return builder_.converted(kept, dtype_);
    }
    if (name == "uniform") {
      double const from = real_input(node_.node, "from", 0);
      return moved(numbers(Draw::uniform, dtype_), real_input(node_.node, "to", 1) - from, from);
    }
    if (name == "normal_functional") {
      return moved(numbers(Draw::normal, dtype_), real_input(node_.node, "std", 1), real_input(node_.node, "mean", 0));
    }
    return numbers(name.starts_with("randn") ? Draw::normal : Draw::uniform, dtype_);
  }

 private:
  ValueId numbers(Draw draw, Dtype dtype) {
    ValueId const like = builder_.emit("aten.zeros.default", {input_of("size", node_.local), input_of("dtype", dtype)},
                                       node_.local, dtype);
    return builder_.drawn(node_, like, node_.shapes.out(), 0, draw);
  }

  ValueId moved(ValueId numbers, double scale, double offset) {
    ValueId const scaled = builder_.apply("aten.mul.Scalar", numbers, {input_of("other", scale)});
    return builder_.apply("aten.add.Scalar", scaled, {input_of("other", offset)});
  }

  LocalBuilder& builder_;
  PlannedNode& node_;
  Dtype dtype_;
};

}  // namespace

ValueId write_attention(LocalBuilder& builder, PlannedNode& node, double dropped) {
  return Attention(builder, node).write(dropped);
}

// The result and the mask: what is left of ones.
void write_native_dropout(LocalBuilder& builder, PlannedNode& node, double dropped) {
  ValueId const x = node.tensors.at(0);
  ValueId const ones = builder.apply("aten.ones_like.default", x);
  ValueId const factors = builder.drawn(node, ones, node.shapes.out(), dropped);
  builder.finish(node, builder.apply("aten.mul.Tensor", x, {tensor_input("other", factors)}));
  if (node.shapes.rule.results.size() > 1) {
    builder.finish(node,
                   builder.emit("aten.ne.Scalar", {tensor_input("self", factors), input_of("other", std::int64_t{0})},
                                node.local, Dtype::boolean),
                   1);
  }
}

bool is_random(std::string_view name) {
  return one_of(name, {"rand", "randn", "rand_like", "randn_like", "bernoulli", "uniform", "normal_functional"});
}

void write_random(LocalBuilder& builder, PlannedNode& node) { builder.finish(node, Random(builder, node).write()); }

}  // namespace graticule::program::detail
