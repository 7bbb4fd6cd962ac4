// SPDX-License-Identifier: BSD-3-Clause
// What must hold for a module's whole life, shown with the two kinds of exchange: `HaloExchange` and `Conv2d`.
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/norm/conservation.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <span>
#include <sstream>

namespace graticule {
namespace test_lifecycle {

using test::difference;
using test::Part;
using test::random_tensor;
using test::rule_of;

using test::bands;

nn::Conv2d convolution(nn::Domain const& domain) {
  nn::Conv2d layer(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1)), domain);
  layer->to(torch::kDouble);
  return layer;
}

torch::Tensor shard_of(nn::Domain const& domain, std::int64_t rows = 7) {
  std::mt19937 random(1);
  Part const part(domain, balanced_cuts(rows, domain.grid().extent(0)), Cuts{6});
  return part.of(random_tensor(random, {1, 2, rows, 6})).clone();
}

TEST(Lifecycle, many_forwards_of_one_structure_do_one_set_up) {
  auto const domain = bands();
  auto layer = convolution(domain);
  nn::HaloExchange halo(nn::HaloExchangeOptions{{1, 1}, {1, 1}, {}}, domain);
  auto const x = shard_of(domain).requires_grad_();

  for (int i = 0; i < 5; ++i) {
    layer(x).sum().backward();
    halo(x).sum().backward();
  }

  EXPECT_EQ(test::num_set_ups(layer), 1);
  EXPECT_EQ(test::num_set_ups(halo), 1);
}

TEST(Lifecycle, the_same_module_twice_in_one_graph) {
  auto const domain = bands();
  auto layer = convolution(domain);
  auto copy = convolution(domain);
  {
    torch::NoGradGuard const no_grad;
    copy->weight.copy_(layer->weight);
    copy->bias.copy_(layer->bias);
  }
  auto x = shard_of(domain).requires_grad_();
  auto z = shard_of(domain).requires_grad_();

  layer(layer(x)).square().sum().backward();
  copy(layer(z)).square().sum().backward();

  EXPECT_LE(difference(x.grad(), z.grad()), 1e-14);
}

TEST(Lifecycle, a_forward_without_gradients_between_two_with) {
  auto const domain = bands();
  auto layer = convolution(domain);
  auto x = shard_of(domain).requires_grad_();
  auto const first = layer(x);
  {
    torch::NoGradGuard const no_grad;
    (void)layer(x * 3);
  }
  auto const second = layer(2 * x);

  (first + second).sum().backward();
  auto const found = x.grad().clone();
  x.mutable_grad() = torch::Tensor();
  layer(x).sum().backward();

  EXPECT_LE(difference(found, 3 * x.grad()), 1e-13);
}

TEST(Lifecycle, a_module_destroyed_before_the_backward) {
  auto const domain = bands();
  auto x = shard_of(domain).requires_grad_();
  torch::Tensor y;
  {
    auto layer = convolution(domain);
    nn::HaloExchange halo(nn::HaloExchangeOptions{{1, 0}, {0, 1}, {}}, domain);
    y = halo(layer(x));
  }

  y.sum().backward();

  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

TEST(Lifecycle, an_output_that_one_rank_does_not_use_does_not_hang) {
  auto const domain = bands();
  auto used = convolution(domain);
  auto unused = convolution(domain);
  auto x = shard_of(domain).requires_grad_();
  auto const y = used(x);
  auto const z = unused(x);
  auto partial = y.sum();
  if (domain.comm().rank() == 0) partial = partial + z.sum();

  nn::reduce_loss(partial, domain).backward();

  EXPECT_TRUE(unused->weight.grad().defined());
}

TEST(Lifecycle, an_output_dropped_on_one_rank_is_named_where_another_needs_it) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  auto used = convolution(domain);
  auto dropped = convolution(domain);
  auto x = shard_of(domain).requires_grad_();
  auto const y = used(x);
  torch::Tensor z = dropped(x);
  if (domain.comm().rank() != 0) z = torch::Tensor();
  auto const partial = z.defined() ? y.sum() + z.sum() : y.sum();

  try {
    (void)nn::reduce_loss(partial, domain);
    FAIL() << "no error";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "UnusedOnSomeRanks");
    EXPECT_NE(std::string(error.what()).find("layer 2 (Conv2d)"), std::string::npos) << error.what();
  }
  nn::reduce_loss(y.sum(), domain).backward();
  EXPECT_TRUE(used->weight.grad().defined());
  EXPECT_FALSE(dropped->weight.grad().defined());
}

TEST(Lifecycle, parameters_that_are_frozen_on_one_rank_are_the_cause_that_is_named) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  auto first = convolution(domain);
  auto second = convolution(domain);
  if (domain.comm().rank() == 1)
    for (auto* layer : {&first, &second})
      for (auto& parameter : (*layer)->parameters()) parameter.set_requires_grad(false);
  auto const y = second(torch::tanh(first(shard_of(domain))));

  EXPECT_EQ(rule_of([&] { (void)nn::reduce_loss(y.sum(), domain); }),
            (test::ErrorWith{"UnusedOnSomeRanks", ", and has no gradient on rank 1: parameters"}));
}

TEST(Lifecycle, a_loss_without_any_gradient_has_no_backward) {
  auto const domain = bands();
  auto layer = convolution(domain);
  auto const x = shard_of(domain);

  EXPECT_FALSE(nn::reduce_loss(layer(x).detach().sum(), domain).requires_grad());
  EXPECT_FALSE(nn::reduce_loss(x.sum(), domain.comm()).requires_grad());
  EXPECT_TRUE(nn::reduce_loss(layer(x).sum(), domain).requires_grad());
  auto const weight = torch::ones({}, torch::kDouble).requires_grad_();
  auto const of_one = domain.comm().rank() == 0 ? weight * 2 : torch::ones({}, torch::kDouble);
  nn::reduce_loss(of_one, domain).backward();
  EXPECT_EQ(weight.grad().defined(), domain.comm().rank() == 0);
}

TEST(Lifecycle, a_loss_takes_up_its_own_calls_only) {
  auto const domain = bands();
  auto layer = convolution(domain);
  auto x = shard_of(domain).requires_grad_();

  auto const first = nn::reduce_loss(layer(x).sum(), domain);
  auto const second = nn::reduce_loss(layer(x).square().sum(), domain);
  second.backward();
  first.backward();
  for (int step = 0; step < 3; ++step) nn::reduce_loss(layer(x).sum(), domain).backward();
  (void)layer(x).sum();  // forgotten on all ranks
  nn::reduce_loss(layer(x).sum(), domain).backward();

  EXPECT_EQ(test::num_set_ups(layer), 1);
}

/// Two layers on shards of the world, or on the whole field with the shards' rows known.
struct TwoLayers {
  TwoLayers(nn::Domain const& given, Cuts const& rows)
      : domain(given),
        world_rows(rows),
        part(domain, domain.comm().num_ranks() > 1 ? rows : Cuts{rows.extent()}, Cuts{6}),
        first(convolution(domain)),
        second(convolution(domain)) {
    std::mt19937 random(5);
    torch::NoGradGuard const no_grad;
    for (auto* layer : {&first, &second}) {
      (*layer)->weight.copy_(0.2 * random_tensor(random, {2, 2, 3, 3}));
      (*layer)->bias.copy_(random_tensor(random, {2}));
    }
    x = part.of(random_tensor(random, {1, 2, rows.extent(), 6})).clone();
    x.requires_grad_();
  }
  /// `used` in the rows of rank `r` of the world, else `other`; a shard has the graph of one of them only.
  [[nodiscard]] torch::Tensor choose(int r, torch::Tensor const& used, torch::Tensor const& other) const {
    if (domain.comm().num_ranks() > 1) return domain.comm().rank() == r ? used : other;
    auto const in_rank = torch::zeros({world_rows.extent(), 1}, torch::kBool);
    in_rank.narrow(0, world_rows.lo(r), world_rows.size(r)).fill_(true);
    return torch::where(in_rank, used, other);
  }
  [[nodiscard]] torch::Tensor loss(torch::Tensor const& field) const {
    return nn::reduce_loss(field.square().sum(), domain);
  }
  /// Of the input and, summed over the ranks, of the weights.
  [[nodiscard]] std::vector<torch::Tensor> gradients() const {
    std::vector<torch::Tensor> result{x.grad().defined() ? x.grad() : torch::zeros_like(x)};
    for (auto const& layer : {first, second}) {
      auto const& own = layer->weight.grad();
      result.push_back(own.defined() ? own.clone() : torch::zeros_like(layer->weight));
      domain.comm().sum(std::span(result.back().data_ptr<double>(), std::size_t(result.back().numel())));
    }
    return result;
  }

  nn::Domain domain;
  Cuts world_rows;
  Part part;
  nn::Conv2d first;
  nn::Conv2d second;
  torch::Tensor x;
};

/// Compares the gradients after `run` on shards with those after it on the whole field; one of two sets of shards has
/// fewer rows than ranks.
void expect_serial_gradients(std::function<void(TwoLayers&)> const& run) {
  auto const domain = bands();
  auto const num_ranks = domain.comm().num_ranks();
  for (std::int64_t const num_rows : {std::max(1, num_ranks - 1), 7}) {
    auto const rows = balanced_cuts(num_rows, num_ranks);
    TwoLayers whole(nn::Domain(Comm(MPI_COMM_SELF), ProcessGrid{1, 1}), rows);
    run(whole);
    TwoLayers shards(domain, rows);
    run(shards);

    auto const expected = whole.gradients();
    auto const found = shards.gradients();
    EXPECT_LE(difference(found[0], shards.part.of(expected[0])), 1e-12) << num_rows << " rows";
    for (std::size_t i = 1; i < 3; ++i) EXPECT_LE(difference(found[i], expected[i]), 1e-12) << num_rows << " rows";
  }
}

TEST(Lifecycle, a_loss_of_a_detached_field_leaves_the_graph_before_it) {
  expect_serial_gradients([](TwoLayers& l) {
    auto const made = l.first(l.x);
    l.loss(l.second(made.detach())).backward();
    EXPECT_FALSE(l.x.grad().defined());
    l.loss(l.second(made)).backward();
  });
}

TEST(Lifecycle, two_losses_of_one_forward_with_a_backward_each) {
  expect_serial_gradients([](TwoLayers& l) {
    auto const made = l.first(l.x);
    auto const early = l.loss(made.sin());
    auto const late = l.loss(l.second(made));
    early.backward({}, true);
    late.backward({}, true);
    late.backward();
  });
}

TEST(Lifecycle, a_call_before_a_backward_of_others_still_reaches_its_loss) {
  expect_serial_gradients([](TwoLayers& l) {
    auto const made = l.first(l.x);
    l.loss(l.second(l.x)).backward();
    {
      torch::NoGradGuard const no_grad;
      (void)l.loss(l.second(l.x));
    }
    l.loss(l.choose(0, torch::zeros_like(made), made)).backward();
  });
}

TEST(Lifecycle, what_leads_to_a_call_that_one_rank_uses_runs_on_all_ranks) {
  expect_serial_gradients([](TwoLayers& l) {
    auto const last = l.world_rows.num_parts() - 1;
    auto const made = l.first(l.x);
    // The last rank alone has a loss, and alone lets no gradient through here.
    auto const end = l.second(l.choose(last, made.detach(), made));
    l.loss(l.choose(last, end, torch::zeros_like(end))).backward();
  });
}

TEST(Lifecycle, a_graph_that_one_rank_keeps_is_no_part_of_the_next_loss) {
  torch::Tensor kept;
  expect_serial_gradients([&](TwoLayers& l) {
    auto old = l.loss(l.second(l.first(l.x)));
    if (l.domain.comm().rank() == 0) kept = old;
    old = torch::Tensor();
    l.loss(l.second(l.x)).backward();
  });
}

TEST(Lifecycle, a_gradient_wanted_on_one_rank_only) {
  auto const domain = bands();
  auto layer = convolution(domain);
  layer->weight.requires_grad_(false);
  layer->bias.requires_grad_(false);
  auto x = shard_of(domain).requires_grad_(domain.comm().rank() == 0);

  layer(x).sum().backward();

  EXPECT_EQ(x.grad().defined(), domain.comm().rank() == 0);
}

TEST(Lifecycle, calls_in_different_order_are_named) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  auto first = convolution(domain);
  auto second = convolution(domain);
  auto const x = shard_of(domain);

  EXPECT_EQ(rule_of([&] { (void)(domain.comm().rank() == 0 ? first(x) : second(x)); }), "CallDisagreement");
}

/// Output and gradient of `second(first(x))`.
std::pair<torch::Tensor, torch::Tensor> in_order(nn::Conv2d first, nn::Conv2d second, torch::Tensor const& x) {
  auto const leaf = x.detach().clone().requires_grad_();
  auto const y = second(first(leaf));
  y.square().sum().backward();
  return {y.detach(), leaf.grad()};
}

TEST(Lifecycle, calls_go_on_after_one_in_different_order) {
  auto domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  bool const odd_one = domain.comm().rank() == 0;
  auto first = convolution(domain);
  auto second = convolution(domain);
  auto const x = shard_of(domain);
  auto const [y, gradient] = in_order(first, second, x);

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rule_of([&] { (void)(odd_one ? second(x) : first(x)); }), "CallDisagreement");
    auto const [y_after, gradient_after] = in_order(first, second, x);
    EXPECT_TRUE(torch::equal(y_after, y));
    EXPECT_TRUE(torch::equal(gradient_after, gradient));
  }
}

TEST(Lifecycle, calls_go_on_after_one_rank_has_made_one_alone) {
  if (std::getenv("GRATICULE_CHECK") != nullptr)
    GTEST_SKIP() << "a call made alone waits for its comparison in check mode";
  auto domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  bool const odd_one = domain.comm().rank() == 0;
  nn::Conv2d first(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 1)), domain);
  first->to(torch::kDouble);
  auto second = convolution(domain);
  auto const x = shard_of(domain);
  auto const [y, gradient] = in_order(first, second, x);
  {
    // Nothing is compared of a structure that a layer has seen, and a window of one cell sends nothing.
    torch::NoGradGuard const no_grad;
    (void)first(x);
    domain.set_call_checks(nn::CallChecks::new_structures);
    if (odd_one) (void)first(x);
    domain.set_call_checks(nn::CallChecks::every_call);
  }

  EXPECT_EQ(rule_of([&] { (void)first(x); }), "CallDisagreement");
  auto const [y_after, gradient_after] = in_order(first, second, x);
  EXPECT_TRUE(torch::equal(y_after, y));
  EXPECT_TRUE(torch::equal(gradient_after, gradient));
}

TEST(Lifecycle, grad_mode_on_some_ranks_only_is_named) {
  auto const domain = bands();
  if (domain.comm().num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  auto layer = convolution(domain);
  auto const x = shard_of(domain);

  EXPECT_EQ(rule_of([&] {
              torch::AutoGradMode const mode(domain.comm().rank() != 0);
              (void)layer(x);
            }),
            "StructureDisagreement");
}

TEST(Lifecycle, checks_of_new_structures_only_give_the_same_numbers) {
  auto domain = bands();
  auto layer = convolution(domain);
  auto x = shard_of(domain).requires_grad_();
  layer(x).sum().backward();
  auto const expected = x.grad().clone();

  domain.set_call_checks(nn::CallChecks::new_structures);
  for (int i = 0; i < 3; ++i) {
    x.mutable_grad() = torch::Tensor();
    layer(x).sum().backward();
    EXPECT_TRUE(torch::allclose(x.grad(), expected));
  }
  auto const taller = shard_of(domain, 21);  // more rows on each rank

  EXPECT_EQ(layer(taller).sizes(), taller.sizes());
  EXPECT_EQ(test::num_set_ups(layer), 2);
}

TEST(Lifecycle, a_first_call_in_inference_mode_leaves_nothing_that_cannot_be_trained_with) {
  auto const domain = bands();
  nn::WindowAttention windows(nn::WindowAttentionOptions{{2, 1}, {3, 2}, {1, 1}}, domain);
  windows->to(torch::kDouble);
  nn::ConservationFixer fixer(domain);
  auto const run = [&](torch::Tensor const& x) { return fixer(windows(x), x); };
  auto const x = shard_of(domain).requires_grad_();
  {
    c10::InferenceMode const inference_mode;
    (void)run(x);
  }

  run(x).square().sum().backward();

  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

TEST(Lifecycle, clones_save_and_load_as_any_module) {
  auto const domain = bands();
  auto layer = convolution(domain);
  auto const x = shard_of(domain);
  auto const expected = layer(x);

  auto const clone = std::dynamic_pointer_cast<nn::Conv2dImpl>(layer->clone());
  EXPECT_TRUE(torch::allclose(clone->forward(x), expected));
  {
    torch::NoGradGuard const no_grad;
    layer->weight.zero_();
  }
  EXPECT_TRUE(torch::allclose(clone->forward(x), expected));

  std::stringstream file;
  torch::serialize::OutputArchive out;
  clone->save(out);
  out.save_to(file);
  torch::nn::Conv2d serial(torch::nn::Conv2dOptions(2, 2, 3).padding(1));
  serial->to(torch::kDouble);
  torch::serialize::InputArchive in;
  in.load_from(file);
  serial->load(in);
  EXPECT_TRUE(torch::equal(serial->weight, clone->weight));
}

}  // namespace test_lifecycle
}  // namespace graticule
