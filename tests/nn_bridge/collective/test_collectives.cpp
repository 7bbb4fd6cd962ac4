// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include "expect_error.hpp"
#include "gradient_check.hpp"
#include "num_set_ups.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_collectives {

using nn::Consumer;
using test::difference;
using test::gradient_errors;
using test::random_cuts;
using test::random_tensor;
using test::rule_of;
using test::Spread;

/// One row of the table: the function, its types, and the serial result from all ranks' inputs.
struct Primitive {
  std::string name;
  Spread input = Spread::sharded;
  Spread output = Spread::sharded;
  std::function<torch::Tensor(torch::Tensor const&)> function;
  std::function<torch::Tensor(std::vector<torch::Tensor> const&)> expected;
  std::function<std::vector<std::int64_t>(int)> sizes;  ///< of a rank's input
};

using Sizes = std::vector<std::int64_t>;
using Tensors = std::vector<torch::Tensor>;

torch::Tensor sum_of(Tensors const& all) { return torch::stack(all).sum(0); }

torch::Tensor slice(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, int rank) {
  return x.narrow(axis, cuts.lo(rank), cuts.size(rank));
}

std::vector<Primitive> primitives(std::mt19937& random, Comm const& comm) {
  int const rank = comm.rank();
  int const root = comm.num_ranks() - 1;
  bool const is_root = rank == root;
  auto const rows = random_cuts(random, 5, comm.num_ranks());
  auto const channels = random_cuts(random, 4, comm.num_ranks());
  auto const equal = [](int) { return Sizes{3, 5}; };
  auto const whole = [](int) { return Sizes{2, 5, 3}; };
  auto const shard = [rows](int r) { return Sizes{2, rows.size(r), 3}; };
  auto const joined = [](Tensors const& all) { return torch::cat(all, 1); };
  auto const nothing = torch::empty({0}, torch::kDouble);
  return {
      {"all_sum", Spread::sharded, Spread::partial, [=](auto const& x) { return nn::all_sum(x, comm); }, sum_of, equal},
      {"copy_to_region", Spread::replicated, Spread::sharded,
       [=](auto const& x) { return nn::copy_to_region(x, comm); }, [](Tensors const& all) { return all[0]; }, equal},
      {"reduce_loss", Spread::sharded, Spread::replicated, [=](auto const& x) { return nn::reduce_loss(x, comm); },
       sum_of, equal},
      {"broadcast", Spread::sharded, Spread::partial, [=](auto const& x) { return nn::broadcast(x, root, comm); },
       [=](Tensors const& all) { return all[std::size_t(root)]; },
       [=](int r) {
         return r == root ? Sizes{3, 5} : Sizes{2, 1};
       }},
      {"sum_to_root", Spread::sharded, Spread::sharded, [=](auto const& x) { return nn::sum_to_root(x, root, comm); },
       [=](Tensors const& all) { return is_root ? sum_of(all) : nothing; }, equal},
      {"gather replicated", Spread::sharded, Spread::replicated,
       [=](auto const& x) { return nn::gather(x, 1, comm, Consumer::replicated); }, joined, shard},
      {"gather distinct", Spread::sharded, Spread::partial,
       [=](auto const& x) { return nn::gather(x, -2, comm, Consumer::distinct); }, joined, shard},
      {"scatter", Spread::replicated, Spread::sharded, [=](auto const& x) { return nn::scatter(x, 1, rows, comm); },
       [=](Tensors const& all) { return slice(all[0], 1, rows, rank); }, whole},
      {"reduce_scatter", Spread::sharded, Spread::sharded,
       [=](auto const& x) { return nn::reduce_scatter(x, -2, rows, comm); },
       [=](Tensors const& all) { return slice(sum_of(all), 1, rows, rank); }, whole},
      {"all_to_all", Spread::sharded, Spread::sharded,
       [=](auto const& x) { return nn::all_to_all(x, 0, 1, channels, comm); },
       [=](Tensors const& all) { return slice(torch::cat(all, 1), 0, channels, rank); },
       [=](int r) {
         return Sizes{4, rows.size(r), 3};
       }},
      {"gather_to_root", Spread::sharded, Spread::sharded,
       [=](auto const& x) { return nn::gather_to_root(x, 1, root, comm); },
       [=](Tensors const& all) { return is_root ? torch::cat(all, 1) : nothing; }, shard},
      {"scatter_from_root", Spread::sharded, Spread::sharded,
       [=](auto const& x) { return nn::scatter_from_root(x, 1, rows, root, comm); },
       [=](Tensors const& all) { return slice(all[std::size_t(root)], 1, rows, rank); },
       [=](int r) {
         return r == root ? Sizes{2, 5, 3} : Sizes{0, 4};
       }},
  };
}

/// Inputs of all ranks, as every rank knows them.
Tensors inputs(Primitive const& p, std::mt19937& random, Comm const& comm, torch::ScalarType type) {
  Tensors all;
  for (int r = 0; r < comm.num_ranks(); ++r) {
    auto x = random_tensor(random, p.sizes(r)).to(type);
    if (torch::isComplexType(type))
      x = torch::complex(at::real(x), at::real(random_tensor(random, p.sizes(r)).to(type)));
    all.push_back(p.input == Spread::replicated && r > 0 ? all[0] : x);
  }
  return all;
}

TEST(Collectives, equal_their_serial_counterparts_and_the_numeric_derivatives) {
  auto const comm = Comm::world();
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (auto const& p : primitives(random, comm)) {
      SCOPED_TRACE(p.name);
      {
        auto const type = repeat == 0 ? torch::kDouble : torch::kComplexDouble;
        auto const all = inputs(p, random, comm, type);
        auto const& own = all[std::size_t(comm.rank())];

        EXPECT_LE(difference(p.function(own), p.expected(all)), 1e-14);

        auto const errors =
            gradient_errors({.function = p.function, .input = p.input, .output = p.output, .step = 1.0}, own, comm);
        EXPECT_LE(errors.first, 1e-13);
        EXPECT_LE(errors.second, 1e-13);
        EXPECT_LE(errors.spread, 1e-14);
      }
    }
  }
}

TEST(Collectives, second_derivatives_reach_the_values_themselves) {
  auto const comm = Comm::world();
  std::mt19937 random(2);
  for (auto const& p : primitives(random, comm)) {
    SCOPED_TRACE(p.name);
    auto const own = inputs(p, random, comm, torch::kDouble)[std::size_t(comm.rank())];
    auto const cube = [&](torch::Tensor const& x) { return p.function(x.pow(3)).square(); };

    auto const errors = gradient_errors({.function = cube, .input = p.input, .output = p.output}, own, comm);

    EXPECT_LE(errors.first, 1e-5);
    EXPECT_LE(errors.second, 1e-5);
    EXPECT_LE(errors.spread, 1e-10);
  }
}

TEST(Collectives, take_expanded_and_strided_inputs_and_cotangents_and_leave_them_alone) {
  auto const comm = Comm::world();
  std::mt19937 random(3);
  for (auto const& p : primitives(random, comm)) {
    SCOPED_TRACE(p.name);
    auto const own = inputs(p, random, comm, torch::kDouble)[std::size_t(comm.rank())];
    auto plain = own.clone().requires_grad_();
    auto const y = p.function(plain);
    auto const ones = torch::ones_like(y);
    y.backward(ones, true);
    auto strided = own.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_();
    auto const before = strided.detach().clone();
    auto const z = p.function(strided);

    z.sum().backward({}, true);

    EXPECT_TRUE(torch::equal(z, y));
    EXPECT_TRUE(torch::equal(strided.grad(), plain.grad()));
    EXPECT_TRUE(torch::equal(strided, before));
    auto const cotangent = random_tensor(random, z.sizes().vec());
    auto const turned = cotangent.transpose(0, -1).contiguous().transpose(0, -1);
    auto const kept = cotangent.clone();
    auto const by_plain = torch::autograd::grad({y}, {plain}, {cotangent}, true)[0];
    auto const by_turned = torch::autograd::grad({y}, {plain}, {turned}, true)[0];
    EXPECT_TRUE(torch::equal(by_turned, by_plain));
    EXPECT_TRUE(torch::equal(turned, kept));
    auto const expanded = p.function(torch::ones({1, 1}, torch::kDouble).expand(own.sizes()));
    EXPECT_TRUE(torch::equal(expanded, p.function(torch::ones_like(own))));
  }
}

TEST(Collectives, every_dtype_and_sixteen_bits_summed_in_single_precision) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  for (auto const type : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kComplexFloat, torch::kLong,
                          torch::kInt, torch::kShort, torch::kByte}) {
    // 256 + 1 + 1 is 256 when each sum is rounded to bf16, 258 when the last alone is.
    auto const x = torch::full({2, n}, comm.rank() == 0 && type != torch::kByte ? 256 : 1, type);
    auto const expected = torch::full({2, n}, type == torch::kByte ? n : 255 + n, torch::kLong);
    Cuts const each(std::vector<Index>(std::size_t(n), 1));

    EXPECT_TRUE(torch::equal(nn::all_sum(x, comm), expected.to(type))) << type;
    EXPECT_TRUE(torch::equal(nn::reduce_scatter(x, 1, each, comm), expected.narrow(1, 0, 1).to(type))) << type;
    auto const y = nn::gather(x, 1, comm, Consumer::distinct);
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_EQ(y.size(1), Index(n) * n);
  }
  EXPECT_THROW((void)nn::all_sum(torch::ones({2}, torch::kBool), comm), Error);
}

TEST(Collectives, take_part_in_the_backward_where_the_own_input_needs_no_gradient) {
  auto const comm = Comm::world();
  std::mt19937 random(4);
  for (auto const& p : primitives(random, comm)) {
    SCOPED_TRACE(p.name);
    auto const own = inputs(p, random, comm, torch::kDouble)[std::size_t(comm.rank())];
    auto all = own.clone().requires_grad_();
    p.function(all).square().sum().backward();
    auto x = own.clone().requires_grad_(comm.rank() == 0);

    auto const y = p.function(x);
    y.square().sum().backward();

    EXPECT_TRUE(y.requires_grad());
    EXPECT_EQ(x.grad().defined(), comm.rank() == 0);
    if (comm.rank() == 0) {
      EXPECT_TRUE(torch::equal(x.grad(), all.grad()));
    }
  }
  torch::NoGradGuard const no_grad;
  EXPECT_FALSE(nn::all_sum(torch::ones({2}), comm).requires_grad());
}

TEST(Collectives, refuse_what_differs_among_the_ranks_on_all_of_them) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  bool const odd_one = comm.rank() == 1;
  auto const x = torch::ones({2, odd_one ? 3 : 4});
  auto const cuts = balanced_cuts(4, comm.num_ranks());
  auto const other = Cuts([&] {
    std::vector<Index> sizes(std::size_t(comm.num_ranks()), 0);
    sizes[0] = 4;
    return sizes;
  }());
  auto const good = torch::ones({2, 4});

  EXPECT_EQ(rule_of([&] { (void)nn::all_sum(x, comm); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)nn::gather(x, 0, comm, Consumer::distinct); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)nn::gather(good, 1, comm, odd_one ? Consumer::distinct : Consumer::replicated); }),
            "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)nn::sum_to_root(odd_one ? good.to(torch::kDouble) : good, 0, comm); }),
            "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)nn::scatter(good, odd_one ? 2 : 1, cuts, comm); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { (void)nn::scatter(x, 1, cuts, comm); }), "BadCuts");
  EXPECT_EQ(rule_of([&] { (void)nn::reduce_scatter(good, 1, odd_one ? other : cuts, comm); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)nn::all_to_all(good, 1, -1, cuts, comm); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { (void)nn::broadcast(good, odd_one ? 1 : 0, comm); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)nn::broadcast(good, odd_one ? 9 : 0, comm); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { (void)(odd_one ? nn::copy_to_region(good, comm) : nn::all_sum(good, comm)); }),
            "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)nn::broadcast(comm.rank() == 0 ? torch::Tensor() : good, 0, comm); }),
            "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] {
              torch::AutoGradMode const mode(odd_one);
              (void)nn::copy_to_region(good, comm);
            }),
            "StructureDisagreement");
  EXPECT_NO_THROW((void)nn::all_sum(good, comm));
}

TEST(Collectives, broadcast_and_scatter_need_no_tensor_beside_the_root) {
  auto const comm = Comm::world();
  bool const is_root = comm.rank() == 0;
  auto x = is_root ? torch::arange(6, torch::kDouble).requires_grad_() : torch::Tensor();
  auto const cuts = balanced_cuts(6, comm.num_ranks());

  auto const y = nn::broadcast(x, 0, comm);
  auto const part = nn::scatter_from_root(x, 0, cuts, 0, comm);
  (y.sum() + 2 * part.sum()).backward();

  EXPECT_TRUE(torch::equal(y, torch::arange(6, torch::kDouble)));
  EXPECT_TRUE(torch::equal(part, slice(y, 0, cuts, comm.rank())));
  if (is_root) {
    EXPECT_TRUE(torch::equal(x.grad(), torch::full({6}, comm.num_ranks() + 2.0, torch::kDouble)));
  }
}

using test::bands;

TEST(CollectiveModules, equal_the_functions_with_one_set_up_and_reach_the_loss) {
  auto const domain = bands();
  auto const& comm = domain.comm();
  std::mt19937 random(5);
  auto const rows = random_cuts(random, 5, comm.num_ranks());
  auto const channels = random_cuts(random, 4, comm.num_ranks());
  auto const whole = random_tensor(random, {4, 5, 2});
  auto const shard = slice(whole, 1, rows, comm.rank()).contiguous();
  auto const expect = [&](auto module, torch::Tensor const& x, torch::Tensor const& expected) {
    SCOPED_TRACE(module->name());
    for (int call = 0; call < 3; ++call) {
      auto leaf = x.clone().requires_grad_();
      auto const y = module(leaf);
      EXPECT_LE(difference(y, expected), 1e-14);
      // Only rank 0 uses the output: the loss reaches the others' nodes all the same.
      auto const used = comm.rank() == 0 ? y.sum() : torch::zeros({}, torch::kDouble);
      nn::reduce_loss(used, domain).backward();
      EXPECT_TRUE(leaf.grad().defined());
    }
    EXPECT_EQ(test::num_set_ups(module), 1);
    auto const copy = module->clone();
    EXPECT_EQ(test::num_set_ups(module), 1);
  };
  double const n = comm.num_ranks();
  expect(nn::AllSum(domain), whole, whole * n);
  expect(nn::CopyToRegion(domain), whole, whole);
  expect(nn::Broadcast(0, domain), whole, whole);
  expect(nn::SumToRoot(0, domain), whole, comm.rank() == 0 ? whole * n : torch::empty({0}, torch::kDouble));
  expect(nn::Gather(-2, Consumer::distinct, domain), shard, whole);
  expect(nn::Gather(-2, Consumer::replicated, domain), shard, whole);
  expect(nn::Scatter(-2, domain, rows), whole, shard);
  expect(nn::ReduceScatter(-3, domain), whole, n * slice(whole, 0, balanced_cuts(4, comm.num_ranks()), comm.rank()));
  expect(nn::AllToAll(-3, -2, domain, channels), shard, slice(whole, 0, channels, comm.rank()));
}

TEST(CollectiveModules, refuse_disagreement_by_name_on_all_ranks) {
  auto const domain = bands();
  auto const& comm = domain.comm();
  nn::AllSum sum(domain);
  nn::Gather gather(-1, Consumer::distinct, domain);

  EXPECT_EQ(rule_of([&] { nn::Gather const bad(1, Consumer::distinct, domain); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { nn::Broadcast const bad(comm.num_ranks(), domain); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { (void)gather(torch::ones({})); }), "BadAxis");
  if (comm.num_ranks() == 1) return;
  bool const odd_one = comm.rank() == 1;
  EXPECT_EQ(rule_of([&] { (void)sum(torch::ones({odd_one ? 2 : 3})); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)gather(torch::ones({odd_one ? 2 : 3, 2})); }), "StructureDisagreement");
  EXPECT_EQ(rule_of([&] { (void)(odd_one ? gather->forward(torch::ones({2})) : sum->forward(torch::ones({2}))); }),
            "CallDisagreement");
}

TEST(GradientCheck, passes_the_halo_exchange_and_finds_a_wrong_adjoint) {
  std::mt19937 random(6);
  auto const comm = Comm::world();
  for (auto const& grid : test::grids_of(comm.num_ranks())) {
    nn::Domain const domain(comm, grid);
    test::Part const part(domain, random_cuts(random, 5, grid.extent(0)), random_cuts(random, 6, grid.extent(1)));
    auto const x = part.of(random_tensor(random, {2, 5, 6})).clone();
    nn::HaloExchange layer(nn::HaloExchangeOptions{{1, 2}, {2, 1}, {0}}, domain);

    auto const errors = gradient_errors({.function = [&](auto const& t) { return layer(t); }, .step = 1.0}, x, comm);

    EXPECT_LE(errors.first, 1e-13);
    EXPECT_LE(errors.second, 1e-13);
  }
  auto const x = torch::ones({3}, torch::kDouble);
  // Each output alone depends on all inputs: the identity is not the adjoint.
  auto const wrong = gradient_errors({.function = [&](auto const& t) { return nn::reduce_loss(t, comm); }}, x, comm);
  if (comm.num_ranks() > 1) {
    EXPECT_GT(wrong.first, 1e-3);
  }
}

}  // namespace test_collectives
}  // namespace graticule
