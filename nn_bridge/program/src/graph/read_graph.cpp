// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "graph/graph_reader.hpp"
#include "graph/nodes.hpp"

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

// The tensor or number that it is; -1 for another argument.
ValueId value_of(Argument const& argument) {
  auto const* const tensor = std::get_if<TensorRef>(&argument);
  auto const* const symbol = std::get_if<SymbolRef>(&argument);
  return tensor != nullptr ? tensor->value : symbol != nullptr ? symbol->value : -1;
}

Argument read_constant(detail::GraphReader const& reader, Json const& value, std::string_view place) {
  if (!detail::one_of(detail::alternative(value, place).name,
                      {"as_none", "as_int", "as_float", "as_bool", "as_string"})) {
    detail::malformed(place, "a text is expected");
  }
  return reader.argument(value, place);
}

InputSpec read_input(detail::GraphReader const& reader, Json const& json, std::string_view place) {
  using Kind = InputSpec::Kind;
  auto const [kind, spec] = detail::alternative(json, place);
  if (kind == "user_input") {
    Argument value = reader.argument(detail::member(spec, "arg", place), place);
    ValueId const id = value_of(value);
    return {Kind::user, id < 0 ? std::string() : reader.graph().value(id).name, std::move(value), true};
  }
  if (kind == "constant_input") {
    return {Kind::user, detail::text(spec, "name", place),
            read_constant(reader, detail::member(spec, "value", place), place), true};
  }
  if (!detail::one_of(kind, {"parameter", "buffer", "tensor_constant"})) {
    refuse("an input", kind);
  }
  Kind const own = kind == "parameter" ? Kind::parameter : kind == "buffer" ? Kind::buffer : Kind::constant;
  bool const persistent = own == Kind::buffer ? detail::as_boolean(detail::member(spec, "persistent", place), place)
                                              : own == Kind::parameter;
  return {own, detail::text(spec, (kind + "_name").c_str(), place), same_value(reader, spec, place), persistent};
}

OutputSpec read_output(detail::GraphReader const& reader, Json const& json, std::string_view place) {
  using Kind = OutputSpec::Kind;
  auto const [kind, spec] = detail::alternative(json, place);
  if (kind == "user_output") {
    return {Kind::user, {}, reader.argument(detail::member(spec, "arg", place), place)};
  }
  if (kind == "loss_output") {
    return {Kind::user, {}, same_value(reader, spec, place)};
  }
  std::string const mutated = kind.substr(0, kind.find("_mutation"));
  if (kind != mutated + "_mutation" || !detail::one_of(mutated, {"buffer", "parameter", "user_input"})) {
    refuse("an output", kind);
  }
  Kind const own = mutated == "buffer"      ? Kind::buffer_mutation
                   : mutated == "parameter" ? Kind::parameter_mutation
                                            : Kind::user_input_mutation;
  return {own, detail::text(spec, (mutated + "_name").c_str(), place), same_value(reader, spec, place)};
}

template <class Specs>
void check_same(Specs const& specs, std::vector<Argument> const& in_graph, std::string const& what) {
  if (specs.size() != in_graph.size()) {
    detail::malformed("the signature", "it has " + std::to_string(specs.size()) + " " + what + "s, the graph " +
                                           std::to_string(in_graph.size()));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (value_of(specs[i].value) != value_of(in_graph[i])) {
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
