// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include "graph_text.hpp"
#include "program_forecast.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

using namespace graticule;
using info::Forecast;
using info::Machine;

namespace {

Machine slow_machine() {
  Machine machine;
  machine.name = "slow";
  machine.ranks_per_node = 2;
  machine.operations_per_second = 1000;
  machine.bytes_per_second = 100;
  machine.seconds_per_operator = 0.5;
  machine.within_node = {0.25, 10};
  machine.between_nodes = {2, 5};
  return machine;
}

/// x [1, 1, 8, 4] -> relu -> 3 x 3 convolution to two channels without a bias.
program::ExportedGraph network() {
  auto json = test::empty_program({1, 1, 8, 4});
  test::add_weight(json, "parameter", "w", "weight", {2, 1, 3, 3});
  test::append(json, "aten.relu.default", {{"self", test::tensor("x")}}, "relu", {1, 1, 8, 4});
  test::append(json, "aten.conv2d.default",
               {{"input", test::tensor("relu")},
                {"weight", test::tensor("w")},
                {"bias", {{"as_none", true}}},
                {"stride", {{"as_ints", {1, 1}}}},
                {"padding", {{"as_ints", {1, 1}}}}},
               "conv", {1, 2, 8, 4});
  test::set_output(json, "conv");
  return program::read_graph(json.dump());
}

program::Plan plan_on(std::int64_t num_ranks) {
  auto const graph = network();
  return program::plan_layout(graph, program::Sizes(graph), {.num_ranks = num_ranks});
}

TEST(ProgramForecast, adds_what_the_rates_say_of_each_operator) {
  auto const one = info::forecast_of(plan_on(1), slow_machine());
  // relu: 32 numbers are read and written, 256 bytes; the convolution writes 64 numbers of 18 operations.
  double const expected = 3 * (256. / 100 + 0.5) + 3 * (std::max(64 * 18 / 1000., 512. / 100) + 0.5);
  EXPECT_NEAR(one.compute, expected, 1e-9);
  EXPECT_EQ(one.messages, 0);
  EXPECT_EQ(one.gradients, 0);

  auto const two = info::forecast_of(plan_on(2), slow_machine());
  EXPECT_NEAR(two.compute, 3 * (128. / 100 + 0.5) + 3 * (256. / 100 + 0.5), 1e-9);
  // One row of four numbers from the other rank, forward and backward.
  EXPECT_NEAR(two.messages, 2 * (0.25 + 16. / 10), 1e-9);
  EXPECT_NEAR(two.gradients, 2 * 0.25 + 2 * 0.5 * 72. / 10, 1e-9);
  EXPECT_NEAR(two.memory_bytes, 2 * 72 + 64 + 128, 1e-9);

  auto const four = info::forecast_of(plan_on(4), slow_machine());  // on two nodes
  EXPECT_NEAR(four.messages, 2 * (2 * 2 + 2 * 16. / 5), 1e-9);
  EXPECT_NEAR(info::forecast_of(plan_on(4), slow_machine(), 2).compute, 2 * four.compute, 1e-9);
}

TEST(ProgramForecast, counts_products_and_scores_of_attention) {
  // 3 windows of 5 queries of 4 channels, 7 keys, values of 2 channels.
  auto json = test::empty_program({3, 5, 4});
  test::append(json, "aten.relu.default", {{"self", test::tensor("x")}}, "q", {3, 5, 4});
  test::add_weight(json, "parameter", "k", "keys", {3, 7, 4});
  test::add_weight(json, "parameter", "v", "values", {3, 7, 2});
  test::append(json, "aten.scaled_dot_product_attention.default",
               {{"query", test::tensor("q")}, {"key", test::tensor("k")}, {"value", test::tensor("v")}}, "y",
               {3, 5, 2});
  test::set_output(json, "y");
  auto const graph = program::read_graph(json.dump());
  auto machine = slow_machine();
  machine.seconds_per_score = 0.125;

  auto const forecast =
      info::forecast_of(program::plan_layout(graph, program::Sizes(graph), {.num_ranks = 1}), machine);

  double const relu = 2 * 60 * 4 / 100. + 0.5;
  double const scores = 3 * 5 * 7;
  EXPECT_NEAR(forecast.compute, 3 * relu + 3 * (scores * 2 * (4 + 2) / 1000 + scores * 0.125 + 0.5), 1e-9);
}

/// Seconds of computing of one operator on x, whose inputs besides x are weights.
double computing(std::vector<std::int64_t> const& x, std::string const& target,
                 std::vector<std::pair<std::string, test::Json>> const& arguments,
                 std::vector<std::pair<std::string, std::vector<std::int64_t>>> const& weights,
                 std::vector<std::int64_t> const& result, double bytes_per_second, std::int64_t num_ranks = 1,
                 int dtype = 7) {
  auto json = test::empty_program(x);
  test::append(json, "aten.relu.default", {{"self", test::tensor("x")}}, "y", x, dtype);
  for (auto const& [name, sizes] : weights) test::add_weight(json, "parameter", name, name, sizes, dtype);
  test::append(json, target, arguments, "z", result, dtype);
  test::set_output(json, "z");
  auto const graph = program::read_graph(json.dump());
  auto machine = slow_machine();
  machine.seconds_per_operator = 0;
  machine.bytes_per_second = bytes_per_second;
  auto const plan = program::plan_layout(graph, program::Sizes(graph), {.num_ranks = num_ranks});
  double const item = dtype == 10 ? 8 : 4;
  double const cells = double(program::num_elements(x)) / double(num_ranks);
  double const relu = std::max(2 * item * cells / machine.bytes_per_second, cells / machine.operations_per_second);
  return info::forecast_of(plan, machine).compute / 3 - relu;
}

TEST(ProgramForecast, counts_products_of_a_transposed_convolution_once) {
  // 4 channels in 2 groups, each cell gives 2 x 2 cells of 6 channels: 2 products per cell of the result.
  auto const seconds = computing({1, 4, 8, 8}, "aten.conv_transpose2d.input",
                                 {{"input", test::tensor("y")},
                                  {"weight", test::tensor("w")},
                                  {"bias", {{"as_none", true}}},
                                  {"stride", {{"as_ints", {2, 2}}}},
                                  {"padding", {{"as_ints", {0, 0}}}},
                                  {"output_padding", {{"as_ints", {0, 0}}}},
                                  {"groups", {{"as_int", 2}}}},
                                 {{"w", {4, 3, 2, 2}}}, {1, 6, 16, 16}, 1e9);
  EXPECT_NEAR(seconds, 6 * 16 * 16 * 2 * 2 / 1000., 1e-9);
}

TEST(ProgramForecast, counts_products_of_complex_numbers_as_eight_operations) {
  auto const seconds =
      computing({5, 64}, "aten.matmul.default", {{"self", test::tensor("y")}, {"other", test::tensor("w")}},
                {{"w", {64, 7}}}, {5, 7}, 1e9, 1, 10);
  EXPECT_NEAR(seconds, 5 * 7 * 64 * 8 / 1000., 1e-9);
}

TEST(ProgramForecast, counts_what_a_small_result_is_made_of) {
  for (std::int64_t const ranks : {1, 2}) {
    double const share = 1 / double(ranks);
    // 16 channels to one.
    auto const projection =
        computing({1, 16, 8, 8}, "aten.conv2d.default", {{"input", test::tensor("y")}, {"weight", test::tensor("w")}},
                  {{"w", {1, 16, 1, 1}}}, {1, 1, 8, 8}, 100, ranks);
    EXPECT_NEAR(projection, share * (16 * 64 + 64) * 4 / 100, 1e-9) << ranks;
    auto const mean =
        computing({1, 16, 8, 8}, "aten.mean.dim",
                  {{"self", test::tensor("y")}, {"dim", {{"as_ints", {2, 3}}}}, {"keepdim", {{"as_bool", true}}}}, {},
                  {1, 16, 1, 1}, 100, ranks);
    EXPECT_NEAR(mean, (share * 16 * 64 + 16) * 4 / 100, 1e-9) << ranks;
    // A slice reads no more than it writes.
    auto const slice = computing(
        {1, 16, 8, 8}, "aten.slice.Tensor",
        {{"self", test::tensor("y")}, {"dim", {{"as_int", 3}}}, {"start", {{"as_int", 1}}}, {"end", {{"as_int", 3}}}},
        {}, {1, 16, 8, 2}, 100, ranks);
    EXPECT_NEAR(slice, share * 2 * 16 * 16 * 4 / 100, 1e-9) << ranks;
  }
}

TEST(ProgramForecast, compares_with_the_first_that_runs_and_names_what_stops) {
  Forecast refused{.num_ranks = 1, .refusal = "no", .stages = {}};
  Forecast first{.num_ranks = 2, .compute = 8, .messages = 2, .stages = {{"a, latitude", 4, 0}, {"b, latitude", 4, 2}}};
  Forecast last{.num_ranks = 8, .compute = 2, .messages = 3, .stages = {{"a, latitude", 1, 0}, {"b, axis 1", 1, 3}}};
  auto slow = last;
  slow.gradients = 40;
  std::vector<Forecast> const all{refused, first, last, slow};

  EXPECT_EQ(info::efficiency(all, 0), 0);
  EXPECT_DOUBLE_EQ(info::efficiency(all, 1), 1);
  EXPECT_DOUBLE_EQ(info::efficiency(all, 2), 10. * 2 / (5 * 8));
  EXPECT_EQ(info::limit_of(all, 1), "");
  EXPECT_EQ(info::limit_of(all, 2), "messages of b");
  EXPECT_EQ(info::limit_of(all, 3), "sum of gradients");
  auto const text = info::to_text("net", slow_machine(), all);
  for (auto const* part : {"net on slow", "refused", "1 ranks: no", "0.50", "messages of b"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  auto const picture = info::to_svg("net", slow_machine(), all);
  for (auto const* part : {"polyline", "50 %", "1 ranks: no"}) EXPECT_NE(picture.find(part), std::string::npos) << part;
  EXPECT_NE(info::to_svg("net", slow_machine(), {refused}).find("refused on all"), std::string::npos);
}

std::string error_of(std::string const& text) {
  auto const path = std::filesystem::path(testing::TempDir()) / "machine.json";
  std::ofstream(path) << text;
  try {
    (void)info::read_machine(path);
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadInput");
    EXPECT_NE(error.text().find("machine.json"), std::string::npos);
    return error.text();
  }
  return "";
}

TEST(MachineFile, is_read_or_refused_by_key) {
  std::string const link = R"({"seconds_per_message": 1e-6, "bytes_per_second": 1e10})";
  auto const file = [&](std::string const& ranks, std::string const& rate, std::string const& last) {
    return R"({"ranks_per_node": )" + ranks + R"(, "operations_per_second": )" + rate +
           R"(, "bytes_per_second": 1e10, "seconds_per_operator": 0, "within_node": )" + link +
           R"(, "between_nodes": )" + last + "}";
  };
  EXPECT_EQ(error_of(file("4", "1e12", link)), "");
  auto const expect = [](std::string const& text, char const* part) {
    EXPECT_NE(error_of(text).find(part), std::string::npos) << error_of(text);
  };
  expect("{", "is no JSON object");
  expect("[1]", "is no JSON object");
  expect("{}", "has no ranks_per_node");
  expect(file("1.5", "1e12", link), "ranks_per_node: 1.5");
  expect(file("4", "0", link), "operations_per_second: 0");
  expect(file("4", "\"fast\"", link), "operations_per_second: \"fast\"");
  expect(file("4", "-1", link), "operations_per_second: -1");
  expect(file("4", R"(1, "seconds_per_score": -1)", link), "seconds_per_score: -1");
  expect(file("4", R"(1, "seconds_per_scores": 1)", link), "has seconds_per_scores, which is no rate");
  expect(file("4", "1e12", R"({"seconds_per_message": 1, "bytes_per_second": 1, "latency": 1})"),
         "has between_nodes.latency, which is no rate");
  expect(file("4", "1e12", "3"), "has no object between_nodes");
  expect(file("4", "1e12", R"({"seconds_per_message": 1})"), "has no between_nodes.bytes_per_second");
  EXPECT_THROW((void)info::read_machine("/nowhere/machine.json"), Error);
  EXPECT_THROW((void)info::read_machine(testing::TempDir()), Error);
}

TEST(MachineFile, of_h200_nodes_is_read) {
  auto const machine = info::read_machine(GRATICULE_H200_MACHINE);

  EXPECT_EQ(machine.name, "nodes of 8 H200");
  EXPECT_EQ(machine.ranks_per_node, 8);
  EXPECT_GT(machine.within_node.bytes_per_second, machine.between_nodes.bytes_per_second);
}

}  // namespace
