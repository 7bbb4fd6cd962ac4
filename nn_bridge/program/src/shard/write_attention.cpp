// SPDX-License-Identifier: BSD-3-Clause
#include "shard/local_builder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

// Attention that drops weights: step by step, so that the masks are functions of the place in the whole field.
namespace graticule::program::detail {

namespace {

Shape with_last(Shape shape, std::int64_t rows, std::int64_t columns) {
  shape.at(shape.size() - 2) = rows;
  shape.back() = columns;
  return shape;
}

// Writes the node's steps.
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
    Shape whole = with_last(node_.shapes.out(), node_.shapes.in(0).at(node_.shapes.in(0).size() - 2), columns_);
    DropoutTask task{dropped, std::move(whole), node_.plan.placement, static_cast<std::uint32_t>(node_.plan.node)};
    ValueId const kept =
        builder_.emit("graticule.dropout", {tensor_input("self", weights)}, weights_shape_, dtype_, std::move(task));
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
    Argument const* const given = node_.node.input("scale");
    auto const* const scale = given == nullptr ? nullptr : std::get_if<double>(given);
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
      return excluded(products, builder_.emit("aten.logical_not.default", {tensor_input("self", mask)},
                                              builder_.shape(mask), Dtype::boolean));
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

}  // namespace

ValueId write_attention(LocalBuilder& builder, PlannedNode& node, double dropped) {
  return Attention(builder, node).write(dropped);
}

// The result and the mask: what is left of ones.
void write_native_dropout(LocalBuilder& builder, PlannedNode& node, double dropped) {
  ValueId const x = node.tensors.at(0);
  Dtype const dtype = builder.dtype(x);
  ValueId const ones = builder.emit("aten.ones_like.default", {tensor_input("self", x)}, node.local, dtype);
  DropoutTask task{dropped, node.shapes.out(), node.plan.placement, static_cast<std::uint32_t>(node.plan.node)};
  ValueId const factors =
      builder.emit("graticule.dropout", {tensor_input("self", ones)}, node.local, dtype, std::move(task));
  builder.finish(node, builder.emit("aten.mul.Tensor", {tensor_input("self", x), tensor_input("other", factors)},
                                    node.local, dtype));
  if (node.shapes.rule.results.size() > 1) {
    builder.finish(node,
                   builder.emit("aten.ne.Scalar", {tensor_input("self", factors), input_of("other", std::int64_t{0})},
                                node.local, Dtype::boolean),
                   1);
  }
}

}  // namespace graticule::program::detail
