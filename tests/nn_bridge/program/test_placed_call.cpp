// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/program/detail/placed_call.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include "expect_error.hpp"
#include "graph_text.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace {

using program::Cut;
using program::PlacedCall;
using program::Placement;
using test::Json;
using test::tensor;

nn::Domain world() {
  Comm const comm = Comm::world();
  return {comm, ProcessGrid{comm.num_ranks(), 1}};
}

std::int64_t num_ranks() { return Comm::world().num_ranks(); }
int rank() { return Comm::world().rank(); }

// The first rank has most.
Cut uneven(std::int64_t axis, std::int64_t extent) {
  Cut cut{axis, extent, {0}};
  for (std::int64_t r = 0; r < num_ranks(); ++r) {
    cut.bounds.push_back(extent - (num_ranks() - 1 - r) / 2);
  }
  return cut;
}

torch::Tensor part(torch::Tensor const& whole, Placement const& place) {
  if (!place) {
    return whole.clone();
  }
  auto const indices = place->owned_indices(whole.size(place->axis), rank());
  return whole.index_select(place->axis, torch::tensor(indices, torch::kLong)).clone();
}

// One operator on x [2, 6, 4] of f64.
std::string one(std::string const& target, std::vector<std::pair<std::string, Json>> inputs,
                std::vector<std::int64_t> const& sizes) {
  Json program = test::empty_program({2, 6, 4});
  test::graph_of(program)["tensor_values"]["x"] = test::tensor_meta({2, 6, 4}, 8);
  inputs.insert(inputs.begin(), {"self", tensor("x")});
  test::append(program, target, inputs, "y", sizes, 8);
  test::set_output(program, "y");
  return program.dump();
}

Json integers(std::vector<std::int64_t> const& values) { return {{"as_ints", values}}; }
Json integer(std::int64_t value) { return {{"as_int", value}}; }

struct Case {
  std::string json;
  torch::Tensor (*serial)(torch::Tensor const&);
  bool direct;
};

std::vector<Case> cases() {
  return {
      {one("aten.relu.default", {}, {2, 6, 4}), [](torch::Tensor const& x) { return x.relu(); }, true},
      {one("aten.roll.default", {{"shifts", integers({1})}, {"dims", integers({1})}}, {2, 6, 4}),
       [](torch::Tensor const& x) { return x.roll(1, 1); }, false},
      {one("aten.mean.dim", {{"dim", integers({1})}}, {2, 4}), [](torch::Tensor const& x) { return x.mean(1); }, false},
      {one("aten.view.default", {{"size", integers({2, 24})}}, {2, 24}),
       [](torch::Tensor const& x) {
         return x.reshape({2, 24});
       },
       false},
      {one("aten.transpose.int", {{"dim0", integer(0)}, {"dim1", integer(1)}}, {6, 2, 4}),
       [](torch::Tensor const& x) { return x.transpose(0, 1); }, false},
      {one("aten.cumsum.default", {{"dim", integer(1)}}, {2, 6, 4}), [](torch::Tensor const& x) { return x.cumsum(1); },
       false}};
}

TEST(PlacedCall, functions_are_those_of_whole_tensors_from_any_place) {
  for (Case const& one : cases()) {
    for (Cut const& from : {uneven(1, 6), Cut::balanced(1, 6, num_ranks()), Cut::balanced(2, 4, num_ranks())}) {
      for (bool const to_whole : {false, true}) {
        std::vector<program::Wanted> wanted;
        if (to_whole) {
          wanted.emplace_back(Placement());
        }
        PlacedCall call(one.json, world(), {.inputs = {from}, .outputs = wanted});
        torch::manual_seed(3);
        torch::Tensor const whole = torch::randn({2, 6, 4}, torch::kFloat64).requires_grad_();
        torch::Tensor const own = part(whole.detach(), from).requires_grad_();
        torch::Tensor const expected = one.serial(whole);
        torch::Tensor const y = call.run({own}).at(0);
        Placement const place = call.outputs().at(0);
        EXPECT_TRUE(torch::allclose(y, part(expected.detach(), place), 1e-12, 1e-12)) << one.json;
        EXPECT_EQ(place.has_value() && to_whole, false);
        // A whole result enters the loss in equal parts.
        torch::Tensor const factors = torch::randn(expected.sizes(), torch::kFloat64);
        (expected * factors).sum().backward();
        torch::Tensor const share = part(factors, place);
        ((y * share).sum() / (place ? 1.0 : static_cast<double>(num_ranks()))).backward();
        EXPECT_TRUE(torch::allclose(own.grad(), part(whole.grad(), from), 1e-12, 1e-12)) << one.json;
      }
    }
  }
}

TEST(PlacedCall, what_is_direct_is_the_function_of_the_local_tensor) {
  for (Case const& one : cases()) {
    Cut const from = uneven(1, 6);
    PlacedCall const call(one.json, world(), {.inputs = {from}});
    EXPECT_EQ(call.direct() && num_ranks() > 1, one.direct && num_ranks() > 1) << one.json;
    if (call.direct()) {
      torch::manual_seed(3);
      torch::Tensor const whole = torch::randn({2, 6, 4}, torch::kFloat64);
      torch::Tensor const y = one.serial(part(whole, from));
      EXPECT_TRUE(torch::equal(y, part(one.serial(whole), call.outputs().at(0)))) << one.json;
    }
  }
}

TEST(PlacedCall, errors_are_named) {
  std::string const relu = cases()[0].json;
  EXPECT_EQ(test::rule_of([&] { PlacedCall(relu, world(), {.inputs = {}}); }), "BadArgument");
  EXPECT_EQ(test::rule_of([&] { PlacedCall(relu, world(), {.inputs = {Placement()}}); }), "BadArgument");
  std::string const nonzero = one("aten.nonzero.default", {}, {2, 3});
  EXPECT_EQ(test::rule_of([&] { PlacedCall(nonzero, world(), {.inputs = {uneven(1, 6)}}); }), "RefusedProgram");
  PlacedCall call(cases()[1].json, world(), {.inputs = {uneven(1, 6)}});
  EXPECT_EQ(test::rule_of([&] { (void)call.run({torch::ones({2, 7, 4}, torch::kFloat64)}); }), "ShapeMismatch");
}

}  // namespace
}  // namespace graticule
