// SPDX-License-Identifier: BSD-3-Clause
// What all passes do with nodes: read their arguments, and make new ones.
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::program::detail {

[[nodiscard]] inline bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// "roll" of "aten.roll.default", "add_" of "aten.add_.Tensor"; nothing for a target of another form.
[[nodiscard]] std::string_view base_name(std::string_view target);
/// Whether an operator overwrites its first tensor, as "aten.add_.Tensor" does.
[[nodiscard]] bool in_place(std::string_view target);
/// Whether it is a batch or instance norm, of any kind.
[[nodiscard]] bool is_norm_by_channels(Node const& node);

[[nodiscard]] inline bool is_real(Dtype dtype) {
  return dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32 || dtype == Dtype::f64;
}
[[nodiscard]] inline bool is_complex(Dtype dtype) {
  return dtype == Dtype::complex_f16 || dtype == Dtype::complex_f32 || dtype == Dtype::complex_f64;
}

/// @throws Error `RefusedProgram` with operator, module path and source line
[[noreturn]] void refuse_node(Node const& node, std::string const& why);
/// @throws Error `BrokenFile`, likewise
[[noreturn]] void broken_node(Node const& node, std::string const& why);

/// Per value the place of the last node that reads it; behind the last node where the graph returns it, -1 where
/// nothing reads it.
[[nodiscard]] std::vector<NodeId> last_reads(Graph const& graph);

/// A number among the inputs of a node; `otherwise` where it is missing, or no integer or real.
[[nodiscard]] double real_input(Node const& node, std::string_view name, double otherwise);

template <class T>
concept AnArgument = std::same_as<std::remove_const_t<T>, Argument>;

/// Calls `visit` with the id of each tensor of an argument; it may change ids of one that is not const.
template <AnArgument A, class Visit>
void visit_tensors(A& argument, Visit const& visit) {
  if (auto* tensor = std::get_if<TensorRef>(&argument)) {
    visit(tensor->value);
  } else if (auto* tensors = std::get_if<Tensors>(&argument)) {
    std::ranges::for_each(*tensors, visit, &TensorRef::value);
  } else if (auto* optional = std::get_if<OptionalTensors>(&argument)) {
    for (auto& one : *optional) {
      if (one) {
        visit(one->value);
      }
    }
  }
}

/// The same of each value of an argument: tensors and numbers.
template <AnArgument A, class Visit>
void visit_values(A& argument, Visit const& visit) {
  visit_tensors(argument, visit);
  if (auto* number = std::get_if<SymbolRef>(&argument)) {
    visit(number->value);
  } else if (auto* integers = std::get_if<Integers>(&argument)) {
    for (auto& one : *integers) {
      if (auto* entry = std::get_if<SymbolRef>(&one)) {
        visit(entry->value);
      }
    }
  }
}

/// Calls `visit` with each of several arguments: the inputs or outputs of a node or of a graph.
template <std::ranges::range List, class Visit>
void visit_arguments(List& list, Visit const& visit) {
  for (auto& one : list) {
    if constexpr (requires { one.keyword; }) {
      visit(one.value);
    } else {
      visit(one);
    }
  }
}

/// The tensors of several arguments.
template <std::ranges::range List, class Visit>
void visit_tensors(List& list, Visit const& visit) {
  visit_arguments(list, [&](auto& argument) { visit_tensors(argument, visit); });
}

/// The tensors and numbers of several arguments.
template <std::ranges::range List, class Visit>
void visit_values(List& list, Visit const& visit) {
  visit_arguments(list, [&](auto& argument) { visit_values(argument, visit); });
}

/// The tensors of an argument, or of several.
template <class Arguments>
[[nodiscard]] std::vector<ValueId> tensors_of(Arguments const& arguments) {
  std::vector<ValueId> ids;
  visit_tensors(arguments, [&](ValueId id) { ids.push_back(id); });
  return ids;
}

/// Appends a node whose results are values of the graph already, and makes it their producer.
inline void append_node(Graph& graph, Node node) {
  auto const producer = static_cast<NodeId>(graph.nodes.size());
  visit_values(node.outputs, [&](ValueId id) { graph.values[static_cast<std::size_t>(id)].producer = producer; });
  graph.nodes.push_back(std::move(node));
}

/// Appends a node like `origin` with another target and inputs, and `value` as its one result. Returns the value's id.
inline ValueId append_node(Graph& graph, Node origin, std::string_view target, std::vector<NamedArgument> inputs,
                           Value value) {
  auto const id = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(std::move(value));
  origin.target = target;
  origin.inputs = std::move(inputs);
  origin.outputs = {TensorRef{id}};
  append_node(graph, std::move(origin));
  return id;
}

}  // namespace graticule::program::detail
