// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/graph.hpp>

#include "graph/nodes.hpp"

#include <algorithm>
#include <cstddef>

namespace graticule::program {

std::string_view name(Dtype dtype) {
  switch (dtype) {
    case Dtype::unknown: return "unknown";
    case Dtype::u8: return "u8";
    case Dtype::i8: return "i8";
    case Dtype::i16: return "i16";
    case Dtype::i32: return "i32";
    case Dtype::i64: return "i64";
    case Dtype::f16: return "f16";
    case Dtype::f32: return "f32";
    case Dtype::f64: return "f64";
    case Dtype::complex_f16: return "complex_f16";
    case Dtype::complex_f32: return "complex_f32";
    case Dtype::complex_f64: return "complex_f64";
    case Dtype::boolean: return "boolean";
    case Dtype::bf16: return "bf16";
    case Dtype::u16: return "u16";
  }
  return "unknown";
}

std::int64_t item_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::unknown: return 0;
    case Dtype::u8:
    case Dtype::i8:
    case Dtype::boolean: return 1;
    case Dtype::i16:
    case Dtype::u16:
    case Dtype::f16:
    case Dtype::bf16: return 2;
    case Dtype::i32:
    case Dtype::f32:
    case Dtype::complex_f16: return 4;
    case Dtype::i64:
    case Dtype::f64:
    case Dtype::complex_f32: return 8;
    case Dtype::complex_f64: return 16;
  }
  return 0;
}

Argument const* Node::input(std::string_view argument) const {
  auto const found = std::ranges::find(inputs, argument, &NamedArgument::name);
  return found == inputs.end() ? nullptr : &found->value;
}

std::string_view Node::module_path() const {
  return modules.empty() ? std::string_view() : std::string_view(modules.back().path);
}

std::string Node::source_line() const {
  // Of lines of the form   File "net.py", line 27, in forward   the last one outside PyTorch, or else the last.
  std::string_view const file = "File \"";
  std::string_view const line = "\", line ";
  std::string last;
  std::string own;
  for (auto begin = stack_trace.find(file); begin != std::string::npos; begin = stack_trace.find(file, begin + 1)) {
    auto const name_begin = begin + file.size();
    auto const name_end = stack_trace.find(line, name_begin);
    if (name_end == std::string::npos) {
      break;
    }
    auto const number = name_end + line.size();
    auto const number_end = std::min(stack_trace.find_first_not_of("0123456789", number), stack_trace.size());
    std::string const path = stack_trace.substr(name_begin, name_end - name_begin);
    last = path + ":" + stack_trace.substr(number, number_end - number);
    bool const of_torch = path.starts_with('<') || path.find("/torch/") != std::string::npos;
    own = of_torch ? own : last;
  }
  return own.empty() ? last : own;
}

std::string Node::describe() const {
  std::string text = target;
  if (!module_path().empty()) {
    text += " in " + std::string(module_path());
  }
  if (std::string const line = source_line(); !line.empty()) {
    text += " (" + line + ")";
  }
  return text;
}

ValueId Graph::find(std::string_view value_name) const {
  auto const found = std::ranges::find(values, value_name, &Value::name);
  return found == values.end() ? -1 : static_cast<ValueId>(found - values.begin());
}

std::string_view detail::base_name(std::string_view target) {
  auto const first = target.find('.');
  auto const second = first == std::string_view::npos ? first : target.find('.', first + 1);
  return second == std::string_view::npos ? std::string_view() : target.substr(first + 1, second - first - 1);
}

bool detail::in_place(std::string_view target) {
  std::string_view const base = base_name(target);
  return base.ends_with('_') && !base.ends_with("__");
}

bool detail::is_norm_by_channels(Node const& node) {
  return node.target.find("batch_norm") != std::string::npos || node.target.find("instance_norm") != std::string::npos;
}

void detail::refuse_node(Node const& node, std::string const& why) {
  throw Error(Fault::input, "RefusedProgram", "refused: " + node.describe() + ": " + why);
}

void detail::broken_node(Node const& node, std::string const& why) {
  throw Error(Fault::input, "BrokenFile", node.describe() + ": " + why);
}

std::vector<NodeId> detail::last_reads(Graph const& graph) {
  std::vector<NodeId> last(graph.values.size(), -1);
  NodeId place = 0;
  auto const note = [&](ValueId id) { last[static_cast<std::size_t>(id)] = place; };
  for (Node const& node : graph.nodes) {
    visit_tensors(node.inputs, note);
    ++place;
  }
  visit_tensors(graph.outputs, note);
  return last;
}

double detail::real_input(Node const& node, std::string_view name, double otherwise) {
  if (auto const* const whole = std::get_if<std::int64_t>(node.input(name))) {
    return static_cast<double>(*whole);
  }
  auto const* const real = std::get_if<double>(node.input(name));
  return real == nullptr ? otherwise : *real;
}

}  // namespace graticule::program
