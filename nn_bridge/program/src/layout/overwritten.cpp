// SPDX-License-Identifier: BSD-3-Clause
#include "overwritten.hpp"

#include <graticule/program/layout/digits.hpp>
#include <graticule/program/operators.hpp>

#include "graph_edit.hpp"
#include "node_shapes.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::program::detail {

namespace {

std::optional<ValueId> single_tensor(Argument const* argument) {
  auto const* const tensor = argument == nullptr ? nullptr : std::get_if<TensorRef>(argument);
  return tensor == nullptr ? std::nullopt : std::optional(tensor->value);
}

bool is_named(std::string_view target, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return target == name; });
}

bool changes_order(std::string_view target) {
  return is_named(target, {"aten.permute.default", "aten.transpose.int", "aten.t.default"});
}

bool changes_sizes(std::string_view target) {
  return is_named(target, {"aten.view.default", "aten.unsqueeze.default", "aten.squeeze.dim", "aten.squeeze.default",
                           "aten.squeeze.dims", "aten.unflatten.int"});
}

/// Rewrites one graph; ids in the keys are those of the graph that is read.
class Rewriter {
 public:
  Rewriter(Graph const& graph, Sizes const& sizes) : graph_(&graph), sizes_(&sizes) {
    result.values = graph.values;
    result.inputs = graph.inputs;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      step(i);
    }
    for (Argument const& output : graph.outputs) {
      result.outputs.push_back(renamed(output));
    }
  }

  Graph result;

 private:
  /// What a value shares its memory with, by which node; none for what an operator in place returns.
  struct View {
    ValueId base = -1;
    Node const* node = nullptr;
  };

  void step(std::size_t place) {
    Node const& node = graph_->nodes[place];
    auto const self = single_tensor(node.input("self"));
    auto const out = node.outputs.size() == 1 ? single_tensor(&node.outputs[0]) : std::nullopt;
    if (in_place(node.target) && self && out) {
      if (!goes_back(*self) || !is_read_later(place, *self, *out)) {
        push(copy_of(node));
      } else {
        overwrite(node, *self, *out);
      }
      views_[*out] = {*self, nullptr};
      return;
    }
    push(copy_of(node));
    bool const known = is_named(node.target, {"aten.alias.default", "aten.slice.Tensor", "aten.select.int"}) ||
                       changes_order(node.target) || changes_sizes(node.target);
    if (self && out && known) {
      views_[*out] = {*self, &node};
    } else if (self && may_share_memory(node)) {
      for (Argument const& output : node.outputs) {
        visit_tensors(output, [&](ValueId id) { opaque_[id] = *self; });
      }
    }
  }

  [[nodiscard]] static bool may_share_memory(Node const& node) {
    auto const kind = operator_class(node.target);
    return kind == OperatorClass::view ||
           is_named(node.target, {"aten.detach.default", "aten.contiguous.default", "aten.to.dtype",
                                  "aten._to_copy.default", "aten.real.default", "aten.imag.default",
                                  "aten.view_as_real.default", "aten.view_as_complex.default", "aten.conj.default",
                                  "aten.type_as.default", "aten.positive.default", "aten.dropout.default"});
  }

  [[nodiscard]] ValueId root(ValueId id) const {
    while (true) {
      auto const view = views_.find(id);
      auto const opaque = opaque_.find(id);
      if (view == views_.end() && opaque == opaque_.end()) {
        return id;
      }
      id = view != views_.end() ? view->second.base : opaque->second;
    }
  }

  // Whether what is written to the value can be put back into the tensor whose memory it is, which the network made.
  [[nodiscard]] bool goes_back(ValueId id) const {
    while (views_.contains(id)) {
      id = views_.at(id).base;
    }
    return !opaque_.contains(id) && graph_->value(id).producer >= 0;
  }

  // Whether another name of the memory is read after the node. Names that have no way back are not kept up to date.
  [[nodiscard]] bool is_read_later(std::size_t place, ValueId self, ValueId out) const {
    ValueId const shared = root(self);
    bool found = false;
    bool unknown = false;
    auto const look = [&](ValueId id) {
      bool const older = graph_->value(id).producer < static_cast<NodeId>(place);
      if (id != out && older && root(id) == shared) {
        found = true;
        unknown = unknown || !goes_back(id);
      }
    };
    for (std::size_t later = place + 1; later < graph_->nodes.size(); ++later) {
      for (NamedArgument const& input : graph_->nodes[later].inputs) {
        visit_tensors(input.value, look);
      }
    }
    for (Argument const& output : graph_->outputs) {
      visit_tensors(output, look);
    }
    return found && !unknown;
  }

  void overwrite(Node const& node, ValueId self, ValueId out) {
    ValueId const written = add(node, "aten.clone.default", {{.name = "self", .value = TensorRef{read(self)}}}, self);
    Node copy = copy_of(node);
    std::ranges::find(copy.inputs, "self", &NamedArgument::name)->value = TensorRef{written};
    push(std::move(copy));
    now_[out] = out;
    now_[self] = out;
    std::set<ValueId> fresh{self};
    for (ValueId id = self; views_.contains(id); id = views_.at(id).base) {
      ValueId const base = views_.at(id).base;
      now_[base] = put_back(views_.at(id), read(id), node);
      stale_.erase(base);
      fresh.insert(base);
    }
    ValueId const shared = root(self);
    for (auto const& [id, view] : views_) {
      if (!fresh.contains(id) && root(id) == shared) {
        stale_.insert(id);
      }
    }
  }

  // The base of a view with new values there.
  ValueId put_back(View const& view, ValueId values, Node const& origin) {
    if (view.node == nullptr || view.node->target == "aten.alias.default") {
      return values;
    }
    Node const& of = *view.node;
    if (changes_order(of.target)) {
      return add(origin, "aten.permute.default",
                 {{.name = "self", .value = TensorRef{values}}, {.name = "dims", .value = order_back(of, view.base)}},
                 view.base);
    }
    if (changes_sizes(of.target)) {
      return add(origin, "aten.reshape.default",
                 {{.name = "self", .value = TensorRef{values}}, {.name = "shape", .value = shape(view.base)}},
                 view.base);
    }
    std::vector<NamedArgument> inputs{{.name = "self", .value = TensorRef{read(view.base)}},
                                      {.name = "src", .value = TensorRef{values}}};
    for (NamedArgument const& input : of.inputs) {
      if (input.name != "self") {
        inputs.push_back(input);
      }
    }
    bool const slice = of.target == "aten.slice.Tensor";
    return add(origin, slice ? "aten.slice_scatter.default" : "aten.select_scatter.default", std::move(inputs),
               view.base);
  }

  // The permutation from a permuted tensor back to the tensor.
  [[nodiscard]] std::vector<std::int64_t> order_back(Node const& node, ValueId base) const {
    auto const ndim = static_cast<std::int64_t>(graph_->value(base).tensor.sizes.size());
    std::vector<std::int64_t> order(static_cast<std::size_t>(ndim));
    for (std::int64_t axis = 0; axis < ndim; ++axis) {
      order[static_cast<std::size_t>(axis)] = axis;
    }
    NodeShapes const shapes(*graph_, node, *sizes_);
    if (node.target == "aten.permute.default") {
      auto const dims = shapes.axes("dims", ndim).value_or(order);
      if (dims.size() != order.size()) {
        shapes.refuse("it does not name each axis once");
      }
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        order[static_cast<std::size_t>(dims[axis])] = static_cast<std::int64_t>(axis);
      }
    } else if (node.target == "aten.transpose.int") {
      std::swap(order.at(static_cast<std::size_t>(shapes.axis("dim0", 0, ndim))),
                order.at(static_cast<std::size_t>(shapes.axis("dim1", 0, ndim))));
    } else {
      std::ranges::reverse(order);
    }
    return order;
  }

  [[nodiscard]] Shape shape(ValueId id) const { return (*sizes_)(graph_->value(id).tensor).value_or(Shape{}); }

  // The value under which the present content of another is found; views of what was overwritten are made again.
  ValueId read(ValueId id) {
    if (stale_.erase(id) > 0) {
      View const view = views_.at(id);
      ValueId const base = read(view.base);
      if (view.node == nullptr) {
        now_[id] = base;
      } else {
        now_[id] = viewed(*view.node, base, id);
      }
    }
    auto const found = now_.find(id);
    return found == now_.end() ? id : found->second;
  }

  // A view of another base, which may lie in memory in an order that only `reshape` takes.
  ValueId viewed(Node const& node, ValueId base, ValueId like) {
    std::vector<NamedArgument> inputs = node.inputs;
    bool const copies = node.target == "aten.view.default";
    for (NamedArgument& input : inputs) {
      if (input.name == "self") {
        input.value = TensorRef{base};
      } else if (copies && input.name == "size") {
        input.name = "shape";
      }
    }
    return add(node, copies ? "aten.reshape.default" : std::string_view(node.target), std::move(inputs), like);
  }

  [[nodiscard]] Argument renamed(Argument const& argument) {
    Argument copy = argument;
    if (auto* tensor = std::get_if<TensorRef>(&copy)) {
      tensor->value = read(tensor->value);
    } else if (auto* tensors = std::get_if<Tensors>(&copy)) {
      std::ranges::for_each(*tensors, [&](TensorRef& one) { one.value = read(one.value); });
    } else if (auto* optional = std::get_if<OptionalTensors>(&copy)) {
      for (auto& one : *optional) {
        if (one) {
          one->value = read(one->value);
        }
      }
    }
    return copy;
  }

  [[nodiscard]] Node copy_of(Node const& node) {
    Node copy = node;
    for (NamedArgument& input : copy.inputs) {
      input.value = renamed(input.value);
    }
    return copy;
  }

  // A node of one result that is like a value of the graph.
  ValueId add(Node const& origin, std::string_view target, std::vector<NamedArgument> inputs, ValueId like) {
    auto const id = static_cast<ValueId>(result.values.size());
    Value value = graph_->value(like);
    value.name += "_now" + std::to_string(id);
    value.tensor.strides.clear();
    result.values.push_back(std::move(value));
    Node node = origin;
    node.target = target;
    node.inputs = std::move(inputs);
    node.outputs = {TensorRef{id}};
    push(std::move(node));
    return id;
  }

  void push(Node node) { append_node(result, std::move(node)); }

  Graph const* graph_;
  Sizes const* sizes_;
  std::map<ValueId, View> views_;
  std::map<ValueId, ValueId> opaque_;  ///< values that may share the memory of another in a way that is not followed
  std::map<ValueId, ValueId> now_;
  std::set<ValueId> stale_;
};

}  // namespace

bool switches_gradients_off(Graph const& graph) {
  return std::ranges::any_of(graph.nodes, [](Node const& node) {
    return node.target == "higher_order.wrap_with_set_grad_enabled" ||
           std::ranges::any_of(node.inputs, [](NamedArgument const& input) {
             auto const* const subgraph = std::get_if<SubgraphRef>(&input.value);
             return subgraph != nullptr && switches_gradients_off(*subgraph->graph);
           });
  });
}

Graph without_overwriting(Graph const& graph, Sizes const& sizes, bool has_parts_without_gradients) {
  bool const overwrites = std::ranges::any_of(graph.nodes, [](Node const& node) { return in_place(node.target); });
  return overwrites && !has_parts_without_gradients ? std::move(Rewriter(graph, sizes).result) : graph;
}

}  // namespace graticule::program::detail
