// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/program/sharded_program.hpp>

#include "expect_error.hpp"
#include "random_program.hpp"
#include "tiny_archive.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace {

using program::Program;
using program::ShardedProgram;
using test::append;
using test::draw;
using test::empty_program;
using test::ints;
using test::Json;
using test::Payload;
using test::tensor;

Program load(Json const& program, std::vector<Payload> const& weights = {}) {
  std::filesystem::path const path =
      std::filesystem::temp_directory_path() / ("graticule-shards-" + std::to_string(::getpid()) + ".pt2");
  test::write_records(path, test::make_records(program, weights));
  Program loaded(path);
  std::filesystem::remove(path);
  loaded->to(torch::kFloat64);
  return loaded;
}

nn::Domain world() {
  Comm const comm = Comm::world();
  return {comm, ProcessGrid{comm.num_ranks(), 1}};
}

// Small integers, the same on all ranks.
torch::Tensor integers(std::vector<std::int64_t> const& shape, std::int64_t seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return torch::randint(-2, 3, shape, torch::kFloat64);
}

// Where each rank's rows begin; any of them may have none.
std::vector<std::int64_t> random_bounds(test::Random& random, std::int64_t rows, int num_ranks) {
  std::vector<std::int64_t> bounds{0, rows};
  for (int rank = 1; rank < num_ranks; ++rank) {
    bounds.push_back(draw(random, 0, rows));
  }
  std::ranges::sort(bounds);
  return bounds;
}

torch::Tensor own_rows(torch::Tensor const& whole, std::vector<std::int64_t> const& bounds, int rank) {
  auto const at = static_cast<std::size_t>(rank);
  return whole.narrow(-2, bounds[at], bounds[at + 1] - bounds[at]);
}

torch::Tensor total(torch::Tensor const& partial, torch::Tensor const& of) {
  torch::Tensor sum = partial.defined() ? partial.contiguous().clone() : torch::zeros_like(of);
  nn::detail::sum_over(Comm::world(), sum);
  return sum;
}

program::ShardOptions cut_wherever_possible() { return {.costs = {.message = 0, .replicated = 1000, .overlap = 0}}; }

// This rank's rows of an output, where the plan has them.
torch::Tensor planned_rows(ShardedProgram shards, torch::Tensor const& whole, int rank) {
  auto const indices = shards->plan().outputs.at(0).to->owned_indices(whole.size(-2), rank);
  return whole.index_select(-2, torch::tensor(indices, torch::kLong));
}

// Which rows of the output a rank has: those that the plan says, or as many as of the input.
enum class OutputRows : std::uint8_t { planned, of_the_input };

// A program and its shards, whose inputs are rows with these bounds.
struct Divided {
  Divided(Program whole, nn::Domain const& on, std::vector<std::int64_t> rows, bool cut_most)
      : serial(whole),
        domain(on),
        bounds(std::move(rows)),
        shards(whole, on, cut_most ? cut_wherever_possible() : program::ShardOptions{}) {}

  // In integers, which sums hold exactly: the same bits forward, and backward to the input and all parameters. Returns
  // the whole output.
  torch::Tensor expect_equal_bits(torch::Tensor const& whole, std::int64_t seed, OutputRows output_rows) {
    int const rank = domain.comm().rank();
    torch::Tensor const x = whole.clone().requires_grad_();
    torch::Tensor const y = serial->forward(x);
    torch::Tensor const cotangent = integers(y.sizes().vec(), seed);
    (y * cotangent).sum().backward();
    std::vector<torch::Tensor> wanted;
    for (torch::Tensor const& parameter : serial->parameters()) {
      wanted.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::zeros_like(parameter));
      parameter.mutable_grad() = torch::Tensor();
    }
    torch::Tensor const own_x = own_rows(whole, bounds, rank).clone().requires_grad_();

    torch::Tensor const own_y = shards->forward(own_x);
    auto const own_of = [&](torch::Tensor const& output) {
      return output_rows == OutputRows::planned ? planned_rows(shards, output, rank) : own_rows(output, bounds, rank);
    };
    nn::reduce_loss((own_y * own_of(cotangent)).sum(), domain).backward();

    EXPECT_TRUE(torch::equal(own_y.detach(), own_of(y.detach())));
    EXPECT_TRUE(torch::equal(own_x.grad(), own_rows(x.grad(), bounds, rank)));
    auto const parameters = serial->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(torch::equal(total(parameters[i].grad(), parameters[i]), wanted[i])) << "parameter " << i;
    }
    return y.detach();
  }

  Program serial;
  nn::Domain domain;
  std::vector<std::int64_t> bounds;
  ShardedProgram shards;
};

// A view of permuted axes needs a copy.
Json with_copies(Json program) {
  for (Json& node : test::graph_of(program)["nodes"]) {
    if (node["target"] == "torch.ops.aten.view.default") {
      node["target"] = "torch.ops.aten.reshape.default";
      node["inputs"][1]["name"] = "shape";
    }
  }
  return program;
}

TEST(ShardedProgram, equals_the_serial_one_bit_for_bit_in_integers_forward_and_adjoint) {
  nn::Domain const domain = world();
  test::Random random(11);
  std::int64_t received = 0;
  for (int trial = 0; trial < 16; ++trial) {
    SCOPED_TRACE(trial);
    std::int64_t const rows = draw(random, 4, 13);
    Json const text = with_copies(test::random_program(random, rows, 6));
    auto const bounds = random_bounds(random, rows, domain.comm().num_ranks());
    Program const serial = load(text, {{"head.weight", integers({2, 2, 3, 3}, trial).to(torch::kFloat), true}});
    Divided divided(serial, domain, bounds, trial % 2 == 0);

    (void)divided.expect_equal_bits(integers({1, 2, rows, 6}, 100 + trial), 200 + trial, OutputRows::planned);

    received += *std::ranges::max_element(divided.shards->plan().received_bytes);
  }
  EXPECT_TRUE(received > 0 || domain.comm().num_ranks() == 1);
}

// Operators that public networks have beyond those of `random_program`: shuffles of pixels, parts that are overwritten,
// operators without a rule on fields (tril) and on weights (mv).
Json network_of_rare_operators(std::int64_t rows) {
  Json program = empty_program({1, 8, rows, 6});
  test::add_weight(program, "parameter", "w", "head.weight", {8, 4});
  test::graph_of(program)["tensor_values"]["w"]["requires_grad"] = true;
  test::add_weight(program, "buffer", "v", "head.v", {4});
  append(program, "aten.mv.default", {{"self", tensor("w")}, {"vec", tensor("v")}}, "scale", {8});
  append(program, "aten.view.default", {{"self", tensor("scale")}, {"size", ints({1, 8, 1, 1})}}, "scales",
         {1, 8, 1, 1});
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("scales")}}, "a", {1, 8, rows, 6});
  append(program, "aten.pixel_shuffle.default", {{"self", tensor("a")}, {"upscale_factor", test::integer(2)}}, "b",
         {1, 2, 2 * rows, 12});
  append(program, "aten.neg.default", {{"self", tensor("b")}}, "c", {1, 2, 2 * rows, 12});
  append(program, "aten.slice.Tensor",
         {{"self", tensor("c")}, {"dim", test::integer(2)}, {"start", test::integer(1)}, {"end", test::integer(3)}},
         "d", {1, 2, 2, 12});
  append(program, "aten.slice_scatter.default",
         {{"self", tensor("b")},
          {"src", tensor("d")},
          {"dim", test::integer(2)},
          {"start", test::integer(0)},
          {"end", test::integer(2)}},
         "e", {1, 2, 2 * rows, 12});
  append(program, "aten.select.int", {{"self", tensor("e")}, {"dim", test::integer(1)}, {"index", test::integer(0)}},
         "f", {1, 2 * rows, 12});
  append(program, "aten.select_scatter.default",
         {{"self", tensor("e")}, {"src", tensor("f")}, {"dim", test::integer(1)}, {"index", test::integer(1)}}, "g",
         {1, 2, 2 * rows, 12});
  append(program, "aten.tril.default", {{"self", tensor("g")}}, "h", {1, 2, 2 * rows, 12});
  append(program, "aten.pixel_unshuffle.default", {{"self", tensor("h")}, {"downscale_factor", test::integer(2)}}, "i",
         {1, 8, rows, 6});
  append(program, "aten.copy.default", {{"self", tensor("x")}, {"src", tensor("i")}}, "j", {1, 8, rows, 6});
  test::add_weight(program, "buffer", "places", "head.places", {2}, 5);
  append(program, "aten.slice.Tensor",
         {{"self", tensor("a")}, {"dim", test::integer(1)}, {"start", test::integer(0)}, {"end", test::integer(2)}},
         "k", {1, 2, rows, 6});
  Json const indices = {{"as_optional_tensors", {{{"as_none", true}}, {{"as_tensor", {{"name", "places"}}}}}}};
  append(program, "aten.index_put.default", {{"self", tensor("j")}, {"indices", indices}, {"values", tensor("k")}}, "y",
         {1, 8, rows, 6});
  append(program, "aten.index.Tensor", {{"self", tensor("y")}, {"indices", indices}}, "l", {1, 2, rows, 6});
  append(program, "aten.index_select.default",
         {{"self", tensor("l")}, {"dim", test::integer(2)}, {"index", tensor("rows")}}, "m", {1, 2, rows, 6});
  append(program, "aten.cat.default",
         {{"tensors", {{"as_tensors", {{{"name", "m"}}, {{"name", "y"}}}}}}, {"dim", test::integer(1)}}, "z",
         {1, 10, rows, 6});
  test::add_weight(program, "buffer", "rows", "head.rows", {rows}, 5);
  test::set_output(program, "z");
  return with_copies(std::move(program));
}

TEST(ShardedProgram, runs_the_rarer_operators_of_public_networks_bit_for_bit) {
  nn::Domain const domain = world();
  test::Random random(3);
  for (int trial = 0; trial < 6; ++trial) {
    SCOPED_TRACE(trial);
    std::int64_t const rows = draw(random, 3, 9);
    auto const bounds = random_bounds(random, rows, domain.comm().num_ranks());
    Program const serial =
        load(network_of_rare_operators(rows), {{"head.weight", integers({8, 4}, 7).to(torch::kFloat), true},
                                               {"head.v", integers({4}, 8).to(torch::kFloat), false},
                                               {"head.places", torch::tensor({5, 2}, torch::kLong), false},
                                               {"head.rows", torch::arange(rows - 1, -1, -1, torch::kLong), false}});
    Divided divided(serial, domain, bounds, trial % 2 == 0);

    auto const y =
        divided.expect_equal_bits(integers({1, 8, rows, 6}, 100 + trial), 200 + trial, OutputRows::of_the_input);

    EXPECT_GT(y.abs().sum().item<double>(), 0);
  }
}

// y = batch_norm(x) in training, with new running statistics.
Json batch_norm_network() {
  Json program = empty_program({2, 3, 7, 5});
  for (char const* name : {"running_mean", "running_var"}) {
    test::add_weight(program, "buffer", name, std::string("norm.") + name, {3});
  }
  Json const real = {{"as_float", 0.25}};
  test::graph_of(program)["nodes"].push_back(
      test::node("aten._native_batch_norm_legit_functional.default",
                 {{"input", tensor("x")},
                  {"weight", {{"as_none", true}}},
                  {"bias", {{"as_none", true}}},
                  {"running_mean", tensor("running_mean")},
                  {"running_var", tensor("running_var")},
                  {"training", {{"as_bool", true}}},
                  {"momentum", real},
                  {"eps", {{"as_float", 1e-5}}}},
                 {tensor("y"), tensor("mean"), tensor("deviation"), tensor("new_mean"), tensor("new_var")}));
  auto& values = test::graph_of(program)["tensor_values"];
  values["y"] = test::tensor_meta({2, 3, 7, 5});
  for (char const* name : {"mean", "deviation", "new_mean", "new_var"}) {
    values[name] = test::tensor_meta({3});
  }
  test::graph_of(program)["outputs"] = {tensor("new_mean"), tensor("new_var"), tensor("y")};
  auto const mutation = [](char const* value, char const* buffer) {
    return Json{{"buffer_mutation", {{"arg", {{"name", value}}}, {"buffer_name", buffer}}}};
  };
  test::signature_of(program)["output_specs"] = {mutation("new_mean", "norm.running_mean"),
                                                 mutation("new_var", "norm.running_var"),
                                                 {{"user_output", {{"arg", tensor("y")}}}}};
  return program;
}

TEST(ShardedProgram, updates_running_statistics_from_all_ranks) {
  nn::Domain const domain = world();
  std::vector<Payload> const weights{{"norm.running_mean", torch::zeros({3})}, {"norm.running_var", torch::ones({3})}};
  Program serial = load(batch_norm_network(), weights);
  Program divided = load(batch_norm_network(), weights);
  ShardedProgram shards(divided, domain, cut_wherever_possible());
  test::Random random(3);
  auto const bounds = random_bounds(random, 7, domain.comm().num_ranks());
  torch::manual_seed(7);
  torch::Tensor const whole = torch::randn({2, 3, 7, 5}, torch::kFloat64) + 3;
  torch::Tensor const x = whole.clone().requires_grad_();
  torch::Tensor const y = serial->forward(x);
  y.pow(3).sum().backward();
  torch::Tensor const own_x = own_rows(whole, bounds, domain.comm().rank()).clone().requires_grad_();

  torch::Tensor const own_y = shards->forward(own_x);
  nn::reduce_loss(own_y.pow(3).sum(), domain).backward();

  EXPECT_TRUE(torch::allclose(own_y, own_rows(y, bounds, domain.comm().rank()), 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(own_x.grad(), own_rows(x.grad(), bounds, domain.comm().rank()), 1e-11, 1e-11));
  for (auto const& buffer : serial->named_buffers()) {
    EXPECT_TRUE(torch::allclose(shards->named_buffers()[buffer.key()], buffer.value(), 1e-12, 1e-12)) << buffer.key();
    EXPECT_GT((buffer.value() - (buffer.key().ends_with("var") ? 1.0 : 0.0)).abs().max().item<double>(), 0.01);
  }
}

// y = x * |x|^2 summed over rows and columns: second derivatives cross ranks.
Json coupled_network() {
  Json program = empty_program({1, 2, 6, 4});
  test::add_weight(program, "parameter", "w", "head.weight", {2, 2, 3, 3});
  append(program, "aten.conv2d.default", {{"input", tensor("x")}, {"weight", tensor("w")}, {"padding", ints({1, 1})}},
         "a", {1, 2, 6, 4});
  append(program, "aten.group_norm.default", {{"input", tensor("a")}, {"num_groups", {{"as_int", 1}}}}, "b",
         {1, 2, 6, 4});
  append(program, "aten.mul.Tensor", {{"self", tensor("b")}, {"other", tensor("a")}}, "c", {1, 2, 6, 4});
  append(program, "aten.mean.dim", {{"self", tensor("c")}, {"dim", ints({2, 3})}, {"keepdim", {{"as_bool", true}}}},
         "m", {1, 2, 1, 1});
  append(program, "aten.mul.Tensor", {{"self", tensor("c")}, {"other", tensor("m")}}, "y", {1, 2, 6, 4});
  test::set_output(program, "y");
  test::graph_of(program)["tensor_values"]["w"]["requires_grad"] = true;
  return program;
}

TEST(ShardedProgram, has_the_serial_second_derivatives) {
  nn::Domain const domain = world();
  torch::manual_seed(5);
  torch::Tensor const weight = torch::randn({2, 2, 3, 3});
  torch::Tensor const whole = torch::randn({1, 2, 6, 4}, torch::kFloat64);
  Program serial = load(coupled_network(), {{"head.weight", weight, true}});
  torch::Tensor const x = whole.clone().requires_grad_();
  torch::Tensor const first = torch::autograd::grad({serial->forward(x).square().sum()}, {x}, {}, true, true)[0];
  first.square().sum().backward();
  torch::Tensor const wanted = serial->parameter("head.weight").grad().clone();
  test::Random random(9);
  for (int trial = 0; trial < 3; ++trial) {
    auto const bounds = random_bounds(random, 6, domain.comm().num_ranks());
    Program divided = load(coupled_network(), {{"head.weight", weight, true}});
    ShardedProgram shards(divided, domain, cut_wherever_possible());
    torch::Tensor const own_x = own_rows(whole, bounds, domain.comm().rank()).clone().requires_grad_();

    torch::Tensor const loss = nn::reduce_loss(shards->forward(own_x).square().sum(), domain);
    torch::Tensor const own_first = torch::autograd::grad({loss}, {own_x}, {}, true, true)[0];
    nn::reduce_loss(own_first.square().sum(), domain).backward();

    torch::Tensor const parameter = divided->parameter("head.weight");
    torch::Tensor const found = total(parameter.grad(), parameter);
    EXPECT_TRUE(torch::allclose(own_first, own_rows(first, bounds, domain.comm().rank()), 1e-11, 1e-11));
    EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-11 * wanted.abs().max().item<double>());
    EXPECT_GT(wanted.abs().max().item<double>(), 0);
  }
}

// y = x * f(mean of x over rows and columns), where f has no gradient: two channels, so that some ranks have no part of
// it.
Json network_with_constant_means(std::string const& kind) {
  Json program = empty_program({1, 2, 6, 4});
  std::vector<std::int64_t> const means{1, 2, 1, 1};
  append(program, "aten.mean.dim", {{"self", tensor("x")}, {"dim", ints({2, 3})}, {"keepdim", {{"as_bool", true}}}},
         "m", means);
  append(program, "aten.mul.Tensor", {{"self", tensor("m")}, {"other", {{"as_float", 2.0}}}}, "a", means);
  if (kind == "detach") {
    append(program, "aten.detach.default", {{"self", tensor("a")}}, "b", means);
  } else if (kind == "ones_like") {
    append(program, "aten.ones_like.default", {{"self", tensor("a")}}, "b", means);
  } else {
    append(program, "aten.gt.Scalar", {{"self", tensor("a")}, {"other", {{"as_float", 0.0}}}}, "c", means);
    test::graph_of(program)["tensor_values"]["c"]["dtype"] = 12;
    append(program, "aten.type_as.default", {{"self", tensor("c")}, {"other", tensor("a")}}, "b", means);
  }
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("b")}}, "y", {1, 2, 6, 4});
  test::set_output(program, "y");
  return program;
}

TEST(ShardedProgram, has_no_gradients_where_ranks_have_no_part_of_what_has_none) {
  nn::Domain const domain = world();
  int const rank = domain.comm().rank();
  test::Random random(13);
  torch::manual_seed(3);
  torch::Tensor const whole = torch::randn({1, 2, 6, 4}, torch::kFloat64);
  for (std::string const kind : {"detach", "ones_like", "type_as"}) {
    auto const bounds = random_bounds(random, 6, domain.comm().num_ranks());
    Program serial = load(network_with_constant_means(kind));
    torch::Tensor const x = whole.clone().requires_grad_();
    torch::Tensor const y = serial->forward(x);
    y.square().sum().backward();
    ShardedProgram shards(serial, domain, cut_wherever_possible());
    torch::Tensor const own_x = own_rows(whole, bounds, rank).clone().requires_grad_();

    torch::Tensor const own_y = shards->forward(own_x);
    nn::reduce_loss(own_y.square().sum(), domain).backward();

    EXPECT_TRUE(torch::allclose(own_y, own_rows(y, bounds, rank), 1e-13, 1e-13)) << kind;
    EXPECT_TRUE(torch::allclose(own_x.grad(), own_rows(x.grad(), bounds, rank), 1e-13, 1e-13)) << kind;
  }
}

// What is written to slices, selections, permutations and views of a field that is read later, and to the field after
// a view of it: `a` is read at the end, `early` is a view from before the writes.
Json network_that_overwrites(std::int64_t rows) {
  std::vector<std::int64_t> const field{1, 2, rows, 6};
  Json program = empty_program(field);
  auto const number = [](double value) { return Json{{"as_float", value}}; };
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", number(2)}}, "a", field);
  append(program, "aten.slice.Tensor",
         {{"self", tensor("a")}, {"dim", test::integer(3)}, {"start", test::integer(1)}, {"end", test::integer(5)}},
         "early", {1, 2, rows, 4});
  append(program, "aten.slice.Tensor",
         {{"self", tensor("a")}, {"dim", test::integer(2)}, {"start", test::integer(1)}, {"end", test::integer(3)}},
         "s", {1, 2, 2, 6});
  append(program, "aten.neg_.default", {{"self", tensor("s")}}, "n", {1, 2, 2, 6});
  append(program, "aten.select.int", {{"self", tensor("n")}, {"dim", test::integer(1)}, {"index", test::integer(1)}},
         "p", {1, 2, 6});
  append(program, "aten.add_.Tensor", {{"self", tensor("p")}, {"other", number(3)}}, "q", {1, 2, 6});
  append(program, "aten.permute.default", {{"self", tensor("a")}, {"dims", ints({0, 2, 3, 1})}}, "r", {1, rows, 6, 2});
  append(program, "aten.slice.Tensor",
         {{"self", tensor("r")}, {"dim", test::integer(1)}, {"start", test::integer(rows - 2)}}, "t", {1, 2, 6, 2});
  append(program, "aten.mul_.Tensor", {{"self", tensor("t")}, {"other", number(2)}}, "u", {1, 2, 6, 2});
  append(program, "aten.view.default", {{"self", tensor("a")}, {"size", ints({2, rows * 6})}}, "v", {2, rows * 6});
  append(program, "aten.select.int", {{"self", tensor("a")}, {"dim", test::integer(2)}, {"index", test::integer(0)}},
         "top", {1, 2, 6});
  append(program, "aten.select.int", {{"self", tensor("x")}, {"dim", test::integer(2)}, {"index", test::integer(-1)}},
         "bottom", {1, 2, 6});
  append(program, "aten.copy_.default", {{"self", tensor("top")}, {"src", tensor("bottom")}}, "copied", {1, 2, 6});
  append(program, "aten.sub_.Tensor", {{"self", tensor("v")}, {"other", number(1)}}, "w", {2, rows * 6});
  append(program, "aten.sum.dim_IntList",
         {{"self", tensor("early")}, {"dim", ints({3})}, {"keepdim", {{"as_bool", true}}}}, "z", {1, 2, rows, 1});
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("z")}}, "b", field);
  append(program, "aten.add.Tensor", {{"self", tensor("a")}, {"other", tensor("b")}}, "y", field);
  test::set_output(program, "y");
  return program;
}

TEST(ShardedProgram, gives_those_who_read_an_overwritten_field_later_the_new_values) {
  nn::Domain const domain = world();
  test::Random random(17);
  for (int trial = 0; trial < 6; ++trial) {
    SCOPED_TRACE(trial);
    std::int64_t const rows = draw(random, 4, 9);
    auto const bounds = random_bounds(random, rows, domain.comm().num_ranks());
    Divided divided(load(network_that_overwrites(rows)), domain, bounds, trial % 2 == 0);

    auto const y =
        divided.expect_equal_bits(integers({1, 2, rows, 6}, 100 + trial), 200 + trial, OutputRows::of_the_input);

    EXPECT_GT(y.abs().sum().item<double>(), 0);
  }
}

// Operators in place on a field, on views of it and on views of these, and reads of any of them in between.
Json network_of_random_writes(test::Random& random, std::int64_t rows) {
  std::vector<std::int64_t> const field{1, 2, rows, 6};
  Json program = empty_program(field);
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", {{"as_float", 2.0}}}}, "a", field);
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", {{"as_float", 0.0}}}}, "sum", field);
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> names{{"a", field}};
  std::string sum = "sum";
  for (int step = 0; step < 24; ++step) {
    auto const [name, shape] = names[static_cast<std::size_t>(draw(random, 0, std::ssize(names) - 1))];
    std::string const result = "t" + std::to_string(step);
    std::int64_t const kind = draw(random, 0, 6);
    if (kind == 0 && shape.size() > 2) {
      auto smaller = shape;
      smaller[2] -= smaller[2] > 2 ? 1 : 0;
      append(program, "aten.slice.Tensor",
             {{"self", tensor(name)}, {"dim", test::integer(2)}, {"start", test::integer(shape[2] - smaller[2])}},
             result, smaller);
      names.emplace_back(result, smaller);
    } else if (kind == 1 && shape.size() == 4) {
      append(program, "aten.select.int",
             {{"self", tensor(name)}, {"dim", test::integer(1)}, {"index", test::integer(-1)}}, result,
             {shape[0], shape[2], shape[3]});
      names.emplace_back(result, std::vector<std::int64_t>{shape[0], shape[2], shape[3]});
    } else if (kind == 2 && shape.size() == 4) {
      append(program, "aten.transpose.int",
             {{"self", tensor(name)}, {"dim0", test::integer(2)}, {"dim1", test::integer(3)}}, result,
             {shape[0], shape[1], shape[3], shape[2]});
      names.emplace_back(result, std::vector<std::int64_t>{shape[0], shape[1], shape[3], shape[2]});
    } else if (kind <= 4) {
      append(program, kind % 2 == 0 ? "aten.neg_.default" : "aten.add_.Tensor",
             kind % 2 == 0 ? std::vector<std::pair<std::string, Json>>{{"self", tensor(name)}}
                           : std::vector<std::pair<std::string, Json>>{{"self", tensor(name)},
                                                                       {"other", {{"as_float", 1.0 + step}}}},
             result, shape);
      names.emplace_back(result, shape);
    } else {
      append(program, "aten.sum.default", {{"self", tensor(name)}}, result, {});
      append(program, "aten.add.Tensor", {{"self", tensor(sum)}, {"other", tensor(result)}}, result + "_sum", field);
      sum = result + "_sum";
    }
  }
  append(program, "aten.add.Tensor", {{"self", tensor("a")}, {"other", tensor(sum)}}, "y", field);
  test::set_output(program, "y");
  return program;
}

TEST(ShardedProgram, follows_random_writes_through_views_of_views) {
  nn::Domain const domain = world();
  test::Random random(19);
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE(trial);
    std::int64_t const rows = draw(random, 3, 7);
    auto const bounds = random_bounds(random, rows, domain.comm().num_ranks());
    Divided divided(load(network_of_random_writes(random, rows)), domain, bounds, trial % 2 == 0);

    (void)divided.expect_equal_bits(integers({1, 2, rows, 6}, 100 + trial), 200 + trial, OutputRows::of_the_input);
  }
}

// This rank's cells of a field whose rows and columns have these bounds.
torch::Tensor own_block(torch::Tensor const& field, nn::Domain const& domain, std::vector<std::int64_t> const& rows,
                        std::vector<std::int64_t> const& columns) {
  return own_rows(own_rows(field, rows, domain.latitude_part()).transpose(-2, -1), columns, domain.longitude_part())
      .transpose(-2, -1);
}

TEST(ShardedProgram, takes_and_gives_blocks_of_a_domain_that_cuts_rows_and_columns) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() != 4) {
    GTEST_SKIP() << "blocks are tested on 4 ranks";
  }
  nn::Domain const domain(comm, ProcessGrid{2, 2});
  torch::manual_seed(5);
  torch::Tensor const weight = torch::randn({2, 2, 3, 3});
  torch::Tensor const whole = torch::randn({1, 2, 6, 4}, torch::kFloat64);
  Program serial = load(coupled_network(), {{"head.weight", weight, true}});
  torch::Tensor const x = whole.clone().requires_grad_();
  torch::Tensor const y = serial->forward(x);
  torch::Tensor const first = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
  first.square().sum().backward();
  torch::Tensor const parameter = serial->parameter("head.weight");
  torch::Tensor const wanted = parameter.grad().clone();
  ShardedProgram shards(serial, domain, cut_wherever_possible());
  // Columns 4 and none, in other rows than the bands' 2, 2, 1 and 1; then other blocks.
  for (auto const& [rows, columns] :
       {std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>{{0, 5, 6}, {0, 4, 4}},
        {{0, 1, 6}, {0, 1, 4}}}) {
    serial->zero_grad();
    nn::reset_structure(*shards);
    torch::Tensor const own_x = own_block(whole, domain, rows, columns).clone().requires_grad_();

    torch::Tensor const own_y = shards->forward(own_x);
    torch::Tensor const loss = nn::reduce_loss(own_y.pow(3).sum(), domain);
    torch::Tensor const own_first = torch::autograd::grad({loss}, {own_x}, {}, true, true)[0];
    nn::reduce_loss(own_first.square().sum(), domain).backward();

    EXPECT_TRUE(torch::allclose(own_y, own_block(y, domain, rows, columns), 1e-12, 1e-12));
    EXPECT_TRUE(torch::allclose(own_first, own_block(first, domain, rows, columns), 1e-11, 1e-11));
    EXPECT_TRUE(torch::allclose(total(parameter.grad(), parameter), wanted, 1e-10, 1e-10));
    // 2 channels of 4 bytes, as in the file, to bands and back. Rank 0 has the rows of its band already.
    EXPECT_EQ(shards->plan().block_bytes.size(), 4U);
    if (columns[1] == 4) {
      EXPECT_EQ(shards->plan().block_bytes, (std::vector<std::int64_t>{8 * 12, 8 * 8, 8 * 8, 8 * 4}));
    }
  }
}

TEST(ShardedProgram, refuses_by_name_on_all_ranks) {
  nn::Domain const domain = world();
  torch::Tensor const x = torch::ones({1, 2, 4, 6}, torch::kFloat64);
  auto const rule = [&](Json const& text, torch::Tensor const& input, std::vector<Payload> const& weights = {}) {
    ShardedProgram shards(load(text, weights), domain, cut_wherever_possible());
    return test::thrown_by([&] { (void)shards->forward(input); });
  };
  std::int64_t const rows = 4 * domain.comm().num_ranks();
  Json overwrites = empty_program({1, 2, rows, 6});
  append(overwrites, "aten.add.Tensor", {{"self", tensor("x")}, {"other", {{"as_float", 1.0}}}}, "a", {1, 2, rows, 6});
  append(overwrites, "aten.detach.default", {{"self", tensor("a")}}, "d", {1, 2, rows, 6});
  append(overwrites, "aten.relu_.default", {{"self", tensor("d")}}, "b", {1, 2, rows, 6});
  append(overwrites, "aten.add.Tensor", {{"self", tensor("a")}, {"other", tensor("b")}}, "y", {1, 2, rows, 6});
  test::set_output(overwrites, "y");
  // The same through an operator that only sees the memory of another in a new order.
  auto const seen = [&](std::string const& target, std::vector<std::pair<std::string, Json>> const& inputs,
                        std::vector<std::int64_t> const& shape) {
    Json text = empty_program({1, 2, rows, 6});
    append(text, "aten.add.Tensor", {{"self", tensor("x")}, {"other", {{"as_float", 1.0}}}}, "a", {1, 2, rows, 6});
    append(text, target, inputs, "v", shape);
    append(text, "aten.neg_.default", {{"self", tensor("a")}}, "b", {1, 2, rows, 6});
    append(text, "aten.sum.default", {{"self", tensor("v")}}, "s", {});
    append(text, "aten.add.Tensor", {{"self", tensor("b")}, {"other", tensor("s")}}, "y", {1, 2, rows, 6});
    test::set_output(text, "y");
    return text;
  };
  Json const unfolded = seen(
      "aten.unfold.default",
      {{"self", tensor("a")}, {"dimension", test::integer(3)}, {"size", test::integer(2)}, {"step", test::integer(2)}},
      {1, 2, rows, 3, 2});
  Json const turned = seen(
      "aten.einsum.default",
      {{"equation", {{"as_string", "bchw->bhwc"}}}, {"tensors", {{"as_tensors", {{{"name", "a"}}}}}}}, {1, rows, 6, 2});
  Json counts = empty_program({1, 2, rows, 6});
  test::add_weight(counts, "buffer", "w", "head.mean", {1, 2, 1, 1});
  append(counts, "aten.mean.dim", {{"self", tensor("x")}, {"dim", ints({2, 3})}, {"keepdim", {{"as_bool", true}}}}, "m",
         {1, 2, 1, 1});
  append(counts, "aten.add_.Tensor", {{"self", tensor("w")}, {"other", tensor("m")}}, "n", {1, 2, 1, 1});
  append(counts, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", {{"as_float", 2.0}}}}, "y", {1, 2, rows, 6});
  test::set_output(counts, "y");
  Json drops = empty_program({1, 2, rows, 6});
  append(drops, "aten.scaled_dot_product_attention.default",
         {{"query", tensor("x")}, {"key", tensor("x")}, {"value", tensor("x")}, {"dropout_p", {{"as_float", 0.5}}}},
         "y", {1, 2, rows, 6});
  test::set_output(drops, "y");

  EXPECT_EQ(rule(overwrites, x).rule, "RefusedProgram");
  EXPECT_EQ(rule(unfolded, x).rule, "RefusedProgram");
  EXPECT_EQ(rule(turned, x).rule, "RefusedProgram");
  EXPECT_EQ(rule(counts, x, {{"head.mean", torch::zeros({1, 2, 1, 1}), false}}).rule, "RefusedProgram");
  EXPECT_EQ(rule(drops, x.slice(2, 0, 3)).rule, "ShapeMismatch");
  // Of another type on the last rank alone.
  bool const last = domain.comm().rank() + 1 == domain.comm().num_ranks();
  EXPECT_EQ(rule(drops, last ? x.to(torch::kFloat) : x).rule, "UnsupportedTensor");
  EXPECT_EQ(test::rule_of([&] {
              nn::Domain const alone(domain.comm(), ProcessGrid{domain.comm().num_ranks(), 1});
              ShardedProgram shards(load(drops), alone);
              (void)shards->plan();
            }),
            "WrongState");
}

// Two masks on rows, one on what all ranks have: x[2, 3, rows, 5] -> a[2, 3, rows, 5], b[2, 3].
Json dropping(std::int64_t rows) {
  std::vector<std::int64_t> const shape{2, 3, rows, 5};
  auto const drop = [](char const* input) {
    return std::vector<std::pair<std::string, Json>>{
        {"input", tensor(input)}, {"p", {{"as_float", 0.25}}}, {"train", {{"as_bool", true}}}};
  };
  Json text = empty_program(shape);
  append(text, "aten.dropout.default", drop("x"), "once", shape);
  append(text, "aten.dropout.default", drop("once"), "a", shape);
  append(text, "aten.sum.dim_IntList", {{"self", tensor("x")}, {"dim", ints({2, 3})}}, "sum", {2, 3});
  append(text, "aten.dropout.default", drop("sum"), "b", {2, 3});
  test::graph_of(text)["outputs"] = {tensor("a"), tensor("b")};
  test::signature_of(text)["output_specs"] = {{{"user_output", {{"arg", tensor("a")}}}},
                                              {{"user_output", {{"arg", tensor("b")}}}}};
  return text;
}

TEST(ShardedProgram, drops_the_same_values_on_any_number_of_ranks) {
  nn::Domain const domain = world();
  nn::Domain const self(Comm(MPI_COMM_SELF), ProcessGrid{1, 1});
  int const rank = domain.comm().rank();
  int const num_ranks = domain.comm().num_ranks();
  std::int64_t const rows = 40;
  // Two thirds on the first rank, the rest on the second, none on a third.
  std::int64_t const lo = rank == 0 ? 0 : rank == 1 ? 27 : rows;
  std::int64_t const hi = rank == 0 && num_ranks > 1 ? 27 : rows;
  torch::Tensor const x = torch::ones({2, 3, rows, 5}, torch::kFloat64);
  ShardedProgram alone(load(dropping(rows)), self);
  ShardedProgram shards(load(dropping(rows)), domain, cut_wherever_possible());

  torch::Tensor const own = x.slice(2, lo, hi).clone().requires_grad_();
  auto const first = alone->run({x});
  auto const part = shards->run({own});
  auto const second = alone->run({x});
  auto const next = shards->run({own.detach()});

  auto const rows_of = [&](torch::Tensor const& whole) { return whole.slice(2, lo, hi); };
  EXPECT_TRUE(torch::equal(part[0], rows_of(first[0])));
  EXPECT_TRUE(torch::equal(next[0], rows_of(second[0])));
  EXPECT_TRUE(torch::equal(part[1], first[1])) << part[1] << first[1];
  EXPECT_FALSE(torch::equal(first[0], second[0]));
  // Of 1,200 values 0.75^2 are kept, each divided by that.
  double const kept = (first[0] != 0).sum().item<double>() / 1200;
  EXPECT_NEAR(kept, 0.5625, 0.06);
  EXPECT_NEAR(first[0].max().item<double>(), 1 / 0.5625, 1e-12);
  // The derivative is the mask.
  nn::reduce_loss(part[0].sum() + 0 * part[1].sum(), domain).backward();
  EXPECT_TRUE(torch::allclose(own.grad(), rows_of(first[0]), 1e-12, 1e-12));
  // The same draw again.
  domain.set_num_draws(0);
  EXPECT_TRUE(torch::equal(shards->run({own.detach()})[0], part[0]));
  shards->eval();
  EXPECT_TRUE(torch::equal(shards->run({own.detach()})[0], own));
}

// Attention over the rows of each column, with a mask of one's own, that drops weights.
Json dropping_attention(std::int64_t rows) {
  Json text = empty_program({2, 4, rows, 3});
  append(text, "aten.scaled_dot_product_attention.default",
         {{"query", tensor("x")},
          {"key", tensor("x")},
          {"value", tensor("x")},
          {"dropout_p", {{"as_float", 0.25}}},
          {"scale", {{"as_float", 0.7}}}},
         "y", {2, 4, rows, 3});
  test::set_output(text, "y");
  return text;
}

TEST(ShardedProgram, drops_the_same_weights_of_attention_on_any_number_of_ranks) {
  nn::Domain const domain = world();
  nn::Domain const self(Comm(MPI_COMM_SELF), ProcessGrid{1, 1});
  std::int64_t const rows = 9;
  test::Random random(4);
  auto const bounds = random_bounds(random, rows, domain.comm().num_ranks());
  torch::manual_seed(3);
  torch::Tensor const whole = torch::randn({2, 4, rows, 3}, torch::kFloat64);
  torch::Tensor const x = whole.clone().requires_grad_();
  Program serial = load(dropping_attention(rows));
  ShardedProgram alone(load(dropping_attention(rows)), self);
  ShardedProgram shards(load(dropping_attention(rows)), domain, cut_wherever_possible());
  torch::Tensor const own_x = own_rows(whole, bounds, domain.comm().rank()).clone().requires_grad_();

  torch::Tensor const y = alone->forward(x);
  y.square().sum().backward();
  torch::Tensor const own_y = shards->forward(own_x);
  nn::reduce_loss(own_y.square().sum(), domain).backward();

  auto const own = [&](torch::Tensor const& field) { return own_rows(field, bounds, domain.comm().rank()); };
  EXPECT_TRUE(torch::allclose(own_y, own(y), 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(own_x.grad(), own(x.grad()), 1e-12, 1e-12));
  serial->eval();
  shards->eval();
  torch::Tensor const calm = serial->forward(whole);
  EXPECT_TRUE(torch::allclose(shards->forward(own_x), own(calm), 1e-12, 1e-12));
  EXPECT_GT((calm - y).abs().max().item<double>(), 0.1);
}

// Reductions over rows, columns, or all, of which each rank has a part.
Json reductions(std::int64_t rows) {
  std::vector<std::int64_t> const field{2, 3, rows, 5};
  Json text = empty_program(field);
  Json const both = ints({2, 3});
  Json const yes = {{"as_bool", true}};
  std::string last = "x";
  int count = 0;
  auto const use = [&](std::string const& target, std::vector<std::pair<std::string, Json>> inputs,
                       std::vector<std::int64_t> const& shape) {
    std::string const number = std::to_string(count++);
    inputs.insert(inputs.begin(), {"self", tensor("x")});
    append(text, target, inputs, "r" + number, shape);
    append(text, "aten.sub.Tensor", {{"self", tensor(last)}, {"other", tensor("r" + number)}}, "s" + number, field);
    last = "s" + number;
  };
  use("aten.amax.default", {{"dim", both}, {"keepdim", yes}}, {2, 3, 1, 1});
  use("aten.amin.default", {{"dim", ints({2})}, {"keepdim", yes}}, {2, 3, 1, 5});
  use("aten.max.default", {}, {});
  use("aten.logsumexp.default", {{"dim", both}, {"keepdim", yes}}, {2, 3, 1, 1});
  use("aten.std.correction", {{"dim", both}, {"keepdim", yes}}, {2, 3, 1, 1});
  use("aten.linalg_vector_norm.default", {{"ord", {{"as_float", 3.0}}}, {"dim", both}, {"keepdim", yes}}, {2, 3, 1, 1});
  use("aten.linalg_vector_norm.default", {}, {});
  test::graph_of(text)["nodes"].push_back(
      test::node("aten.var_mean.correction",
                 {{"self", tensor("x")}, {"dim", both}, {"correction", {{"as_int", 0}}}, {"keepdim", yes}},
                 {tensor("variance"), tensor("mean")}));
  for (char const* name : {"variance", "mean"}) {
    test::graph_of(text)["tensor_values"][name] = test::tensor_meta({2, 3, 1, 1});
    append(text, "aten.sub.Tensor", {{"self", tensor(last)}, {"other", tensor(name)}}, std::string("s") + name, field);
    last = std::string("s") + name;
  }
  test::set_output(text, last);
  return text;
}

TEST(ShardedProgram, reduces_over_ranks_what_reductions_have_in_parts) {
  nn::Domain const domain = world();
  std::int64_t const rows = 7;
  test::Random random(5);
  Program serial = load(reductions(rows));
  torch::manual_seed(2);
  // Zeros tie for the largest value of the second sample: the gradient is theirs in equal shares.
  torch::Tensor whole = torch::randn({2, 3, rows, 5}, torch::kFloat64);
  whole[1].clamp_(-2, 0);
  torch::Tensor const x = whole.clone().requires_grad_();
  torch::Tensor const y = serial->forward(x);
  torch::Tensor const cotangent = torch::randn_like(y);
  (y * cotangent).sum().backward();
  for (int trial = 0; trial < 3; ++trial) {
    int const num_ranks = domain.comm().num_ranks();
    bool const balanced = trial == 0 && num_ranks <= 3;
    auto const bounds =
        balanced ? program::Cut::balanced(0, rows, num_ranks).bounds : random_bounds(random, rows, num_ranks);
    auto const own = [&](torch::Tensor const& field) { return own_rows(field, bounds, domain.comm().rank()); };
    ShardedProgram shards(serial, domain, cut_wherever_possible());
    torch::Tensor const own_x = own(whole).clone().requires_grad_();

    torch::Tensor const own_y = shards->forward(own_x);
    nn::reduce_loss((own_y * own(cotangent)).sum(), domain).backward();

    EXPECT_TRUE(torch::allclose(own_y, own(y), 1e-12, 1e-12)) << "trial " << trial;
    EXPECT_TRUE(torch::allclose(own_x.grad(), own(x.grad()), 1e-12, 1e-12)) << "trial " << trial;
    if (balanced) {
      EXPECT_EQ(std::ranges::count_if(shards->plan().nodes, &program::NodePlan::gathered), 0);
    }
  }
}

// y = x * |convolution of x| where the factor has no gradient, and another one in fewer digits.
Json with_modes() {
  Json program = empty_program({1, 2, 8, 4});
  test::add_weight(program, "parameter", "w", "head.weight", {2, 2, 3, 3});
  test::graph_of(program)["tensor_values"]["w"]["requires_grad"] = true;
  auto const part = [](Json const& meta) {
    Json graph = {
        {"inputs", {tensor("a"), tensor("b")}},
        {"outputs", {tensor("c")}},
        {"nodes",
         {test::node("aten.conv2d.default",
                     {{"input", tensor("a")}, {"weight", tensor("b")}, {"padding", ints({1, 1})}}, {tensor("c")})}},
        {"tensor_values",
         {{"a", test::tensor_meta({1, 2, 8, 4})}, {"b", test::tensor_meta({2, 2, 3, 3})}, {"c", meta}}},
        {"sym_int_values", Json::object()},
        {"sym_bool_values", Json::object()}};
    return Json{{"as_graph", {{"name", "part"}, {"graph", graph}}}};
  };
  auto const run = [&](std::string const& target, std::vector<std::pair<std::string, Json>> inputs,
                       std::string const& result, Json const& meta) {
    inputs.insert(inputs.end(), {{"", part(meta)}, {"", tensor("x")}, {"", tensor("w")}});
    Json node = test::node(target, inputs, {Json{{"as_tensors", {{{"name", result}}}}}});
    test::graph_of(program)["nodes"].push_back(node);
    test::graph_of(program)["tensor_values"][result] = meta;
  };
  Json const yes = {{"as_bool", true}};
  run("higher_order.wrap_with_set_grad_enabled", {{"", {{"as_bool", false}}}}, "factor",
      test::tensor_meta({1, 2, 8, 4}));
  run("higher_order.wrap_with_autocast",
      {{"", {{"as_string", "cpu"}}}, {"", {{"as_scalar_type", 13}}}, {"", yes}, {"", yes}}, "rough",
      test::tensor_meta({1, 2, 8, 4}, 13));
  append(program, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("factor")}}, "m", {1, 2, 8, 4});
  append(program, "aten.add.Tensor", {{"self", tensor("m")}, {"other", tensor("rough")}}, "y", {1, 2, 8, 4});
  test::set_output(program, "y");
  return program;
}

TEST(ShardedProgram, runs_parts_without_gradients_and_with_automatic_casts) {
  nn::Domain const domain = world();
  torch::manual_seed(8);
  torch::Tensor const weight = torch::randn({2, 2, 3, 3});
  torch::Tensor const whole = torch::randn({1, 2, 8, 4});
  test::Random random(6);
  for (torch::Dtype const type : {torch::kFloat32, torch::kFloat64}) {
    Program serial = load(with_modes(), {{"head.weight", weight, true}});
    serial->to(type);
    torch::Tensor const x = whole.to(type).clone().requires_grad_();
    torch::Tensor const y = serial->forward(x);
    y.square().sum().backward();
    torch::Tensor const wanted = serial->parameter("head.weight").grad().clone();
    serial->zero_grad();
    auto const bounds = random_bounds(random, 8, domain.comm().num_ranks());
    auto const own = [&](torch::Tensor const& field) { return own_rows(field, bounds, domain.comm().rank()); };
    ShardedProgram shards(serial, domain, cut_wherever_possible());
    torch::Tensor const own_x = own(whole.to(type)).clone().requires_grad_();

    torch::Tensor const own_y = shards->forward(own_x);
    nn::reduce_loss(own_y.square().sum(), domain).backward();

    double const tolerance = type == torch::kFloat64 ? 1e-12 : 2e-2;  // of bf16
    auto const parameter = serial->parameter("head.weight");
    EXPECT_TRUE(torch::allclose(own_y, own(y), tolerance, tolerance));
    EXPECT_TRUE(torch::allclose(own_x.grad(), own(x.grad()), tolerance, 5 * tolerance));
    EXPECT_TRUE(torch::allclose(total(parameter.grad(), parameter), wanted, tolerance, 10 * tolerance));
  }
}

// Networks on x[2, 2, rows, 6] whose operators are exceptions from the rules of their kinds.
struct Rare {
  std::string name;
  Json text = {};
  std::vector<Payload> weights = {};
};

Rare rolled_twice_along_rows(std::int64_t rows) {
  Rare rare{"roll that names an axis twice", empty_program({2, 2, rows, 6})};
  append(rare.text, "aten.roll.default",
         {{"self", tensor("x")}, {"shifts", ints({1, 1, 2})}, {"dims", ints({2, 2, 3})}}, "y", {2, 2, rows, 6});
  return rare;
}

Rare selected_by_a_number(std::int64_t rows) {
  Rare rare{"index_select by an index without axes", empty_program({2, 2, rows, 6})};
  test::add_weight(rare.text, "buffer", "i", "head.i", {}, 5);
  append(rare.text, "aten.index_select.default",
         {{"self", tensor("x")}, {"dim", test::integer(1)}, {"index", tensor("i")}}, "y", {2, 1, rows, 6});
  rare.weights = {{"head.i", torch::tensor(1, torch::kLong), false}};
  return rare;
}

Rare seen_as_integers(std::int64_t rows) {
  std::vector<std::int64_t> const field{2, 2, rows, 6};
  Rare rare{"view as another type", empty_program(field)};
  append(rare.text, "aten.view.dtype", {{"self", tensor("x")}, {"dtype", {{"as_scalar_type", 5}}}}, "a", field, 5);
  append(rare.text, "aten._to_copy.default", {{"self", tensor("a")}, {"dtype", {{"as_scalar_type", 7}}}}, "b", field);
  append(rare.text, "aten.add.Tensor", {{"self", tensor("x")}, {"other", tensor("b")}}, "y", field);
  return rare;
}

Rare meshed(std::int64_t rows) {
  Rare rare{"meshgrid of values of fields", empty_program({2, 2, rows, 6})};
  append(rare.text, "aten.mean.dim", {{"self", tensor("x")}, {"dim", ints({0, 1, 3})}}, "m", {rows});
  append(rare.text, "aten.mean.dim", {{"self", tensor("x")}, {"dim", ints({0, 1, 2})}}, "n", {6});
  test::graph_of(rare.text)["nodes"].push_back(test::node(
      "aten.meshgrid.indexing",
      {{"tensors", {{"as_tensors", {{{"name", "m"}}, {{"name", "n"}}}}}}, {"indexing", {{"as_string", "ij"}}}},
      {Json{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}}));
  for (char const* name : {"a", "b"}) {
    test::graph_of(rare.text)["tensor_values"][name] = test::tensor_meta({rows, 6});
  }
  append(rare.text, "aten.mul.Tensor", {{"self", tensor("a")}, {"other", tensor("b")}}, "c", {rows, 6});
  append(rare.text, "aten.add.Tensor", {{"self", tensor("x")}, {"other", tensor("c")}}, "y", {2, 2, rows, 6});
  return rare;
}

std::vector<std::pair<std::string, Json>> norm_arguments() {
  Json const none = {{"as_none", true}};
  return {{"input", tensor("x")},
          {"weight", none},
          {"bias", none},
          {"running_mean", tensor("running_mean")},
          {"running_var", tensor("running_var")}};
}

void add_running_statistics(Rare& rare) {
  for (char const* name : {"running_mean", "running_var"}) {
    test::add_weight(rare.text, "buffer", name, std::string("norm.") + name, {2});
  }
  rare.weights = {{"norm.running_mean", torch::tensor({0.5F, -1.0F}), false},
                  {"norm.running_var", torch::tensor({2.0F, 0.25F}), false}};
}

// Its second and third results are empty.
Rare normalized_by_running_statistics(std::int64_t rows) {
  Rare rare{"batch norm in evaluation", empty_program({2, 2, rows, 6})};
  add_running_statistics(rare);
  auto arguments = norm_arguments();
  arguments.emplace_back("momentum", Json{{"as_float", 0.25}});
  arguments.emplace_back("eps", Json{{"as_float", 1e-5}});
  test::graph_of(rare.text)["nodes"].push_back(test::node("aten._native_batch_norm_legit_no_training.default",
                                                          arguments,
                                                          {tensor("y"), tensor("none_1"), tensor("none_2")}));
  auto& values = test::graph_of(rare.text)["tensor_values"];
  values["y"] = test::tensor_meta({2, 2, rows, 6});
  values["none_1"] = values["none_2"] = test::tensor_meta({0});
  return rare;
}

Rare instance_norm(std::int64_t rows, bool of_inputs) {
  Rare rare{of_inputs ? "instance norm that overwrites statistics" : "instance norm by statistics",
            empty_program({2, 2, rows, 6})};
  add_running_statistics(rare);
  auto arguments = norm_arguments();
  arguments.emplace_back("use_input_stats", Json{{"as_bool", of_inputs}});
  arguments.emplace_back("momentum", Json{{"as_float", 0.25}});
  arguments.emplace_back("eps", Json{{"as_float", 1e-5}});
  arguments.emplace_back("cudnn_enabled", Json{{"as_bool", false}});
  append(rare.text, "aten.instance_norm.default", arguments, "y", {2, 2, rows, 6});
  return rare;
}

TEST(ShardedProgram, equals_the_serial_one_where_operators_are_exceptions) {
  nn::Domain const domain = world();
  int const rank = domain.comm().rank();
  std::int64_t const rows = 7;
  test::Random random(23);
  torch::manual_seed(4);
  torch::Tensor const whole = torch::randn({2, 2, rows, 6}, torch::kFloat64) + 0.5;
  for (Rare rare : {rolled_twice_along_rows(rows), selected_by_a_number(rows), seen_as_integers(rows), meshed(rows),
                    normalized_by_running_statistics(rows), instance_norm(rows, true), instance_norm(rows, false)}) {
    test::set_output(rare.text, "y");
    Program serial = load(rare.text, rare.weights);
    Program divided = load(rare.text, rare.weights);
    auto const bounds = random_bounds(random, rows, domain.comm().num_ranks());
    ShardedProgram shards(divided, domain, cut_wherever_possible());
    torch::Tensor const x = whole.clone().requires_grad_();
    torch::Tensor const y = serial->forward(x);
    torch::Tensor const cotangent = torch::randn_like(y);
    (y * cotangent).sum().backward();
    torch::Tensor const own_x = own_rows(whole, bounds, rank).clone().requires_grad_();

    torch::Tensor const own_y = shards->forward(own_x);
    nn::reduce_loss((own_y * own_rows(cotangent, bounds, rank)).sum(), domain).backward();

    EXPECT_TRUE(torch::allclose(own_y, own_rows(y, bounds, rank), 1e-12, 1e-12)) << rare.name;
    EXPECT_TRUE(torch::allclose(own_x.grad(), own_rows(x.grad(), bounds, rank), 1e-11, 1e-11)) << rare.name;
    for (auto const& buffer : serial->named_buffers()) {
      torch::Tensor const found = shards->named_buffers()[buffer.key()];
      EXPECT_TRUE(torch::allclose(found, buffer.value(), 1e-12, 1e-12)) << rare.name << ": " << buffer.key();
    }
    if (rare.name == "batch norm in evaluation" || rare.name == "instance norm by statistics") {
      EXPECT_EQ(*std::ranges::max_element(shards->plan().received_bytes), 0) << rare.name;
    }
  }
}

// Sums of a few thousand values of this size are beyond the largest number of f16.
TEST(ShardedProgram, has_means_and_variances_of_halves_that_do_not_overflow) {
  nn::Domain const domain = world();
  std::vector<std::int64_t> const means{1, 2, 1, 1};
  Json text = empty_program({1, 2, 40, 50});
  Json const both = ints({2, 3});
  Json const yes = {{"as_bool", true}};
  append(text, "aten.mean.dim", {{"self", tensor("x")}, {"dim", both}, {"keepdim", yes}}, "m", means);
  append(text, "aten.std.correction", {{"self", tensor("x")}, {"dim", both}, {"keepdim", yes}}, "s", means);
  append(text, "aten.sub.Tensor", {{"self", tensor("x")}, {"other", tensor("m")}}, "a", {1, 2, 40, 50});
  append(text, "aten.div.Tensor", {{"self", tensor("a")}, {"other", tensor("s")}}, "b", {1, 2, 40, 50});
  append(text, "aten.var.correction", {{"self", tensor("b")}, {"dim", both}, {"keepdim", yes}}, "v", means);
  append(text, "aten.add.Tensor", {{"self", tensor("b")}, {"other", tensor("v")}}, "y", {1, 2, 40, 50});
  test::set_output(text, "y");
  Program serial = load(text);
  serial->to(torch::kHalf);
  torch::Tensor const whole =
      ((torch::arange(4000, torch::kFloat64) * 0.37).sin() * 200 + 1000).reshape({1, 2, 40, 50});
  auto const bounds = program::Cut::balanced(0, 40, domain.comm().num_ranks()).bounds;
  ShardedProgram shards(serial, domain, cut_wherever_possible());
  torch::Tensor const x = whole.to(torch::kHalf).requires_grad_();
  torch::Tensor const y = serial->forward(x);
  y.pow(3).sum().backward();
  torch::Tensor const own_x = own_rows(whole, bounds, domain.comm().rank()).to(torch::kHalf).requires_grad_();

  torch::Tensor const own_y = shards->forward(own_x);
  nn::reduce_loss(own_y.pow(3).sum(), domain).backward();

  auto const gap = [&](torch::Tensor const& found, torch::Tensor const& wanted) {
    return (found - own_rows(wanted, bounds, domain.comm().rank())).abs().max().item<double>() /
           wanted.abs().max().item<double>();
  };
  EXPECT_EQ(own_y.scalar_type(), torch::kHalf);
  EXPECT_LE(gap(own_y, y), 0.01);
  EXPECT_LE(gap(own_x.grad(), x.grad()), 0.1);
}

TEST(ShardedProgram, plans_without_running) {
  nn::Domain const domain = world();
  int const num_ranks = domain.comm().num_ranks();
  std::int64_t const rows = 40;
  ShardedProgram shards(load(dropping(rows)), domain);
  std::vector<std::int64_t> parts(static_cast<std::size_t>(num_ranks), 0);
  parts[0] = rows;

  shards->plan_for({{2, 3, rows, 5}}, parts);

  EXPECT_EQ(test::rule_of([&] { shards->plan_for({{2, 3, rows + 1, 5}}, parts); }), "BadCuts");
  EXPECT_EQ(test::rule_of([&] { shards->plan_for({}, parts); }), "ShapeMismatch");
  parts[0] = rows + 1;
  EXPECT_EQ(test::rule_of([&] { shards->plan_for({{2, 3, rows + 1, 5}}, parts); }), "ShapeMismatch");
  Json unknown = empty_program({1, 2, 12, 12});
  append(unknown, "aten.einsum.default",
         {{"equation", {{"as_string", "abc->abc"}}}, {"tensors", {{"as_tensors", {{{"name", "x"}}}}}}}, "y",
         {1, 2, 12, 12});
  test::set_output(unknown, "y");
  parts[0] = 12;
  ShardedProgram refused(load(unknown), domain);
  EXPECT_EQ(test::rule_of([&] { refused->plan_for({{1, 2, 12, 12}}, parts); }), "RefusedProgram");
  EXPECT_EQ(test::rule_of([&] { (void)shards->plan(); }), "WrongState");
}

TEST(ShardedProgram, has_the_names_of_the_serial_one_and_runs_dropout_in_eval) {
  nn::Domain const domain = world();
  std::int64_t const rows = 4 * domain.comm().num_ranks();
  Json text = empty_program({1, 2, rows, 6});
  test::add_weight(text, "parameter", "w", "deep.part.weight", {2, 1, 1});
  append(text, "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("w")}}, "a", {1, 2, rows, 6});
  append(text, "aten.dropout.default",
         {{"input", tensor("a")}, {"p", {{"as_float", 0.5}}}, {"train", {{"as_bool", true}}}}, "y", {1, 2, rows, 6});
  test::set_output(text, "y");
  ShardedProgram shards(load(text, {{"deep.part.weight", torch::full({2, 1, 1}, 3.0F), true}}), domain);
  shards->eval();
  torch::Tensor const x = torch::ones({1, 2, 4, 6}, torch::kFloat64);

  EXPECT_TRUE(torch::equal(shards->forward(x), x * 3));
  EXPECT_TRUE(shards->named_parameters().contains("deep.part.weight"));
  auto const copy = std::dynamic_pointer_cast<program::ShardedProgramImpl>(shards->clone());
  EXPECT_TRUE(torch::equal(copy->forward(x), x * 3));
}

}  // namespace
}  // namespace graticule
