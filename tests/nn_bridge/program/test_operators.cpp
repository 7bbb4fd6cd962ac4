// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/operators.hpp>

#include "expect_error.hpp"
#include "graph_text.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

using namespace graticule::program;
using namespace graticule::test;

namespace {

TEST(Operators, are_classified_by_name) {
  EXPECT_EQ(operator_class("aten.relu_.default"), OperatorClass::local);
  EXPECT_EQ(operator_class("aten.roll.default"), OperatorClass::stencil);
  EXPECT_EQ(operator_class("aten._unsafe_view.default"), OperatorClass::view);
  EXPECT_EQ(operator_class("_operator.floordiv"), OperatorClass::number);
  EXPECT_EQ(operator_class("higher_order.wrap_with_autocast"), OperatorClass::subgraph);
  EXPECT_EQ(operator_class("aten.nonzero.default"), std::nullopt);
  EXPECT_EQ(operator_class("aten._.default"), std::nullopt);
  EXPECT_EQ(operator_class("torch_harmonics.disco.default"), std::nullopt);
}

TEST(Operators, are_in_one_class_for_all_overloads_and_in_place) {
  for (char const* const target : {"aten.add.Tensor", "aten.add.Scalar", "aten.add_.Tensor", "aten.add_.Scalar"}) {
    EXPECT_EQ(operator_class(target), OperatorClass::local) << target;
  }
  // Neither without an overload nor of another name that ends alike.
  for (char const* const target : {"aten.add", "add.Tensor", "aten.add__.Tensor", "aten..Tensor", "aten.", ""}) {
    EXPECT_EQ(operator_class(target), std::nullopt) << target;
  }
}

TEST(Operators, have_a_class_of_each_kind_with_its_name) {
  struct Row {
    char const* target;
    char const* name;
  };
  std::vector<Row> const rows{{"aten.gelu.default", "local"},
                              {"aten.permute.default", "view"},
                              {"aten.conv2d.default", "stencil"},
                              {"aten.layer_norm.default", "statistic"},
                              {"aten.linear.default", "contraction"},
                              {"aten.fft_rfft2.default", "spectral"},
                              {"aten.index_select.default", "table"},
                              {"aten.zeros.default", "factory"},
                              {"aten.sym_size.int", "number"},
                              {"aten._assert_tensor_metadata.default", "check"},
                              {"higher_order.wrap_with_set_grad_enabled", "subgraph"}};
  for (Row const& row : rows) {
    auto const kind = operator_class(row.target);
    ASSERT_TRUE(kind) << row.target;
    EXPECT_EQ(name(*kind), row.name) << row.target;
  }
}

TEST(Operators, have_the_name_of_the_view_that_they_copy) {
  struct Row {
    char const* target;
    char const* name;
  };
  std::vector<Row> const rows{{"aten.permute_copy.default", "permute"},
                              {"aten.split_with_sizes_copy.default", "split_with_sizes"},
                              {"aten.view_as_real_copy.default", "view_as_real"},
                              {"aten.add_.Tensor", "add"},
                              {"aten._to_copy.default", "_to_copy"},
                              {"aten.lift_fresh_copy.default", "lift_fresh_copy"},
                              {"aten.index_copy_.default", "index_copy"},
                              {"aten.copy_.default", "copy"},
                              {"aten.sum_copy.default", "sum_copy"},
                              {"graticule.move", "graticule.move"}};
  for (Row const& row : rows) {
    EXPECT_EQ(detail::operator_name(row.target), row.name) << row.target;
  }
  EXPECT_EQ(operator_class("aten.permute_copy.default"), OperatorClass::view);
  EXPECT_EQ(operator_class("aten.unfold_copy.default"), OperatorClass::stencil);
  EXPECT_EQ(operator_class("aten.sum_copy.default"), std::nullopt);
}

TEST(Operators, are_refused_with_module_line_and_advice) {
  struct Row {
    std::string target;
    std::string advice;
  };
  std::vector<Row> const rows{{"higher_order.cond", "control flow"},
                              {"aten.nonzero.default", "depend on data"},
                              {"aten.multinomial.default", "random"},
                              {"natten.na2d.default", "no operator of PyTorch"},
                              {"aten.geqrf.default", "run_decompositions({})"}};
  for (Row const& row : rows) {
    Json json = empty_program({1, 2, 8, 16});
    append(json, row.target, {{"self", tensor("x")}}, "y", {1, 2, 8, 16});
    ExportedGraph const program = read_graph(json.dump());

    Thrown const thrown = thrown_by([&] { detail::check_operators(program); });

    EXPECT_EQ(thrown.rule, "RefusedProgram");
    EXPECT_NE(thrown.text.find(row.target + " in head (head.py:27)"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find(row.advice), std::string::npos) << thrown.text;
  }
}

TEST(Operators, are_refused_where_a_mask_is_an_index) {
  Json json = empty_program({4});
  append(json, "aten.gt.Scalar", {{"self", tensor("x")}, {"other", {{"as_float", 0.0}}}}, "mask", {4}, 12);
  append(json, "aten.index.Tensor", {{"self", tensor("x")}, {"indices", {{"as_optional_tensors", {tensor("mask")}}}}},
         "y", {4});

  ExportedGraph const program = read_graph(json.dump());

  EXPECT_EQ(rule_of([&] { detail::check_operators(program); }), "RefusedProgram");
}

TEST(Operators, are_refused_in_subgraphs_as_well) {
  auto const with_inner = [](std::string const& target) {
    Json inner = empty_program({1, 2});
    append(inner, target, {{"self", tensor("x")}}, "y", {1, 2});
    set_output(inner, "y");
    Json json = empty_program({1, 2});
    graph_of(json)["nodes"].push_back(node("higher_order.wrap_with_set_grad_enabled",
                                           {{"", {{"as_bool", true}}},
                                            {"", {{"as_graph", {{"name", "submod_1"}, {"graph", graph_of(inner)}}}}},
                                            {"", tensor("x")}},
                                           {tensor("z")}));
    graph_of(json)["tensor_values"]["z"] = tensor_meta({1, 2});
    return read_graph(json.dump());
  };

  EXPECT_NO_THROW(detail::check_operators(with_inner("aten.tanh.default")));
  EXPECT_EQ(rule_of([&] { detail::check_operators(with_inner("aten.unique_dim.default")); }),
            (ErrorWith{"RefusedProgram", "aten.unique_dim.default in head (head.py:27)"}));
}

}  // namespace
