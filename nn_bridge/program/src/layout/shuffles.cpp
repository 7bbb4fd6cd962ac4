// SPDX-License-Identifier: BSD-3-Clause
#include "cut_moves.hpp"
#include "graph/nodes.hpp"
#include "passes.hpp"

#include <array>
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

/// Leading axes stay; the last three are channels, rows and columns. @param closes an unshuffle
OpenShuffle opened(Shape const& shape, std::int64_t factor, bool closes) {
  auto const lead = shape.size() - 3;
  auto const [channels, rows, columns] = std::array{shape[lead], shape[lead + 1], shape[lead + 2]};
  OpenShuffle open{Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(lead)),
                   numbers_below(static_cast<std::int64_t>(lead) + 1)};
  auto const last = closes ? std::array{channels, rows / factor, factor, columns / factor, factor}
                           : std::array{channels / (factor * factor), factor, factor, rows, columns};
  open.digits.insert(open.digits.end(), last.begin(), last.end());
  for (int const place : closes ? std::array{2, 4, 1, 3} : std::array{3, 1, 4, 2}) {
    open.order.push_back(static_cast<std::int64_t>(lead) + place);
  }
  return open;
}

class Opener {
 public:
  Opener(Graph const& graph, Sizes const& sizes) : sizes_(&sizes) {
    result.values = graph.values;
    result.inputs = graph.inputs;
    result.outputs = graph.outputs;
    for (Node const& node : graph.nodes) {
      if (!open(node)) append_node(result, node);
    }
  }

  Graph result;

 private:
  bool open(Node const& node) {
    bool const closes = node.target.starts_with("aten.pixel_unshuffle.");
    if (!closes && !node.target.starts_with("aten.pixel_shuffle.")) return false;
    auto const* const tensor = std::get_if<TensorRef>(node.input("self"));
    auto const* const number = std::get_if<std::int64_t>(node.input(closes ? "downscale_factor" : "upscale_factor"));
    auto const* const output = node.outputs.empty() ? nullptr : std::get_if<TensorRef>(&node.outputs[0]);
    if (tensor == nullptr || number == nullptr || output == nullptr) return false;
    auto const shape = (*sizes_)(result.value(tensor->value).tensor);
    auto const after = (*sizes_)(result.value(output->value).tensor);
    if (!shape || !after || shape->size() < 3) return false;
    auto const steps = opened(*shape, *number, closes);
    Shape permuted;
    for (auto const axis : steps.order) permuted.push_back(steps.digits[index(axis)]);
    auto const digits = step(node, "aten.reshape.default", tensor->value, "shape", steps.digits, steps.digits);
    auto const moved = step(node, "aten.permute.default", digits, "dims", steps.order, permuted);
    Node last = node;
    last.target = "aten.reshape.default";
    last.inputs = {NamedArgument{.name = "self", .value = TensorRef{moved}},
                   NamedArgument{.name = "shape", .value = *after}};
    append_node(result, std::move(last));
    return true;
  }

  /// A node of one result on the way.
  ValueId step(Node const& of, char const* target, ValueId self, char const* name, std::vector<std::int64_t> argument,
               Shape const& shape) {
    Value value = result.value(self);
    value.name += "_open" + std::to_string(result.values.size());
    value.tensor.sizes.clear();
    for (auto const extent : shape) value.tensor.sizes.push_back({extent, {}});
    value.tensor.strides.clear();
    return append_node(result, of, target,
                       {NamedArgument{.name = "self", .value = TensorRef{self}},
                        NamedArgument{.name = name, .value = std::move(argument)}},
                       std::move(value));
  }

  Sizes const* sizes_;
};

}  // namespace

Graph with_open_shuffles(Graph const& graph, Sizes const& sizes) { return std::move(Opener(graph, sizes).result); }

}  // namespace graticule::program::detail
