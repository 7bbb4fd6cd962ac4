// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/philox.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/model/rollout.hpp>

#include "expect_error.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace graticule {
namespace test_dropout {

using nn::RandomOptions;
using test::difference;
using test::Part;
using test::random_tensor;
using test::rule_of;
using torch::Tensor;

using Forward = std::function<Tensor(Tensor const&)>;

template <class Holder>
Forward forward_of(Holder layer) {
  return [layer](Tensor const& x) mutable { return layer(x); };
}

struct Kind {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::function<Forward(nn::Domain const&, double, RandomOptions)> make;
};

std::vector<Kind> kinds() {
  return {
      {"Dropout",
       {2, 3, 7, 5},
       [](nn::Domain const& d, double p, RandomOptions r) {
         return forward_of(nn::Dropout(torch::nn::DropoutOptions(p), r, d));
       }},
      {"Dropout2d",
       {3, 5, 7, 5},
       [](nn::Domain const& d, double p, RandomOptions r) {
         return forward_of(nn::Dropout2d(torch::nn::Dropout2dOptions(p), r, d));
       }},
      {"Dropout3d",
       {3, 5, 2, 7, 5},
       [](nn::Domain const& d, double p, RandomOptions r) {
         return forward_of(nn::Dropout3d(torch::nn::Dropout3dOptions(p), r, d));
       }},
      {"AlphaDropout",
       {2, 3, 7, 5},
       [](nn::Domain const& d, double p, RandomOptions r) {
         return forward_of(nn::AlphaDropout(torch::nn::AlphaDropoutOptions(p), r, d));
       }},
      {"DropPath",
       {30, 1, 7, 5},
       [](nn::Domain const& d, double p, RandomOptions r) {
         return forward_of(nn::DropPath(nn::DropPathOptions{p}, r, d));
       }},
  };
}

/// A domain of this rank alone.
nn::Domain alone(Comm const& comm) { return {comm.split(comm.rank(), 0), ProcessGrid{1, 1}}; }

TEST(Dropout, masks_are_the_same_bits_for_every_partition) {
  std::mt19937 random(1);
  auto const comm = Comm::world();
  auto const single = alone(comm);
  RandomOptions const options{.seed = 0x123456789abcdef0U, .layer = 7};
  for (auto const& kind : kinds())
    for (auto const& grid : test::grids_of(comm.num_ranks())) {
      SCOPED_TRACE(kind.name + ", " + to_string(grid));
      nn::Domain const domain(comm, grid);
      single.set_num_draws(0);
      Part const part(domain, test::random_cuts(random, 7, grid.extent(0)),
                      test::random_cuts(random, 5, grid.extent(1)));
      auto const serial = kind.make(single, 0.4, options);
      auto const sharded = kind.make(domain, 0.4, options);
      Tensor before;
      for (int call = 0; call < 3; ++call) {
        auto const x = random_tensor(random, kind.sizes, torch::kFloat);
        auto const cotangent = random_tensor(random, kind.sizes, torch::kFloat);
        auto whole = x.clone().requires_grad_();
        auto shard = part.of(x).clone().requires_grad_();

        auto const expected = serial(whole);
        expected.backward(cotangent);
        auto const found = sharded(shard);
        found.backward(part.of(cotangent));

        EXPECT_TRUE(torch::equal(found, part.of(expected)));
        EXPECT_TRUE(torch::equal(shard.grad(), part.of(whole.grad())));
        auto const mask = whole.grad() / cotangent;
        if (before.defined()) {
          EXPECT_FALSE(torch::equal(mask, before)) << "two calls drew one mask";
        }
        before = mask;
      }
      EXPECT_EQ(domain.num_draws(), 3);
    }
}

TEST(Dropout, masks_are_words_of_philox_at_the_global_index) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  Part const part(domain, balanced_cuts(5, comm.num_ranks()), Cuts{3});
  nn::Dropout layer(torch::nn::DropoutOptions(0.25), RandomOptions{.seed = 9, .layer = 4, .first_sample = 2}, domain);
  domain.set_num_draws(6);

  auto const found = layer(torch::ones({2, 3, part.num_rows, 3}));

  for (Index b = 0; b < 2; ++b)
    for (Index c = 0; c < 3; ++c)
      for (Index i = 0; i < part.num_rows; ++i)
        for (Index j = 0; j < 3; ++j) {
          auto const index = (((b + 2) * 3 + c) * 5 + part.row + i) * 3 + j;
          auto const word = nn::detail::philox({std::uint32_t(index / 4), 0, 6, 4}, {9, 0})[std::size_t(index % 4)];
          EXPECT_EQ(found[b][c][i][j].item<float>(), word < (1U << 30U) ? 0 : 1 / 0.75F);
        }
}

TEST(Dropout, cuts_of_any_axes_keep_the_mask) {
  std::mt19937 random(2);
  auto const comm = Comm::world();
  auto const single = alone(comm);
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const cuts = test::random_cuts(random, 6, comm.num_ranks());
  auto const mine = [&](Tensor const& x) { return x.narrow(-3, cuts.lo(comm.rank()), cuts.size(comm.rank())); };
  nn::Sharding const channels{{-3}, ProcessGrid{comm.num_ranks()}};
  RandomOptions const options{.seed = 3, .layer = 1};
  auto const x = random_tensor(random, {2, 6, 3, 4}).requires_grad_(false);

  auto const expected = nn::Dropout(torch::nn::DropoutOptions(0.5), options, single)(x);
  auto const found = nn::Dropout(torch::nn::DropoutOptions(0.5), options, domain, channels)(mine(x));

  EXPECT_TRUE(torch::equal(found, mine(expected)));
}

TEST(Dropout, parts_of_a_batch_on_data_teams_have_the_masks_of_the_whole_batch) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  for (auto const& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    auto sizes = kind.sizes;
    sizes[0] = 6;
    auto const x = torch::rand(sizes);
    auto const draw = [&](Tensor const& part, std::int64_t first) {
      domain.set_num_draws(5);
      return kind.make(domain, 0.5, {.seed = 1, .layer = 2, .first_sample = first})(part);
    };

    auto const whole = draw(x, 0);

    EXPECT_TRUE(torch::equal(draw(x.narrow(0, 0, 2), 0), whole.narrow(0, 0, 2)));
    EXPECT_TRUE(torch::equal(draw(x.narrow(0, 2, 4), 2), whole.narrow(0, 2, 4)));
  }
}

TEST(Dropout, keeps_the_stated_part_and_the_mean) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const n = 400 * 500;
  auto const x = torch::ones({1, 1, 400, 500});
  std::vector<Tensor> masks;
  for (std::uint64_t const seed : {0, 1})
    for (std::uint32_t const layer : {0, 1}) {
      nn::Dropout dropout(torch::nn::DropoutOptions(0.3), RandomOptions{.seed = seed, .layer = layer}, domain);
      domain.set_num_draws(0);
      masks.push_back(dropout(x) != 0);
      EXPECT_NEAR(masks.back().sum().item<double>() / n, 0.7, 5 * std::sqrt(0.21 / n));
    }
  for (std::size_t a = 0; a < masks.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)  // Independent: equal with probability 0.3^2 + 0.7^2.
      EXPECT_NEAR((masks[a] == masks[b]).sum().item<double>() / n, 0.58, 5 * std::sqrt(0.58 * 0.42 / n));
  nn::AlphaDropout alpha(torch::nn::AlphaDropoutOptions(0.2), RandomOptions(), domain);
  auto const y = alpha(torch::randn({1, 1, 400, 500}));
  EXPECT_NEAR(y.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(y.var().item<double>(), 1, 0.03);
}

TEST(Dropout, a_checkpoint_draws_the_masks_of_its_first_run_again) {
  std::mt19937 random(3);
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const x = random_tensor(random, {2, 3, 4, 5});
  nn::Dropout first(torch::nn::DropoutOptions(0.5), RandomOptions{.seed = 1}, domain);
  nn::DropPath second(nn::DropPathOptions{0.5}, RandomOptions{.seed = 1}, domain);
  auto const gradient = [&](std::int64_t checkpoint_steps) {
    domain.set_num_draws(0);
    auto shard = x.clone().requires_grad_();
    auto const total = nn::rollout(
        domain, shard, {.num_steps = 4, .checkpoint_steps = checkpoint_steps},
        [&](Tensor const& state, std::int64_t) { return state + second(first(state).sin()); },
        [](Tensor const& state, std::int64_t) { return state.square().sum(); });
    total.backward();
    EXPECT_EQ(domain.num_draws(), 8);
    return std::pair{total.item<double>(), shard.grad()};
  };

  auto const [loss, kept] = gradient(0);

  for (int const steps : {1, 2, 4}) {
    auto const [again, recomputed] = gradient(steps);
    EXPECT_EQ(again, loss);
    EXPECT_LE(difference(recomputed, kept), 1e-14);
  }
}

TEST(Dropout, number_of_draws_is_the_state) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::Dropout layer(torch::nn::DropoutOptions(0.5), RandomOptions{.seed = 1}, domain);
  auto const x = torch::ones({1, 1, 8, 8});
  (void)layer(x);
  auto const saved = domain.num_draws();
  auto const second = layer(x);
  auto const third = layer(x);

  domain.set_num_draws(saved);
  EXPECT_TRUE(torch::equal(layer(x), second));
  auto copy = nn::Dropout(std::dynamic_pointer_cast<nn::DropoutImpl>(layer->clone()));
  EXPECT_TRUE(torch::equal(copy(x), third));
}

TEST(Dropout, passes_its_input_on_where_nothing_is_dropped) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const x = torch::rand({2, 3, 4, 4});
  nn::Dropout off(torch::nn::DropoutOptions(0), RandomOptions(), domain);
  nn::Dropout all(torch::nn::DropoutOptions(1), RandomOptions(), domain);
  nn::DropPath unscaled(nn::DropPathOptions{.p = 0.5, .scale_by_keep = false}, RandomOptions(), domain);
  nn::Dropout inplace(torch::nn::DropoutOptions(0.5).inplace(true), RandomOptions(), domain);

  EXPECT_TRUE(torch::equal(off(x), x));
  EXPECT_EQ(domain.num_draws(), 0);
  EXPECT_TRUE(torch::equal(all(x), torch::zeros_like(x)));
  auto const kept = (unscaled(x) / x).mean({1, 2, 3});
  EXPECT_TRUE(((kept - 1).abs() < 1e-6).logical_or(kept == 0).all().item<bool>());
  auto y = x.clone();
  EXPECT_TRUE(inplace(y).is_alias_of(y));
  EXPECT_TRUE(((y == 0) | (y == 2 * x)).all().item<bool>());
  inplace->eval();
  EXPECT_TRUE(torch::equal(inplace(y), y));
}

TEST(Dropout, refuses_bad_arguments_on_all_ranks) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  bool const odd_one = comm.rank() == 0;
  auto const make = [&](double p, RandomOptions options) {
    return nn::Dropout(torch::nn::DropoutOptions(p), options, domain);
  };
  auto const x = torch::ones({2, 3, 2, 2});

  EXPECT_EQ(rule_of([&] { make(1.5, {}); }), "BadOption");
  EXPECT_EQ(rule_of([&] { make(0.5, {})(odd_one ? x.to(torch::kLong) : x); }), "UnsupportedTensor");
  EXPECT_EQ(
      rule_of([&] { nn::Dropout2d(torch::nn::Dropout2dOptions(0.5), RandomOptions(), domain)(odd_one ? x[0] : x); }),
      "ShapeMismatch");
  if (comm.num_ranks() > 1) {
    EXPECT_EQ(rule_of([&] { make(0.5, {.seed = odd_one ? 1U : 2U})(x); }), "StructureDisagreement");
    auto first = make(0.5, {});
    auto second = make(0.5, {});
    if (odd_one) first->eval();
    EXPECT_EQ(rule_of([&] {
                (void)first(x);
                (void)second(x);
              }),
              "CallDisagreement");
  }
}

}  // namespace test_dropout
}  // namespace graticule
