// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/operators.hpp>

#include "cut_moves.hpp"
#include "graph/nodes.hpp"
#include "node_shapes.hpp"
#include "passes.hpp"
#include "rules.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::program::detail {

namespace {

std::optional<ValueId> single_tensor(Argument const* argument) {
  auto const* const tensor = std::get_if<TensorRef>(argument);
  return tensor == nullptr ? std::nullopt : std::optional(tensor->value);
}

bool changes_order(std::string_view target) {
  return one_of(target, {"aten.permute.default", "aten.transpose.int", "aten.t.default"});
}

bool changes_sizes(std::string_view target) {
  return one_of(target, {"aten.view.default", "aten.unsqueeze.default", "aten.squeeze.dim", "aten.squeeze.default",
                         "aten.squeeze.dims", "aten.unflatten.int"});
}

/// Rewrites one graph; ids in the keys are those of the graph that is read.
class Rewriter {
 public:
  Rewriter(Graph const& graph, Sizes const& sizes, std::vector<ValueId> const& user_inputs)
      : graph_(&graph), sizes_(&sizes), memory_(graph.values.size()), tensors_(graph.values.size()) {
    result.values = graph.values;
    result.inputs = graph.inputs;
    auto const last = last_reads(graph);
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      tensors_[id].last_read = static_cast<std::size_t>(last[id] + 1);
      tensors_[id].alias_of = static_cast<ValueId>(id);
      tensors_[id].root = static_cast<ValueId>(id);
      if (graph.values[id].producer < 0) {
        begin_memory(static_cast<ValueId>(id), std::ranges::find(user_inputs, id) != user_inputs.end());
      }
    }
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      step(i);
    }
    result.outputs = graph.outputs;
    visit_tensors(result.outputs, [&](ValueId& id) { id = read(id); });
  }

  Graph result;

 private:
  /// What all views of one tensor share; kept under the value that it was made as.
  struct Memory {
    std::size_t last_read = 0;       ///< the last place that reads a tensor of it so far, counted from 1
    std::size_t last_lost_read = 0;  ///< the same of tensors without a way back
    std::int64_t version = 0;        ///< counts the writes that views have to follow
  };

  /// A tensor of the graph that is read.
  struct Tensor {
    std::size_t last_read = 0;   ///< the last place that reads it, counted from 1
    ValueId alias_of = -1;       ///< what an operator in place has overwritten, of which it has the name
    ValueId root = -1;           ///< whose memory it is
    bool goes_back = false;      ///< what is written to it can be put back into memory of the network or of its caller
    ValueId base = -1;           ///< what it is a view of; none for what has all of the memory
    Node const* view = nullptr;  ///< by which node; none for what an operator in place returns
    ValueId now = -1;            ///< the value with its present content, where that is another
    std::int64_t version = 0;    ///< of its memory, which that content has
  };

  void begin_memory(ValueId id, bool goes_back) {
    at(id).root = id;
    at(id).goes_back = goes_back;
    share(id);
  }

  // Counts the reads of a tensor, whose root is known, to those of its memory.
  void share(ValueId id) {
    Tensor& tensor = at(id);
    Memory& memory = memory_of(id);
    tensor.version = memory.version;
    memory.last_read = std::max(memory.last_read, tensor.last_read);
    if (!tensor.goes_back) {
      memory.last_lost_read = std::max(memory.last_lost_read, tensor.last_read);
    }
  }

  void join(ValueId id, ValueId other, bool goes_back) {
    at(id).root = at(other).root;
    at(id).goes_back = goes_back && at(other).goes_back;
    share(id);
  }

  void step(std::size_t place) {
    Node const& node = graph_->nodes[place];
    auto const self = single_tensor(node.input("self"));
    auto const out = node.outputs.size() == 1 ? single_tensor(&node.outputs[0]) : std::nullopt;
    if (in_place(node.target) && self && out) {
      step_in_place(node, place, *self, *out);
      return;
    }
    push(copy_of(node));
    bool const known = one_of(node.target, {"aten.alias.default", "aten.slice.Tensor", "aten.select.int"}) ||
                       changes_order(node.target) || changes_sizes(node.target);
    auto const shared = shared_memory(node);
    visit_tensors(node.outputs, [&](ValueId id) {
      auto const found = std::ranges::find(shared, id, &std::pair<ValueId, ValueId>::first);
      if (found != shared.end()) {
        join(id, found->second, out && known);
      } else {
        begin_memory(id, true);
      }
    });
    if (self && out && known) {
      at(*out).base = named(*self);
      at(*out).view = &node;
    }
  }

  // On a copy where another name of the memory is read later, and all such names can be kept up to date.
  void step_in_place(Node const& node, std::size_t place, ValueId self, ValueId out) {
    Memory const& memory = memory_of(self);
    bool const read_later = memory.last_read > place + 1;
    bool const rewrites = at(self).goes_back && read_later && memory.last_lost_read <= place + 1;
    if (rewrites) {
      overwrite(node, named(self), out);
      at(out).alias_of = named(self);
    } else {
      push(copy_of(node));
      // What nobody reads needs no new values.
      at(out).base = read_later ? named(self) : -1;
    }
    join(out, self, true);
  }

  void overwrite(Node const& node, ValueId self, ValueId out) {
    ValueId const written = add(node, "aten.clone.default", {{.name = "self", .value = TensorRef{read(self)}}}, self);
    Node copy = copy_of(node);
    std::ranges::find(copy.inputs, "self", &NamedArgument::name)->value = TensorRef{written};
    push(std::move(copy));
    // Bases first have the content of before, into which views put theirs.
    std::int64_t const version = memory_of(self).version + 1;
    ValueId values = out;
    for (ValueId id = self; id >= 0; id = at(id).base) {
      at(id).now = values;
      at(id).version = version;
      if (at(id).base >= 0) {
        values = put_back(at(id), values, node);
      }
    }
    memory_of(self).version = version;
  }

  // The base of a view with new values there.
  ValueId put_back(Tensor const& tensor, ValueId values, Node const& origin) {
    if (tensor.view == nullptr || tensor.view->target == "aten.alias.default") {
      return values;
    }
    Node const& of = *tensor.view;
    ValueId const base = tensor.base;
    if (changes_order(of.target)) {
      return add(origin, "aten.permute.default",
                 {{.name = "self", .value = TensorRef{values}}, {.name = "dims", .value = order_back(of, base)}}, base);
    }
    if (changes_sizes(of.target)) {
      return add(origin, "aten.reshape.default",
                 {{.name = "self", .value = TensorRef{values}}, {.name = "shape", .value = shape(base)}}, base);
    }
    std::vector<NamedArgument> inputs{{.name = "self", .value = TensorRef{read(base)}},
                                      {.name = "src", .value = TensorRef{values}}};
    for (NamedArgument const& input : of.inputs) {
      if (input.name != "self") {
        inputs.push_back(input);
      }
    }
    bool const slice = of.target == "aten.slice.Tensor";
    return add(origin, slice ? "aten.slice_scatter.default" : "aten.select_scatter.default", std::move(inputs), base);
  }

  // The permutation from a permuted tensor back to the tensor.
  [[nodiscard]] std::vector<std::int64_t> order_back(Node const& node, ValueId base) const {
    auto const ndim = static_cast<std::int64_t>(graph_->value(base).tensor.sizes.size());
    auto order = numbers_below(ndim);
    NodeShapes const shapes(*graph_, node, *sizes_);
    if (node.target == "aten.permute.default") {
      auto const dims = shapes.axes("dims", ndim, order);
      if (dims.size() != order.size()) {
        shapes.refuse("it does not name each axis once");
      }
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        order[index(dims[axis])] = static_cast<std::int64_t>(axis);
      }
    } else if (node.target == "aten.transpose.int") {
      std::swap(order.at(index(shapes.axis("dim0", 0, ndim))), order.at(index(shapes.axis("dim1", 0, ndim))));
    } else {
      std::ranges::reverse(order);
    }
    return order;
  }

  [[nodiscard]] Shape shape(ValueId id) const { return (*sizes_)(graph_->value(id).tensor).value_or(Shape{}); }

  // The value under which the present content of another is found; views of what was overwritten are made again.
  ValueId read(ValueId given) {
    std::vector<ValueId> old;
    ValueId id = named(given);
    while (at(id).base >= 0 && at(id).version != memory_of(id).version) {
      old.push_back(id);
      id = at(id).base;
    }
    ValueId content = at(id).now < 0 ? id : at(id).now;
    for (ValueId const view : old | std::views::reverse) {
      Tensor& tensor = at(view);
      content = tensor.view == nullptr ? content : viewed(*tensor.view, content, view);
      tensor.now = content;
      tensor.version = memory_of(view).version;
    }
    return content;
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

  [[nodiscard]] Node copy_of(Node const& node) {
    Node copy = node;
    visit_tensors(copy.inputs, [&](ValueId& id) { id = read(id); });
    return copy;
  }

  // A node of one result that is like a value of the graph.
  ValueId add(Node const& origin, std::string_view target, std::vector<NamedArgument> inputs, ValueId like) {
    Value value = graph_->value(like);
    value.name += "_now" + std::to_string(result.values.size());
    value.tensor.strides.clear();
    return append_node(result, origin, target, std::move(inputs), std::move(value));
  }

  void push(Node node) { append_node(result, std::move(node)); }

  [[nodiscard]] Tensor& at(ValueId id) { return tensors_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Memory& memory_of(ValueId id) { return memory_[static_cast<std::size_t>(at(id).root)]; }
  [[nodiscard]] ValueId named(ValueId id) { return at(id).alias_of; }

  Graph const* graph_;
  Sizes const* sizes_;
  std::vector<Memory> memory_;  ///< of roots
  std::vector<Tensor> tensors_;
};

}  // namespace

// By LibTorch's rules: views, operators that return their tensor where nothing has to be done, and products of one
// tensor, which only order its axes.
std::vector<std::pair<ValueId, ValueId>> shared_memory(Node const& node) {
  std::string_view const base = base_name(node.target);
  auto const* const train = std::get_if<bool>(node.input("train"));
  bool const idle = base == "dropout" && train != nullptr && !*train;
  std::vector<ValueId> sources;
  for (NamedArgument const& input : node.inputs) {
    bool const listed = std::holds_alternative<Tensors>(input.value);
    if (input.name == "self" || (idle && input.name == "input") ||
        (listed && one_of(base, {"broadcast_tensors", "einsum", "meshgrid"}))) {
      visit_tensors(input.value, [&](ValueId id) { sources.push_back(id); });
    }
  }
  bool const copies = base != "_to_copy" && base.ends_with("_copy");
  bool const shares = (operator_class(node.target) == OperatorClass::view && !copies) || idle ||
                      (base == "einsum" && sources.size() == 1) ||
                      one_of(base, {"_conj", "_neg_view", "_to_copy", "alias", "conj", "contiguous", "detach", "imag",
                                    "lift_fresh", "meshgrid", "positive", "real", "resolve_conj", "resolve_neg", "to",
                                    "type_as", "unfold", "view_as_complex", "view_as_real"});
  std::vector<std::pair<ValueId, ValueId>> pairs;
  visit_tensors(node.outputs, [&](ValueId id) {
    if (shares && (sources.size() == 1 || pairs.size() < sources.size())) {
      pairs.emplace_back(id, sources[sources.size() == 1 ? 0 : pairs.size()]);
    }
  });
  return pairs;
}

SharedMemory::SharedMemory(Graph const& graph) : of_(graph.values.size()) {
  std::iota(of_.begin(), of_.end(), 0);
  for (Node const& node : graph.nodes) {
    for (auto const& [result, source] : shared_memory(node)) {
      join(result, source);
    }
    if (auto const self = single_tensor(node.input("self")); self && in_place(node.target)) {
      visit_tensors(node.outputs, [&](ValueId id) { join(id, *self); });
    }
  }
}

ValueId SharedMemory::root(ValueId id) const {
  while (of_[static_cast<std::size_t>(id)] != id) {
    id = of_[static_cast<std::size_t>(id)];
  }
  return id;
}

// The result is later than its source.
void SharedMemory::join(ValueId result, ValueId source) { of_[static_cast<std::size_t>(root(result))] = root(source); }

bool switches_gradients_off(Graph const& graph) {
  return std::ranges::any_of(graph.nodes, [](Node const& node) {
    return node.target == "higher_order.wrap_with_set_grad_enabled" ||
           std::ranges::any_of(node.inputs, [](NamedArgument const& input) {
             auto const* const subgraph = std::get_if<SubgraphRef>(&input.value);
             return subgraph != nullptr && switches_gradients_off(*subgraph->graph);
           });
  });
}

Graph without_overwriting(Graph const& graph, Sizes const& sizes, std::vector<ValueId> const& user_inputs,
                          bool has_parts_without_gradients) {
  bool const overwrites = std::ranges::any_of(graph.nodes, [](Node const& node) { return in_place(node.target); });
  return overwrites && !has_parts_without_gradients ? std::move(Rewriter(graph, sizes, user_inputs).result) : graph;
}

void return_written_inputs(ExportedGraph& program) {
  Graph const flat = inlined(program.graph);
  SharedMemory const memory(flat);
  std::set<ValueId> written;
  for (Node const& node : flat.nodes) {
    if (auto const self = single_tensor(node.input("self")); self && in_place(node.target)) {
      written.insert(memory.root(*self));
    }
  }
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    auto const id = single_tensor(&flat.inputs[i]);
    std::string const& name = program.inputs[i].name;
    auto const returned = [&](OutputSpec const& output) {
      return output.kind == OutputSpec::Kind::user_input_mutation && output.name == name;
    };
    if (program.inputs[i].kind == InputSpec::Kind::user && id && written.contains(*id) &&
        std::ranges::none_of(program.outputs, returned)) {
      program.outputs.push_back({OutputSpec::Kind::user_input_mutation, name, program.inputs[i].value});
      program.graph.outputs.push_back(program.inputs[i].value);
    }
  }
}

}  // namespace graticule::program::detail
