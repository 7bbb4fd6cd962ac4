// SPDX-License-Identifier: BSD-3-Clause
#include "shuffles.hpp"

#include "cut_moves.hpp"
#include "graph/graph_edit.hpp"

#include <numeric>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::program::detail {

namespace {

/// A shuffle as a view, a permutation and a view.
struct OpenShuffle {
  Shape digits;  ///< of the first view
  std::vector<std::int64_t> order;
};

/// Leading axes stay; the last three are channels, rows and columns.
OpenShuffle shuffled(Shape const& shape, std::int64_t factor) {
  auto const lead = shape.size() - 3;
  OpenShuffle open{Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(lead)), {}};
  open.digits.insert(open.digits.end(),
                     {shape[lead] / (factor * factor), factor, factor, shape[lead + 1], shape[lead + 2]});
  open.order.resize(lead + 1);
  std::iota(open.order.begin(), open.order.end(), 0);
  auto const c = static_cast<std::int64_t>(lead);
  open.order.insert(open.order.end(), {c + 3, c + 1, c + 4, c + 2});
  return open;
}

OpenShuffle unshuffled(Shape const& shape, std::int64_t factor) {
  auto const lead = shape.size() - 3;
  OpenShuffle open{Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(lead)), {}};
  open.digits.insert(open.digits.end(),
                     {shape[lead], shape[lead + 1] / factor, factor, shape[lead + 2] / factor, factor});
  open.order.resize(lead + 1);
  std::iota(open.order.begin(), open.order.end(), 0);
  auto const c = static_cast<std::int64_t>(lead);
  open.order.insert(open.order.end(), {c + 2, c + 4, c + 1, c + 3});
  return open;
}

class Opener {
 public:
  Opener(Graph const& graph, Sizes const& sizes) : sizes_(&sizes) {
    result.values = graph.values;
    result.inputs = graph.inputs;
    result.outputs = graph.outputs;
    for (Node const& node : graph.nodes) {
      if (!open(node)) push(node);
    }
  }

  Graph result;

 private:
  bool open(Node const& node) {
    bool const closes = node.target.starts_with("aten.pixel_unshuffle.");
    if (!closes && !node.target.starts_with("aten.pixel_shuffle.")) return false;
    auto const* const self = node.input("self");
    auto const* const factor = node.input(closes ? "downscale_factor" : "upscale_factor");
    auto const* const tensor = self == nullptr ? nullptr : std::get_if<TensorRef>(self);
    auto const* const number = factor == nullptr ? nullptr : std::get_if<std::int64_t>(factor);
    auto const* const output = node.outputs.empty() ? nullptr : std::get_if<TensorRef>(&node.outputs[0]);
    if (tensor == nullptr || number == nullptr || output == nullptr) return false;
    auto const shape = (*sizes_)(result.value(tensor->value).tensor);
    auto const after = (*sizes_)(result.value(output->value).tensor);
    if (!shape || !after || shape->size() < 3) return false;
    auto const steps = closes ? unshuffled(*shape, *number) : shuffled(*shape, *number);
    Shape permuted;
    for (auto const axis : steps.order) permuted.push_back(steps.digits[static_cast<std::size_t>(axis)]);
    auto const digits = step(node, "aten.reshape.default", tensor->value, "shape", steps.digits, steps.digits);
    auto const moved = step(node, "aten.permute.default", digits, "dims", steps.order, permuted);
    Node last = node;
    last.target = "aten.reshape.default";
    last.inputs = {NamedArgument{.name = "self", .value = TensorRef{moved}},
                   NamedArgument{.name = "shape", .value = *after}};
    push(std::move(last));
    return true;
  }

  /// A node of one result on the way.
  ValueId step(Node const& of, char const* target, ValueId self, char const* name, std::vector<std::int64_t> argument,
               Shape const& shape) {
    auto const id = static_cast<ValueId>(result.values.size());
    Value value = result.value(self);
    value.name += "_open" + std::to_string(id);
    value.tensor.sizes.clear();
    for (auto const extent : shape) value.tensor.sizes.push_back({extent, {}});
    value.tensor.strides.clear();
    result.values.push_back(std::move(value));
    Node node = of;
    node.target = target;
    node.inputs = {NamedArgument{.name = "self", .value = TensorRef{self}},
                   NamedArgument{.name = name, .value = std::move(argument)}};
    node.outputs = {TensorRef{id}};
    push(std::move(node));
    return id;
  }

  void push(Node node) { append_node(result, std::move(node)); }

  Sizes const* sizes_;
};

}  // namespace

Graph with_open_shuffles(Graph const& graph, Sizes const& sizes) { return std::move(Opener(graph, sizes).result); }

}  // namespace graticule::program::detail
