// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/graph.hpp>

#include "expect_error.hpp"
#include "graph_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

using namespace graticule::program;
using namespace graticule::test;

namespace {

// y = conv2d(x, w, padding=[1, 1]) in module "head", from head.py:27.
Json one_convolution() {
  Json program = empty_program({1, 2, 8, 16});
  add_weight(program, "parameter", "p_head_weight", "head.weight", {4, 2, 3, 3});
  append(program, "aten.conv2d.default",
         {{"input", tensor("x")}, {"weight", tensor("p_head_weight")}, {"padding", {{"as_ints", {1, 1}}}}}, "y",
         {1, 4, 8, 16});
  set_output(program, "y");
  return program;
}

TEST(ReadGraph, returns_nodes_values_and_signature) {
  ExportedGraph const program = read_graph(one_convolution().dump());

  ASSERT_EQ(program.graph.nodes.size(), 1u);
  Node const& node = program.graph.nodes[0];
  EXPECT_EQ(node.target, "aten.conv2d.default");
  EXPECT_EQ(node.module_path(), "head");
  EXPECT_EQ(node.source_line(), "head.py:27");
  EXPECT_EQ(node.describe(), "aten.conv2d.default in head (head.py:27)");
  ASSERT_NE(node.input("padding"), nullptr);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(*node.input("padding")), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(node.input("stride"), nullptr);
  Value const& result = program.graph.value(std::get<TensorRef>(node.outputs.at(0)).value);
  EXPECT_EQ(result.producer, 0);
  EXPECT_EQ(result.tensor.dtype, Dtype::f32);
  EXPECT_EQ(result.tensor.sizes.at(3).value, 16);
  EXPECT_EQ(result.tensor.strides.at(1).value, 8 * 16);
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.inputs[0].kind, InputSpec::Kind::parameter);
  EXPECT_EQ(program.inputs[0].name, "head.weight");
  EXPECT_EQ(program.inputs[1].kind, InputSpec::Kind::user);
  EXPECT_EQ(program.inputs[1].name, "x");
  EXPECT_EQ(program.schema_minor, 20);
}

// What default decompositions make of y = conv2d(x, w).detach() and of z = relu(y), the latter within torch.no_grad.
Json decomposed(bool ends_within) {
  Json program = one_convolution();
  append(program, "aten.alias.default", {{"self", tensor("y")}}, "a", {1, 4, 8, 16});
  append(program, "aten.relu.default", {{"self", tensor("a")}}, "z", {1, 4, 8, 16});
  append(program, "aten.neg.default", {{"self", tensor("z")}}, "n", {1, 4, 8, 16});
  Json& nodes = graph_of(program)["nodes"];
  nodes[1]["metadata"]["torch_fn"] = "detach_1;method_descriptor.detach";
  for (std::size_t i = 2; i < (ends_within ? 4u : 3u); ++i) {
    nodes[i]["metadata"]["torch_fn"] = "wrap_with_set_grad_enabled;WrapWithSetGradEnabled.wrap_with_set_grad_enabled";
  }
  set_output(program, "n");
  return program;
}

TEST(ReadGraph, detaches_what_decompositions_have_attached) {
  Graph const graph = read_graph(decomposed(false).dump()).graph;

  std::vector<std::string> targets;
  for (Node const& node : graph.nodes) targets.push_back(node.target);
  EXPECT_EQ(targets, (std::vector<std::string>{"aten.conv2d.default", "aten.detach.default", "aten.relu.default",
                                               "aten.detach.default", "aten.neg.default"}));
  EXPECT_EQ(graph.value(graph.find("z")).producer, 3);
  EXPECT_EQ(std::get<TensorRef>(*graph.nodes[4].input("self")).value, graph.find("z"));
  auto const relu = std::get<TensorRef>(graph.nodes[2].outputs[0]).value;
  EXPECT_EQ(graph.value(relu).producer, 2);
  EXPECT_EQ(std::get<TensorRef>(*graph.nodes[3].input("self")).value, relu);
}

TEST(ReadGraph, detaches_results_within_no_grad) {
  Graph const graph = read_graph(decomposed(true).dump()).graph;

  EXPECT_EQ(graph.nodes.size(), 5u);
  EXPECT_EQ(graph.nodes.back().target, "aten.detach.default");
  EXPECT_EQ(graph.value(graph.find("n")).producer, 4);
}

// relu and neg ran in two parts without gradients, one after the other, as behind a Function; the convolution is a
// result, too.
TEST(ReadGraph, detaches_all_results_where_a_function_has_lost_gradients) {
  for (bool const is_function : {false, true}) {
    Json program = decomposed(true);
    Json& nodes = graph_of(program)["nodes"];
    for (std::size_t i = 2; i < 4; ++i) {
      nodes[i]["metadata"]["from_node"] = std::string("[{\"name\": \"") + (is_function && i == 2 ? "mean" : "neg") +
                                          "\", \"target\": \"wrap_with_set_grad_enabled\"}]";
    }
    graph_of(program)["outputs"].push_back(tensor("y"));
    signature_of(program)["output_specs"].push_back({{"user_output", {{"arg", tensor("y")}}}});

    Graph const graph = read_graph(program.dump()).graph;

    EXPECT_EQ(graph.nodes[std::size_t(graph.value(graph.find("y")).producer)].target,
              is_function ? "aten.detach.default" : "aten.conv2d.default");
    EXPECT_EQ(graph.nodes[std::size_t(graph.value(graph.find("n")).producer)].target, "aten.detach.default");
  }
}

TEST(ReadGraph, names_the_users_line_and_not_one_of_pytorch) {
  Json program = one_convolution();
  Json& trace = graph_of(program)["nodes"][0]["metadata"]["stack_trace"];
  std::string const own = "File \"net.py\", line 9, in forward\n    x = self.norm(x)\n";
  std::string const of_torch =
      "File \"/usr/lib/torch/nn/modules/batchnorm.py\", line 210, in forward\n    return F.batch_norm(\n";
  trace = own + of_torch;

  EXPECT_EQ(read_graph(program.dump()).graph.nodes[0].source_line(), "net.py:9");
  trace = of_torch;
  EXPECT_EQ(read_graph(program.dump()).graph.nodes[0].source_line(), "/usr/lib/torch/nn/modules/batchnorm.py:210");
}

TEST(ReadGraph, returns_symbolic_sizes_and_their_bounds) {
  Json json = one_convolution();
  graph_of(json)["tensor_values"]["x"]["sizes"][2] = size_of("s77", 8);
  json["range_constraints"]["s77"] = {{"min_val", 2}, {"max_val", nullptr}};
  Json& nodes = graph_of(json)["nodes"];
  nodes.insert(nodes.begin(), node("aten.sym_size.int", {{"self", tensor("x")}, {"dim", {{"as_int", 2}}}},
                                   {{{"as_sym_int", {{"as_name", "rows"}}}}}));
  graph_of(json)["sym_int_values"]["rows"] = size_of("s77", 8);

  ExportedGraph const program = read_graph(json.dump());

  Value const& rows = program.graph.value(program.graph.find("rows"));
  EXPECT_EQ(rows.kind, Value::Kind::integer);
  EXPECT_EQ(rows.number.expression, "s77");
  EXPECT_EQ(rows.number.value, 8);
  EXPECT_EQ(program.ranges.at("s77").min, 2);
  EXPECT_FALSE(program.ranges.at("s77").max);
  EXPECT_TRUE(program.graph.value(program.graph.find("x")).tensor.sizes[2].symbolic());
}

TEST(ReadGraph, returns_subgraphs_with_values_of_their_own) {
  Json json = one_convolution();
  Json inner = graph_of(json);
  Json& nodes = graph_of(json)["nodes"];
  nodes.push_back(node("higher_order.wrap_with_autocast",
                       {{"", {{"as_graph", {{"name", "submod_1"}, {"graph", inner}}}}},
                        {"", tensor("p_head_weight")},
                        {"", tensor("y")}},
                       {tensor("z")}));
  graph_of(json)["tensor_values"]["z"] = tensor_meta({1, 4, 8, 16});

  ExportedGraph const program = read_graph(json.dump());

  auto const& subgraph = std::get<SubgraphRef>(program.graph.nodes.at(1).inputs.at(0).value);
  EXPECT_EQ(subgraph.name, "submod_1");
  EXPECT_EQ(subgraph.graph->nodes.size(), 1u);
  EXPECT_GE(subgraph.graph->find("y"), 0);
}

TEST(ReadGraph, returns_the_region_of_a_node_that_has_one) {
  Json json = one_convolution();
  Json& metadata = graph_of(json)["nodes"][0]["metadata"];
  EXPECT_FALSE(read_graph(json.dump()).graph.nodes[0].region);
  for (std::string const other : {R"({"stage": 1})", "{}", "[3]", "a note", ""}) {
    metadata["custom"] = other;
    EXPECT_FALSE(read_graph(json.dump()).graph.nodes[0].region) << other;
  }
  metadata["custom"] = R"({"stage": 1, "graticule_recompute": 3})";
  EXPECT_EQ(read_graph(json.dump()).graph.nodes[0].region, 3);
  metadata["custom"] = R"({"graticule_recompute": "3"})";
  EXPECT_EQ(rule_of([&] { (void)read_graph(json.dump()); }), "BrokenFile");
}

TEST(ReadGraph, reads_reals_that_json_has_no_numbers_for) {
  Json json = one_convolution();
  append(json, "aten.clamp.default",
         {{"self", tensor("y")}, {"min", {{"as_float", "-Infinity"}}}, {"max", {{"as_float", 1}}}}, "z", {1, 4, 8, 16});

  ExportedGraph const program = read_graph(json.dump());

  EXPECT_EQ(std::get<double>(*program.graph.nodes.at(1).input("min")), -INFINITY);
  EXPECT_EQ(std::get<double>(*program.graph.nodes.at(1).input("max")), 1.0);
}

TEST(ReadGraph, refuses_what_breaks_a_rule_of_graphs) {
  struct Row {
    char const* what;
    char const* rule;
    std::function<void(Json&)> damage;
  };
  std::vector<Row> const rows{
      {"newer schema", "UnsupportedFile", [](Json& json) { json["schema_version"]["major"] = 9; }},
      {"no schema", "BrokenFile", [](Json& json) { json.erase("schema_version"); }},
      {"unknown value", "BrokenFile",
       [](Json& json) { graph_of(json)["nodes"][0]["inputs"][0]["arg"] = tensor("nothing"); }},
      {"own result", "BrokenFile", [](Json& json) { graph_of(json)["nodes"][0]["inputs"][0]["arg"] = tensor("y"); }},
      {"defined twice", "BrokenFile", [](Json& json) { graph_of(json)["nodes"][0]["outputs"][0] = tensor("x"); }},
      {"no metadata", "BrokenFile", [](Json& json) { graph_of(json)["tensor_values"].erase("y"); }},
      {"negative size", "BrokenFile",
       [](Json& json) { graph_of(json)["tensor_values"]["x"]["sizes"][0] = size_of(-1); }},
      {"element type", "BrokenFile", [](Json& json) { graph_of(json)["tensor_values"]["x"]["dtype"] = 99; }},
      {"strides", "BrokenFile", [](Json& json) { graph_of(json)["tensor_values"]["x"]["strides"].erase(0); }},
      {"sparse", "BrokenFile", [](Json& json) { graph_of(json)["tensor_values"]["x"]["layout"] = 1; }},
      {"kinds", "BrokenFile", [](Json& json) { graph_of(json)["nodes"] = 3; }},
      {"too large", "BrokenFile",
       [](Json& json) { graph_of(json)["nodes"][0]["inputs"][2]["arg"]["as_ints"][0] = 18446744073709551615u; }},
      {"signature", "BrokenFile", [](Json& json) { signature_of(json)["input_specs"].erase(0); }},
      {"another output", "BrokenFile", [](Json& json) { graph_of(json)["outputs"][0] = tensor("x"); }},
      {"older schema", "RefusedProgram", [](Json& json) { json["schema_version"]["major"] = 7; }},
      {"token", "RefusedProgram",
       [](Json& json) {
         signature_of(json)["input_specs"][0] = {{"token", {{"arg", {{"name", "token"}}}}}};
       }},
  };

  for (Row const& row : rows) {
    Json json = one_convolution();
    row.damage(json);
    std::string const text = json.dump();

    EXPECT_EQ(rule_of([&] { (void)read_graph(text); }), row.rule) << row.what;
  }
  EXPECT_EQ(rule_of([] { (void)read_graph("{\"graph_module\": "); }), "BrokenFile");
  EXPECT_EQ(rule_of([] { (void)read_graph("[]"); }), "BrokenFile");
}

TEST(ReadGraph, refuses_subgraphs_in_endless_depth) {
  Json json = empty_program({2});
  Json const plain = graph_of(json);
  Json inner = plain;
  for (int depth = 0; depth < 12; ++depth) {
    Json outer = plain;
    outer["nodes"].push_back(
        node("higher_order.wrap_with_autocast", {{"", {{"as_graph", {{"name", "deep"}, {"graph", inner}}}}}}, {}));
    inner = outer;
  }
  graph_of(json) = inner;

  EXPECT_EQ(rule_of([&] { (void)read_graph(json.dump()); }), "BrokenFile");
}

}  // namespace
