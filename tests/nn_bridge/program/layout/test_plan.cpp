// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include "expect_error.hpp"
#include "graph_text.hpp"
#include "int_array.hpp"
#include "layout/rules.hpp"
#include "random_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace graticule::program;
using namespace graticule::test;

namespace {

using Parts = std::vector<IntArray>;

std::vector<std::int64_t> list(Node const& node, char const* argument) {
  return std::get<std::vector<std::int64_t>>(*node.input(argument));
}

std::int64_t number(Node const& node, char const* argument) { return std::get<std::int64_t>(*node.input(argument)); }

IntArray convolved(IntArray const& x, IntArray const& weight, std::int64_t stride, std::int64_t pad_rows,
                   std::int64_t pad_columns) {
  std::int64_t const size = weight.extent(2);
  auto const extent = [&](std::int64_t n, std::int64_t pad) {
    return n + 2 * pad < size ? 0 : (n + 2 * pad - size) / stride + 1;
  };
  IntArray y({x.extent(0), weight.extent(0), extent(x.extent(2), pad_rows), extent(x.extent(3), pad_columns)});
  for_all_places(y.shape, [&](Shape const& at) {
    for_all_places({weight.extent(1), size, size}, [&](Shape const& tap) {
      std::int64_t const row = at[2] * stride - pad_rows + tap[1];
      std::int64_t const column = at[3] * stride - pad_columns + tap[2];
      if (row >= 0 && row < x.extent(2) && column >= 0 && column < x.extent(3)) {
        y(at) += weight({at[1], tap[0], tap[1], tap[2]}) * x({at[0], tap[0], row, column});
      }
    });
  });
  return y;
}

IntArray concatenated(Parts const& inputs, std::int64_t axis) {
  std::vector<std::int64_t> extents;
  Shape shape = inputs.front().shape;
  for (IntArray const& input : inputs) {
    extents.push_back(input.extent(axis));
  }
  PullTable const table = cat_table(extents);
  auto const a = static_cast<std::size_t>(axis);
  shape[a] = static_cast<std::int64_t>(table.size());
  IntArray result(shape);
  for_all_places(shape, [&](Shape at) {
    std::int64_t& value = result(at);
    Source const source = table[static_cast<std::size_t>(at[a])];
    at[a] = source.index;
    value = inputs[static_cast<std::size_t>(source.input)](at);
  });
  return result;
}

// An operator on a part, or with no placement on the whole: what an executor does with a node of the plan.
IntArray run(Node const& node, Parts const& x, NodePlan const* plan, Shape const& size) {
  bool const cut = plan != nullptr && plan->placement.has_value();
  std::int64_t const pulled = cut && plan->mode == RunMode::table ? plan->placement->axis : -1;
  std::int64_t const unpadded = cut && plan->mode == RunMode::window ? plan->placement->axis : -1;
  std::string const& target = node.target;
  IntArray y = x.front();
  if (target == "aten.roll.default") {
    auto const axes = list(node, "dims");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      y = axes[i] == pulled ? y : taken(y, axes[i], rows_of(roll_table(y.extent(axes[i]), list(node, "shifts")[i])));
    }
    return y;
  }
  if (target == "aten.flip.default") {
    std::int64_t const axis = list(node, "dims").front();
    return axis == pulled ? y : taken(y, axis, rows_of(flip_table(y.extent(axis))));
  }
  if (target == "aten.pad.default") {
    auto const widths = list(node, "pad");
    PadMode const mode = pad_mode(std::get<std::string>(*node.input("mode")));
    for (std::size_t i = 0; 2 * i < widths.size(); ++i) {
      auto const axis = static_cast<std::int64_t>(y.shape.size() - 1 - i);
      y = axis == pulled ? y
                         : taken(y, axis, rows_of(pad_table(y.extent(axis), widths[2 * i], widths[2 * i + 1], mode)));
    }
    return y;
  }
  if (target == "aten.slice.Tensor") {
    std::int64_t const axis = number(node, "dim");
    auto const rows = rows_of(slice_table(number(node, "start"), number(node, "end"), number(node, "step")));
    return axis == pulled ? y : taken(y, axis, rows);
  }
  if (target == "aten.cat.default") {
    return concatenated(x, number(node, "dim"));
  }
  if (target == "aten.view.default") {
    return viewed(y, size);
  }
  if (target == "aten.permute.default") {
    return permuted(y, list(node, "dims"));
  }
  if (target == "aten.add.Tensor") {
    std::ranges::transform(y.values, x.at(1).values, y.values.begin(), std::plus<>());
    return y;
  }
  EXPECT_EQ(target, "aten.conv2d.default");
  std::int64_t const pad = list(node, "padding").front();
  return convolved(y, x.at(1), list(node, "stride").front(), unpadded == 2 ? 0 : pad, unpadded == 3 ? 0 : pad);
}

// Virtual ranks in one process: each gets only what the plan says, from where the plan says that it is.
class Execution {
 public:
  explicit Execution(Plan const& plan) : plan_(&plan) {}

  void set(ValueId id, IntArray whole, Placement const& placement) {
    Parts& parts = copies_[id][placement];
    for (std::int64_t rank = 0; rank < plan_->num_ranks; ++rank) {
      parts.push_back(part(whole, placement, rank));
    }
    whole_.emplace(id, std::move(whole));
  }

  Parts fetched(Transfer const& transfer) {
    Parts const& parts = copies_.at(transfer.value).at(transfer.from);
    IntArray const whole = transfer.from
                               ? joined(parts, *transfer.from, plan_->shapes[static_cast<std::size_t>(transfer.value)])
                               : parts.front();
    Parts result;
    for (std::int64_t rank = 0; rank < plan_->num_ranks; ++rank) {
      result.push_back(transfer.axis < 0 ? part(whole, transfer.to, rank)
                                         : taken(whole, transfer.axis, transfer.rows[static_cast<std::size_t>(rank)]));
    }
    if (transfer.axis < 0) {
      copies_[transfer.value].emplace(transfer.to, result);
    }
    return result;
  }

  void step(NodePlan const& plan) {
    Node const& node = plan_->graph.nodes[static_cast<std::size_t>(plan.node)];
    std::vector<Parts> inputs;
    Parts wholes;
    for (Transfer const& transfer : plan.tensors) {
      inputs.push_back(fetched(transfer));
      wholes.push_back(whole_.at(transfer.value));
    }
    ValueId const id = std::get<TensorRef>(node.outputs[0]).value;
    IntArray const whole = run(node, wholes, nullptr, plan_->shapes[static_cast<std::size_t>(id)]);
    Parts results;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(plan_->num_ranks); ++rank) {
      Parts own;
      for (Parts const& input : inputs) {
        own.push_back(input[rank]);
      }
      // Ranks without rows do not run the operator.
      IntArray const empty(plan.local_sizes[rank]);
      results.push_back(empty.values.empty() ? empty : run(node, own, &plan, plan.local_sizes[rank]));
      ASSERT_EQ(results.back(), part(whole, plan.placement, static_cast<std::int64_t>(rank)))
          << node.target << " on rank " << rank;
    }
    copies_[id][plan.placement] = std::move(results);
    whole_.emplace(id, whole);
  }

  IntArray const& whole(ValueId id) const { return whole_.at(id); }

 private:
  Plan const* plan_;
  std::map<ValueId, std::map<Placement, Parts>> copies_;
  std::map<ValueId, IntArray> whole_;
};

TEST(Plan, virtual_ranks_that_follow_it_equal_one_rank) {
  Random random(5);
  std::int64_t moved = 0;
  for (int trial = 0; trial < 120; ++trial) {
    std::int64_t const rows = draw(random, 4, 13);
    ExportedGraph const program = read_graph(random_program(random, rows, 6).dump());
    PlanOptions options;
    options.num_ranks = draw(random, 1, 5);
    options.bounds = {0, rows};
    for (std::int64_t rank = 1; rank < options.num_ranks; ++rank) {
      options.bounds.push_back(draw(random, 0, rows));
    }
    std::ranges::sort(options.bounds);

    Plan const plan = plan_layout(program, Sizes(program), options);

    Execution execution(plan);
    for (Argument const& input : plan.graph.inputs) {
      ValueId const id = std::get<TensorRef>(input).value;
      execution.set(id, counting(plan.shapes[static_cast<std::size_t>(id)]), plan.inputs[static_cast<std::size_t>(id)]);
    }
    for (NodePlan const& node : plan.nodes) {
      ASSERT_NO_FATAL_FAILURE(execution.step(node)) << "trial " << trial;
    }
    for (Transfer const& output : plan.outputs) {
      Parts const parts = execution.fetched(output);
      for (std::int64_t rank = 0; rank < plan.num_ranks; ++rank) {
        ASSERT_EQ(parts[static_cast<std::size_t>(rank)], part(execution.whole(output.value), output.to, rank));
      }
    }
    moved += *std::ranges::max_element(plan.received_bytes);
  }
  EXPECT_GT(moved, 0);
}

TEST(Plan, a_cut_that_can_stay_is_not_moved) {
  Json program = empty_program({1, 2, 8, 16});
  append(program, "aten.relu.default", {{"self", tensor("x")}}, "a", {1, 2, 8, 16});
  append(program, "aten.view.default", {{"self", tensor("a")}, {"size", ints({1, 2, 128})}}, "b", {1, 2, 128});
  append(program, "aten.permute.default", {{"self", tensor("b")}, {"dims", ints({0, 2, 1})}}, "c", {1, 128, 2});
  append(program, "aten.view.default", {{"self", tensor("c")}, {"size", ints({1, 8, 16, 2})}}, "d", {1, 8, 16, 2});
  append(program, "aten.permute.default", {{"self", tensor("d")}, {"dims", ints({0, 3, 1, 2})}}, "e", {1, 2, 8, 16});
  set_output(program, "e");
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), {.num_ranks = 3, .field_axis = -2, .bounds = {0, 1, 5, 8}});

  EXPECT_EQ(plan.received_bytes, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(plan.nodes[1].placement, (Cut{2, 128, {0, 16, 80, 128}}));
  EXPECT_EQ(plan.nodes[4].placement, (Cut{2, 8, {0, 1, 5, 8}}));
}

TEST(Plan, tables_are_converted_in_the_parts_that_are_used) {
  Json program = empty_program({1, 2, 8, 16});
  add_weight(program, "buffer", "t", "table", {8, 16});
  append(program, "aten.neg.default", {{"self", tensor("t")}}, "n", {8, 16});
  append(program, "aten.exp.default", {{"self", tensor("n")}}, "e", {8, 16});
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("e")}}, "y", {1, 2, 8, 16});
  append(program, "aten.mul.Tensor", {{"self", tensor("y")}, {"other", tensor("e")}}, "z", {1, 2, 8, 16});
  set_output(program, "z");
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), {.num_ranks = 3, .field_axis = -2, .bounds = {0, 1, 5, 8}});

  Cut const rows{0, 8, {0, 1, 5, 8}};
  EXPECT_EQ(plan.nodes[0].placement, rows);
  EXPECT_EQ(plan.nodes[1].placement, rows);
  EXPECT_EQ(plan.nodes[1].local_sizes, (std::vector<Shape>{{1, 16}, {4, 16}, {3, 16}}));
  EXPECT_EQ(plan.nodes[3].tensors[1].from, rows);
  EXPECT_EQ(plan.received_bytes, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(plan.activation_bytes, (std::vector<std::int64_t>{384, 1536, 1152}));
}

// The same queries for each of 8 tokens, which are projected.
TEST(Plan, products_of_weights_are_computed_in_the_parts_that_are_used) {
  Json program = empty_program({8, 3, 16});
  add_weight(program, "parameter", "q", "queries", {3, 16});
  add_weight(program, "parameter", "w", "weight", {16, 16});
  append(program, "aten.expand.default", {{"self", tensor("q")}, {"size", ints({8, 3, 16})}}, "e", {8, 3, 16});
  append(program, "aten.view.default", {{"self", tensor("e")}, {"size", ints({24, 16})}}, "r", {24, 16});
  append(program, "aten.linear.default", {{"input", tensor("r")}, {"weight", tensor("w")}}, "l", {24, 16});
  append(program, "aten.view.default", {{"self", tensor("l")}, {"size", ints({8, 3, 16})}}, "v", {8, 3, 16});
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("v")}}, "y", {8, 3, 16});
  append(program, "aten.add.Tensor", {{"self", tensor("y")}, {"other", tensor("e")}}, "z", {8, 3, 16});
  set_output(program, "z");
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), {.num_ranks = 3, .field_axis = -3, .bounds = {0, 1, 5, 8}});

  EXPECT_EQ(plan.nodes[0].local_sizes, (std::vector<Shape>{{1, 3, 16}, {4, 3, 16}, {3, 3, 16}}));
  EXPECT_EQ(plan.nodes[2].local_sizes, (std::vector<Shape>{{3, 16}, {12, 16}, {9, 16}}));
  EXPECT_EQ(plan.nodes[4].tensors[1].from, plan.nodes[4].placement);
  EXPECT_EQ(plan.received_bytes, (std::vector<std::int64_t>{0, 0, 0}));
}

TEST(Plan, constants_that_the_caller_gets_stay_whole) {
  Json program = empty_program({1, 2, 8, 8});
  add_weight(program, "buffer", "t", "table", {8, 8});
  append(program, "aten.neg.default", {{"self", tensor("t")}}, "n", {8, 8});
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("n")}}, "y", {1, 2, 8, 8});
  graph_of(program)["outputs"] = {tensor("y"), tensor("n")};
  signature_of(program)["output_specs"] = {{{"user_output", {{"arg", tensor("y")}}}},
                                           {{"user_output", {{"arg", tensor("n")}}}}};
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), {.num_ranks = 2, .field_axis = -2, .bounds = {0, 3, 8}});

  EXPECT_EQ(plan.nodes[0].placement, Placement());
}

TEST(Plan, operators_without_a_rule_run_on_the_whole_up_to_a_limit) {
  Json unknown = empty_program({1, 2, 8, 16});
  append(unknown, "aten.tril.default", {{"self", tensor("x")}}, "y", {1, 2, 8, 16});
  set_output(unknown, "y");
  ExportedGraph const graph = read_graph(unknown.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), PlanOptions{});

  EXPECT_TRUE(plan.nodes[0].gathered);
  EXPECT_EQ(plan.received_bytes, (std::vector<std::int64_t>{512, 512}));
  Thrown const thrown = thrown_by([&] {
    (void)plan_layout(graph, Sizes(graph), {.num_ranks = 2, .field_axis = -2, .bounds = {}, .largest_gather = 511});
  });
  EXPECT_EQ(thrown.rule, "RefusedProgram");
  EXPECT_NE(thrown.text.find("aten.tril.default in head (head.py:27)"), std::string::npos) << thrown.text;
}

// A file whose sizes are others than its operators give, which only a damaged one has.
TEST(Plan, refuses_results_with_more_rows_than_the_arguments_give) {
  Json program = empty_program({1, 2, 8, 4});
  append(program, "aten.slice.Tensor",
         {{"self", tensor("x")}, {"dim", integer(2)}, {"start", integer(338)}, {"end", integer(9)}}, "y", {1, 2, 6, 4});
  set_output(program, "y");
  ExportedGraph const graph = read_graph(program.dump());

  Thrown const thrown = thrown_by([&] { (void)plan_layout(graph, Sizes(graph), PlanOptions{}); });

  EXPECT_EQ(thrown.rule, "RefusedProgram");
  EXPECT_NE(thrown.text.find("0 indices along axis 2, its result has 6"), std::string::npos) << thrown.text;
}

TEST(Plan, runs_products_of_tensors_with_other_axes_than_they_need_on_the_whole) {
  Json program = empty_program({1, 2, 8, 4});
  add_weight(program, "parameter", "w", "head.weight", {4});
  append(program, "aten.baddbmm.default", {{"self", tensor("x")}, {"batch1", tensor("x")}, {"batch2", tensor("w")}},
         "y", {1, 2, 8, 4});
  set_output(program, "y");
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), PlanOptions{});

  EXPECT_FALSE(plan.nodes[0].placement);
}

// The hours of a batch before the field: two axes, which are not rows and columns.
TEST(Plan, cuts_the_first_input_with_three_axes_and_no_vectors_before_it) {
  Json program = empty_program({1, 2, 8, 4});
  add_weight(program, "parameter", "hours", "hours", {2, 1});
  signature_of(program)["input_specs"][0] = {{"user_input", {{"arg", tensor("hours")}}}};
  append(program, "aten.view.default", {{"self", tensor("hours")}, {"size", ints({1, 2, 1, 1})}}, "h", {1, 2, 1, 1});
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("h")}}, "y", {1, 2, 8, 4});
  set_output(program, "y");
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), {.num_ranks = 2, .field_axis = -2, .bounds = {0, 3, 8}});

  EXPECT_EQ(first_field(graph), 1U);
  EXPECT_EQ(plan.nodes.at(1).placement, (Cut{2, 8, {0, 3, 8}}));
  EXPECT_EQ(plan.inputs.at(static_cast<std::size_t>(plan.user_inputs.at(0))), Placement());
  EXPECT_EQ(plan.received_bytes, (std::vector<std::int64_t>{0, 0}));
}

// The axes of the tensors that stand below each axis of the result; none where all of it is needed.
std::vector<std::vector<std::int64_t>> axes_of(Json const& program) {
  ExportedGraph const graph = read_graph(program.dump());
  auto const rule = node_rule(graph.graph, graph.graph.nodes.at(0), Sizes(graph));
  std::vector<std::vector<std::int64_t>> axes;
  for (AxisRule const& one : rule->axes) {
    axes.push_back(one.mode == RunMode::same ? one.axes : std::vector<std::int64_t>());
  }
  return axes;
}

TEST(Plan, operators_of_torch_harmonics_keep_samples_and_channels) {
  Json disco = empty_program({2, 8, 6, 12});
  add_weight(disco, "buffer", "v", "vals", {40});
  append(disco, "disco_kernels._disco_s2_contraction_optimized.default", {{"inp", tensor("x")}, {"vals", tensor("v")}},
         "y", {2, 8, 9, 3, 6});
  Json attention = empty_program({2, 6, 12, 8});
  append(attention, "attention_kernels._neighborhood_s2_attention_optimized.default",
         {{"kw", tensor("x")}, {"vw", tensor("x")}, {"qw", tensor("x")}}, "y", {2, 6, 12, 8});
  Json last = empty_program({2, 8, 6, 12});
  append(last, "attention_kernels.permute_to_nhwc.default", {{"x", tensor("x")}}, "y", {2, 6, 12, 8});
  Json first = empty_program({2, 6, 12, 8});
  append(first, "attention_kernels.permute_to_nchw.default", {{"x", tensor("x")}}, "y", {2, 8, 6, 12});

  using Axes = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(axes_of(disco), (Axes{{0, -1}, {1, -1}, {}, {}, {}}));
  EXPECT_EQ(axes_of(attention), (Axes{{0, 0, 0}, {}, {}, {}}));
  EXPECT_EQ(axes_of(last), (Axes{{0}, {2}, {3}, {1}}));
  EXPECT_EQ(axes_of(first), (Axes{{0}, {3}, {1}, {2}}));
}

TEST(Plan, copies_of_views_are_cut_as_the_views) {
  Json permuted = empty_program({2, 8, 6, 12});
  append(permuted, "aten.permute_copy.default", {{"self", tensor("x")}, {"dims", ints({0, 2, 3, 1})}}, "y",
         {2, 6, 12, 8});

  EXPECT_EQ(axes_of(permuted), (std::vector<std::vector<std::int64_t>>{{0}, {2}, {3}, {1}}));
}

TEST(Plan, products_of_vectors_need_their_axis_alone_whole) {
  Json crossed = empty_program({2, 3, 6, 12});
  append(crossed, "aten.linalg_cross.default", {{"self", tensor("x")}, {"other", tensor("x")}, {"dim", integer(1)}},
         "y", {2, 3, 6, 12});
  Json unnamed = empty_program({2, 3, 6, 12});
  append(unnamed, "aten.cross.default", {{"self", tensor("x")}, {"other", tensor("x")}}, "y", {2, 3, 6, 12});
  Json similar = empty_program({2, 8, 6, 12});
  add_weight(similar, "buffer", "v", "vector", {8, 1, 1});
  append(similar, "aten.cosine_similarity.default", {{"x1", tensor("x")}, {"x2", tensor("v")}}, "y", {2, 6, 12});
  Json product = empty_program({2, 8, 6, 12});
  append(product, "aten.linalg_vecdot.default", {{"x", tensor("x")}, {"y", tensor("x")}}, "y", {2, 8, 6});

  using Axes = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(axes_of(crossed), (Axes{{0, 0}, {}, {2, 2}, {3, 3}}));
  EXPECT_EQ(axes_of(unnamed), (Axes{{0, 0}, {}, {2, 2}, {3, 3}}));
  EXPECT_EQ(axes_of(similar), (Axes{{0, -1}, {2, -1}, {3, -1}}));
  EXPECT_EQ(axes_of(product), (Axes{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(Plan, drawn_numbers_need_no_tensor) {
  Json drawn = empty_program({2, 8, 6, 12});
  append(drawn, "aten.bernoulli.p", {{"self", tensor("x")}, {"p", {{"as_float", 0.5}}}}, "y", {2, 8, 6, 12});
  Json by_cell = empty_program({2, 8, 6, 12});
  append(by_cell, "aten.bernoulli.default", {{"self", tensor("x")}}, "y", {2, 8, 6, 12});

  EXPECT_EQ(axes_of(drawn), (std::vector<std::vector<std::int64_t>>(4)));
  EXPECT_EQ(axes_of(by_cell), (std::vector<std::vector<std::int64_t>>{{0}, {1}, {2}, {3}}));
}

TEST(Plan, shuffles_of_pixels_keep_the_cut) {
  Json program = empty_program({1, 8, 6, 4});
  append(program, "aten.pixel_shuffle.default", {{"self", tensor("x")}, {"upscale_factor", integer(2)}}, "a",
         {1, 2, 12, 8});
  append(program, "aten.pixel_unshuffle.default", {{"self", tensor("a")}, {"downscale_factor", integer(2)}}, "b",
         {1, 8, 6, 4});
  set_output(program, "b");
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), {.num_ranks = 3, .field_axis = -2, .bounds = {0, 1, 5, 6}});

  EXPECT_EQ(plan.received_bytes, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(plan.nodes.at(2).placement, (Cut{2, 12, {0, 2, 10, 12}}));
}

TEST(Plan, writes_ten_thousand_operators_in_place_in_as_many_steps) {
  std::vector<std::int64_t> const field{1, 2, 8, 6};
  Json program = empty_program(field);
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", {{"as_float", 2.0}}}}, "a", field);
  append(program, "aten.slice.Tensor",
         {{"self", tensor("a")}, {"dim", integer(2)}, {"start", integer(1)}, {"end", integer(5)}}, "s0", {1, 2, 4, 6});
  constexpr int num_writes = 10000;
  for (int i = 0; i < num_writes; ++i) {
    append(program, "aten.add_.Tensor", {{"self", tensor("s" + std::to_string(i))}, {"other", {{"as_float", 1.0}}}},
           "s" + std::to_string(i + 1), {1, 2, 4, 6});
  }
  append(program, "aten.neg.default", {{"self", tensor("a")}}, "y", field);
  set_output(program, "y");
  ExportedGraph const graph = read_graph(program.dump());

  Plan const plan = plan_layout(graph, Sizes(graph), PlanOptions{});

  // Three nodes for each: a copy, the operator, and the slice put back into the field, which is read at the end.
  ASSERT_EQ(plan.graph.nodes.size(), 3U + 3U * num_writes);
  Node const& last = plan.graph.nodes.back();
  ValueId const read = std::get<TensorRef>(*last.input("self")).value;
  Node const& back = plan.graph.nodes[static_cast<std::size_t>(plan.graph.value(read).producer)];
  EXPECT_EQ(last.target, "aten.neg.default");
  EXPECT_EQ(back.target, "aten.slice_scatter.default");
  EXPECT_EQ(plan.graph.value(read).producer, static_cast<NodeId>(plan.graph.nodes.size()) - 2);
}

TEST(Plan, refuses_bounds_that_do_not_fit) {
  Json const program = empty_program({1, 2, 8, 16});
  ExportedGraph const graph = read_graph(program.dump());
  EXPECT_EQ(rule_of([&] {
              (void)plan_layout(graph, Sizes(graph), {.num_ranks = 2, .field_axis = -2, .bounds = {0, 3, 9}});
            }),
            "BadCuts");
}

}  // namespace
