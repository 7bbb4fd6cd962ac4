// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "graph/graph_reader.hpp"

#include <cstddef>
#include <utility>

namespace graticule::program {

namespace {

using detail::Json;

constexpr std::int64_t known_major = 8;

void check_version(Json const& json, ExportedGraph& program) {
  Json const& version = detail::table(json, "schema_version", "the program");
  program.schema_major = detail::integer(version, "major", "schema_version");
  program.schema_minor = detail::integer(version, "minor", "schema_version");
  if (program.schema_major != known_major) {
    throw Error(Fault::input, program.schema_major > known_major ? "UnsupportedFile" : "RefusedProgram",
                "the program has schema version " + std::to_string(program.schema_major) + "." +
                    std::to_string(program.schema_minor) +
                    ", and this Graticule reads version 8, which PyTorch 2.13 writes");
  }
}

Argument same_value(detail::GraphReader const& reader, Json const& spec, std::string_view place) {
  return reader.argument(Json{{"as_tensor", detail::member(spec, "arg", place)}}, place);
}

[[noreturn]] void refuse(std::string_view what, std::string_view kind) {
  throw Error(Fault::input, "RefusedProgram",
              "the program has " + std::string(what) + " of the kind '" + std::string(kind) +
                  "', which is neither a tensor nor a number");
}

Argument read_constant(Json const& value, std::string_view place) {
  auto const held = detail::alternative(value, place);
  if (held.name == "as_none") {
    return None{};
  }
  if (held.name == "as_int") {
    return detail::as_integer(held.value, place);
  }
  if (held.name == "as_float") {
    return detail::as_real(held.value, place);
  }
  if (held.name == "as_bool") {
    return detail::as_boolean(held.value, place);
  }
  return detail::as_text(held.value, place);
}

InputSpec read_input(detail::GraphReader const& reader, Json const& json, std::string_view place) {
  auto const [kind, spec] = detail::alternative(json, place);
  if (kind == "parameter") {
    return {InputSpec::Kind::parameter, detail::text(spec, "parameter_name", place), same_value(reader, spec, place),
            true};
  }
  if (kind == "buffer") {
    bool const persistent = detail::as_boolean(detail::member(spec, "persistent", place), place);
    return {InputSpec::Kind::buffer, detail::text(spec, "buffer_name", place), same_value(reader, spec, place),
            persistent};
  }
  if (kind == "tensor_constant") {
    return {InputSpec::Kind::constant, detail::text(spec, "tensor_constant_name", place),
            same_value(reader, spec, place), false};
  }
  if (kind == "constant_input") {
    return {InputSpec::Kind::user, detail::text(spec, "name", place),
            read_constant(detail::member(spec, "value", place), place), true};
  }
  if (kind != "user_input") {
    refuse("an input", kind);
  }
  InputSpec input{InputSpec::Kind::user, {}, reader.argument(detail::member(spec, "arg", place), place), true};
  if (auto const* tensor = std::get_if<TensorRef>(&input.value)) {
    input.name = reader.graph().value(tensor->value).name;
  } else if (auto const* symbol = std::get_if<SymbolRef>(&input.value)) {
    input.name = reader.graph().value(symbol->value).name;
  }
  return input;
}

OutputSpec read_output(detail::GraphReader const& reader, Json const& json, std::string_view place) {
  auto const [kind, spec] = detail::alternative(json, place);
  if (kind == "user_output") {
    return {OutputSpec::Kind::user, {}, reader.argument(detail::member(spec, "arg", place), place)};
  }
  if (kind == "loss_output") {
    return {OutputSpec::Kind::user, {}, same_value(reader, spec, place)};
  }
  if (kind == "buffer_mutation") {
    return {OutputSpec::Kind::buffer_mutation, detail::text(spec, "buffer_name", place),
            same_value(reader, spec, place)};
  }
  if (kind == "parameter_mutation") {
    return {OutputSpec::Kind::parameter_mutation, detail::text(spec, "parameter_name", place),
            same_value(reader, spec, place)};
  }
  if (kind == "user_input_mutation") {
    return {OutputSpec::Kind::user_input_mutation, detail::text(spec, "user_input_name", place),
            same_value(reader, spec, place)};
  }
  refuse("an output", kind);
}

bool same(Argument const& a, Argument const& b) {
  auto const* tensor = std::get_if<TensorRef>(&a);
  auto const* symbol = std::get_if<SymbolRef>(&a);
  if (tensor != nullptr && std::holds_alternative<TensorRef>(b)) {
    return tensor->value == std::get<TensorRef>(b).value;
  }
  if (symbol != nullptr && std::holds_alternative<SymbolRef>(b)) {
    return symbol->value == std::get<SymbolRef>(b).value;
  }
  auto const is_value = [](Argument const& one) {
    return std::holds_alternative<TensorRef>(one) || std::holds_alternative<SymbolRef>(one);
  };
  return !is_value(a) && !is_value(b);
}

template <class Specs>
void check_same(Specs const& specs, std::vector<Argument> const& in_graph, std::string const& what) {
  if (specs.size() != in_graph.size()) {
    detail::malformed("the signature", "it has " + std::to_string(specs.size()) + " " + what + "s, the graph " +
                                           std::to_string(in_graph.size()));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!same(specs[i].value, in_graph[i])) {
      detail::malformed("the signature", what + " " + std::to_string(i) + " is another value than in the graph");
    }
  }
}

void check_signature(ExportedGraph const& program) {
  check_same(program.inputs, program.graph.inputs, "input");
  check_same(program.outputs, program.graph.outputs, "output");
}

std::map<std::string, ExportedGraph::Range> read_ranges(Json const& json) {
  std::map<std::string, ExportedGraph::Range> ranges;
  for (auto const& [symbol, bounds] : detail::table(json, "range_constraints", "the program").items()) {
    std::string const place = "range_constraints of '" + symbol + "'";
    auto const bound = [&bounds = bounds, &place](char const* key) -> std::optional<std::int64_t> {
      Json const& value = detail::member(bounds, key, place);
      return value.is_null() ? std::nullopt : std::optional(detail::as_integer(value, place));
    };
    ranges[symbol] = {bound("min_val"), bound("max_val")};
  }
  return ranges;
}

}  // namespace

ExportedGraph read_graph(std::string_view text) {
  Json const json = detail::parse_json(text, "models/model.json");
  ExportedGraph program;
  check_version(json, program);
  Json const& module = detail::table(json, "graph_module", "the program");
  detail::GraphReader reader(detail::table(module, "graph", "graph_module"), "the graph", 0);
  reader.read();
  Json const& signature = detail::table(module, "signature", "graph_module");
  for (Json const& input : detail::list(signature, "input_specs", "signature")) {
    program.inputs.push_back(
        read_input(reader, input, "input " + std::to_string(program.inputs.size()) + " of the signature"));
  }
  for (Json const& output : detail::list(signature, "output_specs", "signature")) {
    program.outputs.push_back(
        read_output(reader, output, "output " + std::to_string(program.outputs.size()) + " of the signature"));
  }
  program.graph = std::move(reader).take();
  check_signature(program);
  program.ranges = read_ranges(json);
  if (json.contains("torch_version")) {
    program.torch_version = detail::text(json, "torch_version", "the program");
  }
  if (json.contains("guards_code")) {
    for (Json const& guard : detail::list(json, "guards_code", "the program")) {
      program.guards.push_back(detail::as_text(guard, "guards_code"));
    }
  }
  return program;
}

}  // namespace graticule::program
