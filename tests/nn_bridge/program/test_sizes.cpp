// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/sizes.hpp>

#include "expect_error.hpp"
#include "graph/expression.hpp"
#include "graph_text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace graticule::program;
using namespace graticule::test;

namespace {

std::optional<std::int64_t> value_of(std::string const& text) {
  return Expression(text).evaluate([](std::string_view symbol) -> std::optional<std::int64_t> {
    if (symbol == "s7") {
      return 721;
    }
    return symbol == "L['x'].size()[2]" ? std::optional<std::int64_t>(1440) : std::nullopt;
  });
}

TEST(Expression, evaluates_what_exported_programs_contain) {
  struct Row {
    std::string text;
    std::optional<std::int64_t> value;
  };
  std::vector<Row> const rows{
      {"Symbol('s7', positive=True, integer=True)", 721},
      {"FloorDiv(Symbol('s7', positive=True, integer=True), Integer(2))", 360},
      {"Add(Mul(Integer(2), Symbol('s7', positive=True, integer=True)), Integer(-1))", 1441},
      {"Add(Integer(1), Integer(2), Integer(3))", 6},
      {"FloorDiv(Integer(-7), Integer(2))", -4},
      {"Mod(Integer(-7), Integer(4))", 1},
      {"PythonMod(Integer(7), Integer(-4))", -1},
      {"CeilToInt(IntTrueDiv(Symbol('s7', integer=True), Integer(4)))", 181},
      {"Mul(Rational(1, 2), Integer(8))", 4},
      {"TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s7'))))", 1081},
      {"Max(Integer(3), Min(Symbol('s7'), Integer(9)))", 9},
      {"Pow(Integer(2), Integer(10))", 1024},
      {"8*s7", 5768},
      {"1 + (((-1) + L['x'].size()[2]) // 2)", 720},
      {"L['x'].size()[2] % 7 == 5", 1},
      {"(2 + 2*(((-1) + L['x'].size()[2]) // 2)) == L['x'].size()[2]", 1},
      {"L['x'].size()[2] != 1440", 0},
      {"not s7 <= 720 and s7 < 722 or s7 == 3", 1},
      {"2 ** 3 - -1", 9},
      // No values: unknown symbols and functions, halves, overflow, division by zero, no formulas.
      {"s8 + 1", std::nullopt},
      {"Gamma(Integer(3))", std::nullopt},
      {"Rational(1, 2)", std::nullopt},
      {"Mul(Integer(9223372036854775807), Integer(2))", std::nullopt},
      {"Mod(s7, s7 - s7)", std::nullopt},
      {"s7 // 0", std::nullopt},
      {"1 +", std::nullopt},
      {"Symbol('s7'", std::nullopt},
      {"Integer(12345678901234567890)", std::nullopt},
      {"", std::nullopt},
      {"L['x']", std::nullopt},
      {std::string(100000, '('), std::nullopt},
      {std::string(100000, '-') + "1", std::nullopt},
  };

  for (Row const& row : rows) {
    EXPECT_EQ(value_of(row.text), row.value) << row.text.substr(0, 80);
  }
}

// x[1, 2, s7, 2*s9], of which the program returns x.
ExportedGraph dynamic_program() {
  Json json = empty_program({1, 2, 8, 16});
  Json& sizes = graph_of(json)["tensor_values"]["x"]["sizes"];
  sizes[2] = size_of("Symbol('s7', positive=True, integer=True)", 8);
  sizes[3] = size_of("Mul(Integer(2), Symbol('s9', positive=True, integer=True))", 16);
  json["range_constraints"] = {{"s7", {{"min_val", 2}, {"max_val", nullptr}}},
                               {"2*s9", {{"min_val", nullptr}, {"max_val", 2000}}}};
  json["guards_code"] = {"L['x'].size()[2] != 13", "a condition that nobody understands"};
  return read_graph(json.dump());
}

TEST(Sizes, are_found_from_the_inputs) {
  ExportedGraph const program = dynamic_program();

  Sizes const sizes(program, {{1, 2, 721, 1440}});

  EXPECT_EQ(sizes.symbols().at("s7"), 721);
  EXPECT_EQ(sizes.symbols().at("s9"), 720);
  TensorMeta const& x = program.graph.value(program.graph.find("x")).tensor;
  EXPECT_EQ(sizes(x), (std::vector<std::int64_t>{1, 2, 721, 1440}));
  EXPECT_EQ(Sizes(program)(x), (std::vector<std::int64_t>{1, 2, 8, 16}));
}

TEST(Sizes, refuse_inputs_that_the_program_was_not_exported_for) {
  ExportedGraph const program = dynamic_program();
  std::vector<std::vector<std::int64_t>> const bad{
      {2, 2, 8, 16},    // a fixed size
      {1, 2, 8},        // axes
      {1, 2, 8, 17},    // no multiple of 2
      {1, 2, 1, 16},    // below the bound
      {1, 2, 8, 2002},  // above the bound
      {1, 2, 13, 16},   // a condition
  };

  for (auto const& sizes : bad) {
    EXPECT_EQ(rule_of([&] { Sizes(program, {sizes}); }), "ShapeMismatch") << sizes.back();
  }
  EXPECT_EQ(rule_of([&] { Sizes(program, {}); }), "ShapeMismatch");
}

}  // namespace
