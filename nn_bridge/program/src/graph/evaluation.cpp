// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/evaluation.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

namespace graticule::program::detail {

namespace {

constexpr std::array<char const*, 2> statistics{"running_mean", "running_var"};

bool is_norm(Node const& node) {
  return node.target.find("batch_norm") != std::string::npos || node.target.find("instance_norm") != std::string::npos;
}

bool has_statistics(Node const& node) {
  auto const* const mean = node.input(statistics[0]);
  return mean != nullptr && std::holds_alternative<TensorRef>(*mean);
}

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
      graph.values.at(static_cast<std::size_t>(saved->value)).tensor.sizes = {Extent{0}};
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
  if (!is_norm(node) || always || !has_statistics(node)) {
    return;
  }
  char const* const flag = flag_of(node.target);
  if (flag == nullptr) {
    throw Error(Fault::input, "RefusedProgram",
                "refused: " + node.describe() + ": it has no evaluation mode; export the network after model.eval()");
  }
  set_flag(node, flag, false);
  empty_saved_statistics(graph, node);
}

void evaluate(Graph& graph) {
  for (Node& node : graph.nodes) {
    evaluate(graph, node);
  }
}

/// The node that gives a value; null for an input.
Node const* source_of(Graph const& graph, ValueId value) {
  for (Node const& node : graph.nodes) {
    for (Argument const& output : node.outputs) {
      auto const* const tensor = std::get_if<TensorRef>(&output);
      if (tensor != nullptr && tensor->value == value) {
        return &node;
      }
    }
  }
  return nullptr;
}

/// Inputs of a graph whose memory its nodes write.
void find_written(Graph const& graph, std::set<ValueId>& written) {
  auto const note = [&](Argument const* argument) {
    if (auto const* const tensor = argument != nullptr ? std::get_if<TensorRef>(argument) : nullptr) {
      written.insert(tensor->value);
    }
  };
  for (Node const& node : graph.nodes) {
    if (is_norm(node)) {
      for (char const* name : statistics) {
        note(node.input(name));
      }
    }
    auto const end = node.target.rfind('.');
    if (end != std::string::npos && end > 0 && node.target[end - 1] == '_' && !node.inputs.empty()) {
      note(&node.inputs.front().value);  // in place, such as aten.add_.Tensor
    }
    // What a part writes of what it is given.
    for (NamedArgument const& argument : node.inputs) {
      auto const* const part = std::get_if<SubgraphRef>(&argument.value);
      if (part == nullptr || part->graph == nullptr) {
        continue;
      }
      std::set<ValueId> inner;
      find_written(*part->graph, inner);
      if (!inner.empty()) {
        for (NamedArgument const& given : node.inputs) {
          note(&given.value);
        }
      }
    }
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
    Node const* const source = source_of(result.graph, tensor->value);
    if (source != nullptr && !is_norm(*source)) {
      throw Error(Fault::input, "RefusedProgram",
                  "'" + output.name + "' is computed by " + source->describe() +
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
