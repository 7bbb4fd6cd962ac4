// SPDX-License-Identifier: BSD-3-Clause
#include "node_shapes.hpp"

#include <graticule/program/detail/operators.hpp>

#include "graph/nodes.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

std::int64_t from_front(NodeShapes const& shapes, std::string_view argument, std::int64_t axis, std::int64_t ndim) {
  axis = axis < 0 ? axis + ndim : axis;
  if (axis < 0 || axis >= std::max<std::int64_t>(ndim, 1)) {
    shapes.refuse("the argument '" + std::string(argument) + "' names an axis that the tensor lacks");
  }
  return axis;
}

}  // namespace

NodeShapes::NodeShapes(Graph const& graph, Node const& node, Sizes const& sizes)
    : graph_(&graph), node_(&node), sizes_(&sizes), name_(detail::operator_name(node.target)) {
  auto const add = [&](ValueId id, std::vector<ValueId>& ids, std::vector<Shape>& shapes) {
    auto const shape = sizes(graph.value(id).tensor);
    if (!shape) {
      refuse("the size of '" + graph.value(id).name + "' is not understood; export with real sizes or with Dim.AUTO");
    }
    ids.push_back(id);
    shapes.push_back(*shape);
  };
  for (NamedArgument const& input : node.inputs) {
    places_.emplace_back(input.name, rule.tensors.size());
    visit_tensors(input.value, [&](ValueId id) { add(id, rule.tensors, rule.shapes); });
  }
  visit_tensors(node.outputs, [&](ValueId id) { add(id, rule.results, rule.result_shapes); });
  if (!rule.results.empty()) {
    rule.axes.resize(out().size());
  }
}

std::optional<std::int64_t> NodeShapes::number(Argument const& argument) const {
  if (auto const* integer = std::get_if<std::int64_t>(&argument)) {
    return *integer;
  }
  if (auto const* symbol = std::get_if<SymbolRef>(&argument)) {
    auto const value = (*sizes_)(graph_->value(symbol->value).number);
    if (!value) {
      refuse("the size '" + graph_->value(symbol->value).name + "' is not understood");
    }
    return value;
  }
  return std::nullopt;
}

std::int64_t NodeShapes::integer(std::string_view argument, std::int64_t otherwise) const {
  Argument const* const found = node_->input(argument);
  return found == nullptr ? otherwise : number(*found).value_or(otherwise);
}

bool NodeShapes::real() const {
  return std::ranges::all_of(rule.tensors, [this](ValueId id) { return is_real(graph_->value(id).tensor.dtype); });
}

bool NodeShapes::flag(std::string_view argument, bool otherwise) const {
  auto const* const value = std::get_if<bool>(node_->input(argument));
  return value == nullptr ? otherwise : *value;
}

std::string NodeShapes::text(std::string_view argument, std::string otherwise) const {
  auto const* const value = std::get_if<std::string>(node_->input(argument));
  return value == nullptr ? std::move(otherwise) : *value;
}

bool NodeShapes::has(std::string_view argument) const {
  Argument const* const found = node_->input(argument);
  return found != nullptr && !std::holds_alternative<None>(*found);
}

std::vector<std::int64_t> NodeShapes::integers(std::string_view argument, std::size_t count,
                                               std::int64_t otherwise) const {
  Argument const* const found = node_->input(argument);
  if (found == nullptr) {
    return std::vector<std::int64_t>(count, otherwise);
  }
  if (auto const* fixed = std::get_if<std::vector<std::int64_t>>(found)) {
    return fixed->size() == 1 && count > 1 ? std::vector<std::int64_t>(count, fixed->front()) : *fixed;
  }
  if (auto const* mixed = std::get_if<Integers>(found)) {
    std::vector<std::int64_t> values;
    for (auto const& entry : *mixed) {
      values.push_back(std::visit([&](auto const& one) { return number(Argument(one)).value_or(otherwise); }, entry));
    }
    return values;
  }
  return std::vector<std::int64_t>(count, number(*found).value_or(otherwise));
}

std::vector<std::int64_t> NodeShapes::axes(std::string_view argument, std::int64_t ndim,
                                           std::vector<std::int64_t> otherwise) const {
  if (!has(argument)) {
    return otherwise;
  }
  std::vector<std::int64_t> result = integers(argument, 1, 0);
  for (std::int64_t& axis : result) {
    axis = from_front(*this, argument, axis, ndim);
  }
  return result;
}

std::int64_t NodeShapes::axis(std::string_view argument, std::int64_t otherwise, std::int64_t ndim) const {
  return from_front(*this, argument, integer(argument, otherwise), ndim);
}

std::optional<std::size_t> NodeShapes::tensor(std::string_view argument) const {
  for (auto const& [name, place] : places_) {
    if (name == argument && std::get_if<TensorRef>(node_->input(argument)) != nullptr) {
      return place;
    }
  }
  return std::nullopt;
}

void NodeShapes::refuse(std::string const& why) const { refuse_node(*node_, why); }

std::vector<std::int64_t> NodeShapes::of_all(std::int64_t axis) const {
  return std::vector<std::int64_t>(rule.tensors.size(), axis);
}

std::vector<std::int64_t> NodeShapes::of_first(std::int64_t axis) const {
  std::vector<std::int64_t> axes = of_all(-1);
  axes.at(0) = axis;
  return axes;
}

std::vector<std::int64_t> broadcast_axes(NodeShapes const& shapes, std::int64_t axis,
                                         std::optional<std::int64_t> gone) {
  std::int64_t const from_end = axis + (gone && axis >= *gone ? 1 : 0) - shapes.ndim() - (gone ? 1 : 0);
  std::vector<std::int64_t> axes;
  for (Shape const& shape : shapes.rule.shapes) {
    std::int64_t const own = from_end + static_cast<std::int64_t>(shape.size());
    bool const repeated = own < 0 || (shape[index(own)] == 1 && shapes.out()[index(axis)] != 1);
    axes.push_back(repeated ? -1 : own);
  }
  return axes;
}

std::vector<std::int64_t> reduced_axes(NodeShapes const& shapes) {
  auto const ndim = static_cast<std::int64_t>(shapes.in().size());
  auto axes = shapes.axes("dim", ndim);
  return axes.empty() ? numbers_below(ndim) : axes;
}

std::int64_t unnamed_axis_of_cross(NodeShapes const& shapes) {
  return std::ranges::find(shapes.in(), 3) - shapes.in().begin();
}

}  // namespace graticule::program::detail
