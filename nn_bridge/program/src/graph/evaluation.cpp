// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/evaluation.hpp>

#include "graph/nodes.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

namespace graticule::program::detail {

namespace {

constexpr std::array<char const*, 2> statistics{"running_mean", "running_var"};

void set_flag(Node& node, char const* name, bool value) {
  auto const found = std::ranges::find(node.inputs, std::string_view(name), &NamedArgument::name);
  if (found != node.inputs.end()) {
    found->value = value;
  } else {
    node.inputs.push_back({name, value, false});
  }
}

/// The flag with which a norm takes the statistics of its input; null for a norm that always does.
char const* flag_of(std::string_view target) {
  constexpr std::array<std::string_view, 4> trained{"aten.batch_norm.default", "aten.native_batch_norm.default",
                                                    "aten._native_batch_norm_legit.default",
                                                    "aten._native_batch_norm_legit_functional.default"};
  if (target == "aten.instance_norm.default") {
    return "use_input_stats";
  }
  return std::ranges::find(trained, target) != trained.end() ? "training" : nullptr;
}

/// Statistics of the input that only a backward in training reads: nodes in evaluation mode give none.
void empty_saved_statistics(Graph& graph, Node const& node) {
  for (std::size_t o = 1; o < std::min<std::size_t>(3, node.outputs.size()); ++o) {
    if (auto const* const saved = std::get_if<TensorRef>(&node.outputs[o])) {
      graph.values.at(static_cast<std::size_t>(saved->value)).tensor.sizes = {Extent{0, {}}};
    }
  }
}

void evaluate(Graph& graph);

void evaluate(Graph& graph, Node& node) {
  for (NamedArgument& argument : node.inputs) {
    if (auto* const part = std::get_if<SubgraphRef>(&argument.value); part != nullptr && part->graph != nullptr) {
      auto inner = std::make_shared<Graph>(*part->graph);
      evaluate(*inner);
      part->graph = inner;
    }
  }
  bool const always = node.target.find("no_training") != std::string::npos;
  bool const has_statistics = std::get_if<TensorRef>(node.input(statistics[0])) != nullptr;
  if (!is_norm_by_channels(node) || always || !has_statistics) {
    return;
  }
  char const* const flag = flag_of(node.target);
  if (flag == nullptr) {
    refuse_node(node, "it has no evaluation mode; export the network after model.eval()");
  }
  set_flag(node, flag, false);
  empty_saved_statistics(graph, node);
}

void evaluate(Graph& graph) {
  for (Node& node : graph.nodes) {
    evaluate(graph, node);
  }
}

/// Inputs of a graph whose memory its nodes write.
void find_written(Graph const& graph, std::set<ValueId>& written) {
  auto const note = [&](Argument const* argument) {
    if (auto const* const tensor = std::get_if<TensorRef>(argument)) {
      written.insert(tensor->value);
    }
  };
  for (Node const& node : graph.nodes) {
    if (is_norm_by_channels(node)) {
      for (char const* name : statistics) {
        note(node.input(name));
      }
    }
    if (in_place(node.target) && !node.inputs.empty()) {
      note(&node.inputs.front().value);
    }
    // What a part writes of what it is given.
    visit_arguments(node.inputs, [&](Argument const& argument) {
      auto const* const part = std::get_if<SubgraphRef>(&argument);
      std::set<ValueId> inner;
      if (part != nullptr && part->graph != nullptr) {
        find_written(*part->graph, inner);
      }
      if (!inner.empty()) {
        visit_arguments(node.inputs, [&](Argument const& given) { note(&given); });
      }
    });
  }
}

}  // namespace

ExportedGraph evaluated(ExportedGraph const& program) {
  ExportedGraph result = program;
  evaluate(result.graph);
  for (OutputSpec const& output : result.outputs) {
    auto const* const tensor = std::get_if<TensorRef>(&output.value);
    bool const is_statistic =
        std::ranges::any_of(statistics, [&](std::string_view name) { return output.name.ends_with(name); });
    if (output.kind != OutputSpec::Kind::buffer_mutation || !is_statistic || tensor == nullptr) {
      continue;
    }
    NodeId const source = result.graph.value(tensor->value).producer;
    if (source >= 0 && !is_norm_by_channels(result.graph.nodes[static_cast<std::size_t>(source)])) {
      throw Error(Fault::input, "RefusedProgram",
                  "'" + output.name + "' is computed by " +
                      result.graph.nodes[static_cast<std::size_t>(source)].describe() +
                      ", not by a norm: for evaluation export the network after model.eval()");
    }
  }
  return result;
}

std::set<std::string> written_buffers(ExportedGraph const& program) {
  std::set<std::string> names;
  std::set<ValueId> written;
  find_written(program.graph, written);
  for (InputSpec const& input : program.inputs) {
    auto const* const tensor = std::get_if<TensorRef>(&input.value);
    if (input.kind == InputSpec::Kind::buffer && tensor != nullptr && written.contains(tensor->value)) {
      names.insert(input.name);
    }
  }
  for (OutputSpec const& output : program.outputs) {
    if (output.kind == OutputSpec::Kind::buffer_mutation) {
      names.insert(output.name);
    }
  }
  return names;
}

}  // namespace graticule::program::detail
