// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/plan_layout.hpp>

#include "graph_text.hpp"
#include "program_layout.hpp"
#include "program_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace graticule;
using info::PlanNode;
using info::PlanStage;
using info::ProgramPlan;
using program::Cut;

namespace {

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t num = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++num;
  return num;
}

PlanStage stage_of(std::string const& placement, program::Shape shape, std::vector<Cut> cuts = {}) {
  PlanStage stage;
  stage.placement = placement;
  stage.shape = std::move(shape);
  stage.cuts = std::move(cuts);
  return stage;
}

ProgramPlan plan_of(std::string const& network, std::int64_t num_ranks, std::vector<PlanStage> stages = {}) {
  ProgramPlan plan;
  plan.network = network;
  plan.num_ranks = num_ranks;
  plan.stages = std::move(stages);
  return plan;
}

PlanNode rows(std::string const& module, std::int64_t axis = 2) {
  program::Shape shape{1, 8, 24, 48};
  std::swap(shape[2], shape[std::size_t(axis)]);
  PlanNode node;
  node.module = module;
  node.operator_class = "local";
  node.placement = "latitude";
  node.shape = shape;
  node.cuts = {Cut{axis, 24, {0, 10, 24, 24}}};
  node.traffic.halo_bytes = 100;
  node.traffic.num_messages = 2;
  node.memory_bytes = 5000;
  return node;
}

PlanNode heads(std::string const& module) {
  PlanNode node;
  node.module = module;
  node.operator_class = "contraction";
  node.placement = "heads";
  node.shape = {1, 4, 1152, 8};
  node.cuts = {Cut{1, 4, {0, 2, 3, 4}}};
  node.traffic.move_bytes = 2.5e6;
  node.traffic.num_messages = 4;
  node.memory_bytes = 9000;
  return node;
}

PlanNode no_field() {
  PlanNode node;
  node.module = "blocks.0";
  node.operator_class = "number";
  return node;
}

ProgramPlan small_plan() {
  auto plan =
      plan_of("unet_probe", 3,
              info::stages_of({rows("blocks.0.conv"), rows("blocks.0.act"), heads("blocks.1.attn"), rows("head")}));
  plan.facts = {{"parameters", "1.2 MB"}};
  return plan;
}

TEST(ProgramPlanStages, end_where_the_cut_moves) {
  auto const stages = info::stages_of({rows("a"), rows("a"), heads("b"), no_field(), rows("c")});

  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].num_nodes, 2);
  EXPECT_EQ(stages[1].num_nodes, 2);
  EXPECT_EQ(stages[2].num_nodes, 1);
  EXPECT_EQ(stages[1].placement, "heads");
  EXPECT_EQ(stages[1].num_operators, (std::map<std::string, std::int64_t>{{"contraction", 1}, {"number", 1}}));
}

TEST(ProgramPlanStages, end_where_bounds_change_but_not_where_axes_are_permuted) {
  auto coarse = rows("a");
  coarse.shape[2] = 12;
  coarse.cuts = {Cut{2, 12, {0, 5, 12, 12}}};

  EXPECT_EQ(info::stages_of({rows("a"), rows("a", 3), rows("a")}).size(), 1U);
  EXPECT_EQ(info::stages_of({rows("a"), coarse, rows("a")}).size(), 3U);
}

TEST(ProgramPlanStages, add_traffic_and_keep_the_largest_memory_and_shape) {
  auto small = rows("a");
  small.shape[1] = 2;
  small.memory_bytes = 7000;
  auto const stages = info::stages_of({small, rows("a", 3), small});

  ASSERT_EQ(stages.size(), 1U);
  EXPECT_EQ(stages[0].traffic.halo_bytes, 300);
  EXPECT_EQ(stages[0].traffic.num_messages, 6);
  EXPECT_EQ(stages[0].memory_bytes, 7000);
  EXPECT_EQ(stages[0].shape, rows("a", 3).shape);
  EXPECT_EQ(stages[0].cuts[0].axis, 3);
}

TEST(ProgramPlanStages, take_nodes_without_a_field_at_the_front_into_the_first_stage) {
  auto const stages = info::stages_of({no_field(), heads("blocks.1"), no_field()});

  ASSERT_EQ(stages.size(), 1U);
  EXPECT_EQ(stages[0].placement, "heads");
  EXPECT_EQ(stages[0].num_nodes, 3);
  EXPECT_TRUE(info::stages_of({}).empty());
}

TEST(ProgramPlanStages, are_named_by_whole_parts_of_the_common_path) {
  auto const name = [](std::string const& one, std::string const& other) {
    return info::stages_of({rows(one), rows(other)}).front().module;
  };

  EXPECT_EQ(name("blocks.0.conv", "blocks.0.act"), "blocks.0");
  EXPECT_EQ(name("blocks.1", "blocks.12"), "blocks");
  EXPECT_EQ(name("blocks.1", "blocks.1.norm"), "blocks.1");
  EXPECT_EQ(name("blocks.1.norm", "blocks.1"), "blocks.1");
  EXPECT_EQ(name("conv", "convolution"), "");
  EXPECT_EQ(name("", "head"), "");
  EXPECT_EQ(name("head", "head"), "head");
}

TEST(ProgramPlanText, states_the_share_of_every_rank) {
  auto stage = stage_of("", {1, 8, 24, 48});
  EXPECT_EQ(info::shares_text(stage), "all");
  stage.cuts = {Cut{2, 24, {0, 10, 24, 24}}};
  EXPECT_EQ(info::shares_text(stage), "10,14,0");
  stage.cuts = {Cut{2, 4, {0, 1, 4}}};
  EXPECT_EQ(info::shares_text(stage), "6,18");
  stage.cuts = {Cut{2, 24, {0, 12, 24}}, Cut{3, 48, {0, 16, 48}}};
  EXPECT_EQ(info::shares_text(stage), "12,12 x 16,32");
  stage.cuts = {Cut::balanced(2, 24, 10)};
  EXPECT_EQ(info::shares_text(stage), "2-3");
  stage.cuts = {Cut::balanced(2, 24, 12)};
  EXPECT_EQ(info::shares_text(stage), "2");
}

TEST(ProgramPlanText, has_a_line_per_stage_and_the_whole_refusal) {
  auto plan = small_plan();
  auto const text = info::to_text(plan);
  plan.stages.clear();
  plan.refusals = {{"aten.nonzero.default in mask (net.py:7)", "its size depends on data", "use torch.where"}};

  EXPECT_EQ(count(text, "\n"), 1 + 1 + 1 + 1 + 3U);
  EXPECT_NE(text.find("unet_probe on 3 ranks\n  parameters 1.2 MB\n"), std::string::npos);
  EXPECT_NE(text.find("10,14,0"), std::string::npos);
  EXPECT_NE(text.find("2.50 MB"), std::string::npos);
  EXPECT_NE(info::to_text(plan).find(
                "refused: aten.nonzero.default in mask (net.py:7): its size depends on data\n  use torch.where\n"),
            std::string::npos);
}

/// Patches of a strip carry this border, nothing else does.
constexpr auto patch = "stroke=\"#555\"";

TEST(ProgramPlanPicture, draws_a_patch_per_rank_with_rows_and_period) {
  auto plan = small_plan();
  EXPECT_EQ(count(info::to_svg(plan), patch), 2 + 3 + 2U);

  plan.stages = {stage_of("places in windows", {12, 8}, {Cut{0, 4, {0, 1, 4}}})};
  EXPECT_EQ(count(info::to_svg(plan), patch), 3 * 2U);
}

TEST(ProgramPlanPicture, says_what_it_leaves_out) {
  auto plan = plan_of("large", 4096);
  plan.stages = {stage_of("places in windows", {721 * 7}, {Cut{0, 7, {0, 3, 7}}})};
  auto const periods = info::to_svg(plan);
  plan.stages = {stage_of("latitude", {4096}, {Cut::balanced(0, 4096, 4096)})};
  auto const ranks = info::to_svg(plan);

  EXPECT_NE(periods.find("6 of 721 periods"), std::string::npos);
  EXPECT_EQ(count(periods, patch), 12U);
  EXPECT_NE(ranks.find("too many ranks to draw"), std::string::npos);
  EXPECT_EQ(count(ranks, patch), 0U);
}

TEST(ProgramPlanPicture, escapes_names_and_keeps_refusals_whole) {
  auto plan = plan_of("a<b>&c", 2);
  std::string const reason =
      "the window of 7 rows crosses the cut at row 361 of 721, which no multiple of 7 is near enough to, "
      "and the windows are shifted by 3 rows as well";
  plan.refusals = {{"aten.view.default in blocks.3.attn (net.py:27)", reason, "cuts at multiples of 7"}};
  auto const svg = info::to_svg(plan);

  EXPECT_NE(svg.find("a&lt;b&gt;&amp;c on 2 ranks"), std::string::npos);
  for (auto const* word : {"(net.py:27):", "crosses", "shifted", "well", "cuts at multiples of 7"})
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  EXPECT_EQ(count(svg, "class=\"loud\""), 2U);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
}

TEST(ProgramPlanPicture, bears_stages_without_traffic_memory_or_cells) {
  auto plan = plan_of("idle", 1);
  plan.stages = {stage_of("whole", {}), stage_of("rows", {0}, {Cut{0, 0, {0, 0, 0}}})};
  auto const svg = info::to_svg(plan);

  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(count(svg, ">none<"), 2U);
}

/// x[1, 2, 8, 16], rolled by a row of latitude, then clipped.
program::ExportedGraph small_network() {
  auto json = test::empty_program({1, 2, 8, 16});
  test::append(json, "aten.roll.default",
               {{"self", test::tensor("x")}, {"shifts", {{"as_ints", {1}}}}, {"dims", {{"as_ints", {2}}}}}, "a",
               {1, 2, 8, 16});
  test::append(json, "aten.relu.default", {{"self", test::tensor("a")}}, "b", {1, 2, 8, 16});
  test::set_output(json, "b");
  return program::read_graph(json.dump());
}

TEST(ProgramLayout, names_the_cut_and_counts_bytes_of_pulled_rows) {
  auto const network = small_network();
  auto const plan =
      program::plan_layout(network, program::Sizes(network), {.num_ranks = 2, .field_axis = -2, .bounds = {0, 3, 8}});
  auto const shown = info::readable(plan, "small");

  std::int64_t num_nodes = 0;
  double halo = 0;
  for (auto const& stage : shown.stages) {
    EXPECT_EQ(stage.placement, "latitude");
    num_nodes += stage.num_nodes;
    halo += stage.traffic.halo_bytes + stage.traffic.move_bytes;
  }
  EXPECT_EQ(num_nodes, 2);
  EXPECT_EQ(shown.num_ranks, 2);
  // A roll by one row: each rank gets one row of 2 x 16 numbers of f32.
  EXPECT_EQ(halo, 2 * 16 * 4);
}

}  // namespace
