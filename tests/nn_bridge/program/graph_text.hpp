// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Texts of small exported graphs, in the form that `torch.export` writes.
namespace graticule::test {

using Json = nlohmann::json;

inline Json size_of(std::int64_t size) { return {{"as_int", size}}; }
inline Json size_of(std::string const& expression, std::int64_t hint) {
  return {{"as_expr", {{"expr_str", expression}, {"hint", {{"as_int", hint}}}}}};
}

/// Metadata of a dense tensor of f32, or of the type of that number.
inline Json tensor_meta(std::vector<std::int64_t> const& sizes, int dtype = 7) {
  Json size_list = Json::array();
  Json stride_list = Json::array();
  std::int64_t stride = 1;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    size_list.insert(size_list.begin(), size_of(*size));
    stride_list.insert(stride_list.begin(), size_of(stride));
    stride *= *size;
  }
  return {{"dtype", dtype},
          {"sizes", size_list},
          {"strides", stride_list},
          {"storage_offset", size_of(0)},
          {"requires_grad", false},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"layout", 7}};
}

inline Json tensor(std::string const& name) { return {{"as_tensor", {{"name", name}}}}; }

inline Json node(std::string const& target, std::vector<std::pair<std::string, Json>> const& inputs,
                 std::vector<Json> const& outputs) {
  Json arguments = Json::array();
  for (auto const& [name, value] : inputs) {
    arguments.push_back({{"name", name}, {"arg", value}, {"kind", 1}});
  }
  return {{"target", "torch.ops." + target},
          {"inputs", arguments},
          {"outputs", outputs},
          {"name", nullptr},
          {"metadata",
           {{"nn_module_stack", "L__self__,,net.Net;L__self__head,head,net.Head"},
            {"stack_trace",
             "File \"net.py\", line 9, in forward\n    x = self.head(x)\n  File \"head.py\", line 27, in forward\n    "
             "return x"}}}};
}

/// A program with one user input "x", no parameters and no nodes, which returns its input.
inline Json empty_program(std::vector<std::int64_t> const& sizes) {
  Json graph = {{"inputs", {tensor("x")}},          {"outputs", {tensor("x")}},
                {"nodes", Json::array()},           {"tensor_values", {{"x", tensor_meta(sizes)}}},
                {"sym_int_values", Json::object()}, {"sym_bool_values", Json::object()}};
  Json signature = {{"input_specs", {{{"user_input", {{"arg", tensor("x")}}}}}},
                    {"output_specs", {{{"user_output", {{"arg", tensor("x")}}}}}}};
  return {{"graph_module", {{"graph", graph}, {"signature", signature}, {"module_call_graph", Json::array()}}},
          {"opset_version", {{"aten", 10}}},
          {"range_constraints", Json::object()},
          {"schema_version", {{"major", 8}, {"minor", 20}}},
          {"torch_version", "2.13.0"}};
}

inline Json& graph_of(Json& program) { return program["graph_module"]["graph"]; }
inline Json& signature_of(Json& program) { return program["graph_module"]["signature"]; }

/// Appends a node with one result, a tensor of these sizes named `result`.
inline void append(Json& program, std::string const& target, std::vector<std::pair<std::string, Json>> const& inputs,
                   std::string const& result, std::vector<std::int64_t> const& sizes, int dtype = 7) {
  graph_of(program)["nodes"].push_back(node(target, inputs, {tensor(result)}));
  graph_of(program)["tensor_values"][result] = tensor_meta(sizes, dtype);
}

/// Makes the program return that tensor.
inline void set_output(Json& program, std::string const& result) {
  graph_of(program)["outputs"] = {tensor(result)};
  signature_of(program)["output_specs"] = {{{"user_output", {{"arg", tensor(result)}}}}};
}

/// Adds an input before the user's: `kind` is "parameter", "buffer" or "tensor_constant".
inline void add_weight(Json& program, std::string const& kind, std::string const& value, std::string const& name,
                       std::vector<std::int64_t> const& sizes, int dtype = 7) {
  Json& inputs = graph_of(program)["inputs"];
  Json& specs = signature_of(program)["input_specs"];
  Json spec = {{"arg", {{"name", value}}}, {kind + "_name", name}};
  if (kind == "buffer") {
    spec["persistent"] = true;
  }
  inputs.insert(inputs.end() - 1, tensor(value));
  specs.insert(specs.end() - 1, Json{{kind, spec}});
  graph_of(program)["tensor_values"][value] = tensor_meta(sizes, dtype);
}

}  // namespace graticule::test
