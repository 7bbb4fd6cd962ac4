// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace graticule {
namespace test_wrapper {

using nn::Reduction;
using test::copy_of;
using test::gradient_difference;
using test::Holder;
using test::loss_of;
using test::Net;
using test::part_of;
using test::rule_of;
using test::small_buckets;
using test::thrown_by;
using test::whole_batch;
using training::DataParallelOptions;
using Kind = training::DataParallel::Event::Kind;

torch::nn::Linear small_layer(std::uint64_t seed) {
  torch::manual_seed(seed);
  torch::nn::Linear layer(3, 2);
  layer->to(torch::kDouble);
  return layer;
}

TEST(DataParallel, gives_the_gradients_of_one_rank_on_the_whole_batch) {
  auto const comm = Comm::world();
  for (auto const order : {training::SumOrder::any, training::SumOrder::by_rank})
    for (auto const& sizes : {small_buckets, training::BucketSizes{}}) {
      Net net;
      training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}}, {.order = order, .buckets = sizes});
      auto serial = copy_of(net);
      for (int step = 0; step < 3; ++step) {
        auto const batch = whole_batch(step, 4 * comm.num_ranks());
        net->zero_grad();
        serial->zero_grad();

        loss_of(net, part_of(batch, comm)).backward();

        loss_of(serial, batch).backward();
        EXPECT_LE(gradient_difference(*net, *serial), 1e-12);
        nn::NamedTensors grads;
        for (auto const& item : net->named_parameters()) grads.emplace_back(item.key(), item.value().grad());
        EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, grads); }), "nothing was thrown");
      }
      EXPECT_EQ(parallel.buckets().size() > 3, sizes.bytes == small_buckets.bytes);
    }
}

TEST(DataParallel, sums_gradients_of_all_types) {
  auto const comm = Comm::world();
  double const mean = (comm.num_ranks() - 1) / 2.0;
  for (auto const type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kComplexDouble})
    for (auto const order : {training::SumOrder::any, training::SumOrder::by_rank}) {
      Holder holder;
      auto const a = holder.add("a", torch::zeros({30, 40}, type));
      training::DataParallel const parallel(holder, {}, {{comm, Reduction::mean}}, {.order = order});

      torch::real((torch::full({30, 40}, comm.rank(), type) * torch::conj(a)).sum()).backward();

      EXPECT_TRUE((a.grad() == mean).all().item<bool>()) << c10::toString(type) << a.grad();
    }
}

TEST(DataParallel, sums_each_of_two_gradients_that_share_memory) {
  auto const comm = Comm::world();
  Holder holder;
  auto const a = holder.add("a", torch::zeros({20, 10}, torch::kDouble));
  auto const b = holder.add("b", torch::zeros({10, 20}, torch::kDouble));
  training::DataParallel const parallel(holder, {}, {{comm, Reduction::sum}}, {.buckets = {1, 1}});
  auto const sum = a.view({-1}) + b.view({-1});

  (sum * torch::full({200}, comm.rank() + 1.0, torch::kDouble)).sum().backward();

  double const total = comm.num_ranks() * (comm.num_ranks() + 1) / 2.0;
  ASSERT_EQ(a.grad().const_data_ptr(), b.grad().const_data_ptr()) << "as LibTorch makes them";
  EXPECT_TRUE((a.grad() == total).all().item<bool>());
  EXPECT_TRUE((b.grad() == total).all().item<bool>());
}

TEST(DataParallel, sums_over_the_domain_and_averages_over_the_data) {
  auto const comm = Comm::world();
  if (comm.num_ranks() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  Teams const teams(comm, {{"data", 0}, {"domain", 2}});
  Holder holder;
  auto const both = holder.add("both", torch::zeros({3}, torch::kDouble));
  auto const mine = holder.add("mine", torch::zeros({2}, torch::kDouble));
  auto const local = holder.add("local", torch::zeros({2}, torch::kDouble));
  nn::TeamRule const domain{teams.team("domain"), Reduction::sum};
  nn::TeamRule const data{teams.team("data"), Reduction::mean};
  training::DataParallel const parallel(holder, {}, {domain, data}, {.own_rules = {{"mine", {data}}, {"local", {}}}});
  double const rank = teams.world().rank();
  double const num_data = comm.num_ranks() / 2;

  (both.sum() * rank + mine.sum() * rank + local.sum() * rank).backward();

  EXPECT_TRUE((both.grad() == comm.num_ranks() * (comm.num_ranks() - 1) / 2.0 / num_data).all().item<bool>());
  EXPECT_TRUE((mine.grad() == teams.team("domain").rank() + num_data - 1).all().item<bool>());
  EXPECT_TRUE((local.grad() == rank).all().item<bool>());
}

TEST(DataParallel, keeps_types_and_shapes) {
  auto const comm = Comm::world();
  double const mean = (comm.num_ranks() - 1) / 2.0;
  for (auto const type :
       {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf, torch::kComplexFloat, torch::kComplexDouble})
    for (auto const order : {training::SumOrder::any, training::SumOrder::by_rank}) {
      Holder holder;
      auto const matrix = holder.add("matrix", torch::zeros({4, 3}, type));
      auto const number = holder.add("number", torch::zeros({}, type));
      auto const none = holder.add("none", torch::zeros({0, 2}, type));
      training::DataParallel const parallel(holder, {}, {{comm, Reduction::mean}}, {.order = order});
      auto const factor = torch::full({3, 4}, comm.rank(), type).transpose(0, 1);

      torch::real((matrix * factor).sum() + number * comm.rank() + none.sum()).backward();

      EXPECT_EQ(matrix.grad().scalar_type(), type);
      EXPECT_TRUE((matrix.grad() == mean).all().item<bool>()) << c10::toString(type) << matrix.grad();
      EXPECT_TRUE((number.grad() == mean).item<bool>());
      EXPECT_EQ(none.grad().sizes(), none.sizes());
    }
}

TEST(DataParallel, posts_buckets_before_the_last_gradient_and_waits_after_it) {
  auto const comm = Comm::world();
  Net net;
  training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}},
                                  {.buckets = small_buckets, .record_events = true});
  for (int step = 0; step < 2; ++step) {
    (void)parallel.events();
    loss_of(net, part_of(whole_batch(step, 4 * comm.num_ranks()), comm)).backward();
    auto const events = parallel.events();

    auto const place = [&](Kind kind, std::size_t index) {
      return std::find_if(events.begin(), events.end(),
                          [&](auto const& e) { return e.kind == kind && e.index == index; }) -
             events.begin();
    };
    auto const last =
        std::find_if(events.begin(), events.end(), [](auto const& e) { return e.kind == Kind::last_gradient; }) -
        events.begin();
    auto const num_buckets = parallel.buckets().size();
    ASSERT_GT(num_buckets, 3U);
    for (std::size_t b = 0; b < num_buckets; ++b) {
      // All but the last one leave while gradients are still to come.
      if (b + 2 < num_buckets) {
        EXPECT_LT(place(Kind::bucket_posted, b) + 1, last);
      }
      if (b + 1 < num_buckets) {
        EXPECT_LT(place(Kind::bucket_posted, b), place(Kind::bucket_posted, b + 1));
      }
      EXPECT_GT(place(Kind::bucket_waited, b), last);
    }
    EXPECT_EQ(std::count_if(events.begin(), events.end(), [](auto const& e) { return e.kind == Kind::gradient_ready; }),
              std::ptrdiff_t(net->parameters().size()));
    auto const later = std::count_if(events.begin() + place(Kind::bucket_posted, 0), events.end(),
                                     [](auto const& e) { return e.kind == Kind::gradient_ready; });
    EXPECT_GE(later, 5);
  }
}

TEST(DataParallel, orders_buckets_by_the_first_arrivals_of_rank_0) {
  auto const comm = Comm::world();
  Holder holder;
  auto const a = holder.add("a", torch::ones({2}, torch::kDouble));
  auto const b = holder.add("b", torch::ones({2}, torch::kDouble));
  auto const c = holder.add("c", torch::ones({2}, torch::kDouble));
  training::DataParallel parallel(holder, {}, {{comm, Reduction::mean}}, {.buckets = {1, 1}});
  using Names = std::vector<std::vector<std::string>>;
  EXPECT_EQ(parallel.buckets(), (Names{{"c"}, {"b"}, {"a"}}));
  // The last used comes first.
  for (int step = 0; step < 2; ++step) ((b * c).sin() * a).sum().backward();

  EXPECT_EQ(parallel.buckets().front(), (std::vector<std::string>{"a"}));
  EXPECT_EQ(parallel.buckets().size(), 3U);
}

TEST(DataParallel, takes_the_first_ranks_weights_and_leaves_the_random_state) {
  auto const comm = Comm::world();
  auto expected = small_layer(7);
  auto layer = small_layer(7 + std::uint64_t(comm.rank()));
  auto const state = at::detail::getDefaultCPUGenerator().get_state();

  training::DataParallel const parallel(*layer, {}, {{comm, Reduction::mean}});

  EXPECT_TRUE(torch::equal(layer->weight, expected->weight));
  EXPECT_TRUE(torch::equal(layer->bias, expected->bias));
  EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), state));
}

TEST(DataParallel, refuses_what_is_wrong_on_any_rank_on_all) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  auto const rule = [&](DataParallelOptions const& options, std::vector<nn::TeamRule> rules) {
    auto layer = small_layer(1);
    return rule_of([&] { training::DataParallel const parallel(*layer, {}, std::move(rules), options); });
  };
  std::vector<nn::TeamRule> const mean{{comm, Reduction::mean}};

  EXPECT_EQ(rule({}, mean), "nothing was thrown");
  for (auto const wire : {training::Wire::f32, training::Wire::automatic})
    EXPECT_EQ(rule({.wire = wire}, mean), (test::ErrorWith{"BadOption", "in their own type, bf16 or f16"}));
  EXPECT_EQ(rule({.own_rules = {{odd_one ? "weihgt" : "weight", {}}}}, mean),
            (test::ErrorWith{"UnknownName", "there are rules for"}));
  EXPECT_EQ(rule({.own_buffers = {{"x", training::BufferPolicy::mean}}}, mean),
            (test::ErrorWith{"UnknownName", "there is a policy for"}));
  EXPECT_EQ(rule({.buckets = {odd_one ? 0 : 1, 1}}, mean),
            (test::ErrorWith{"BadOption", "buckets need at least 1 byte"}));
  EXPECT_EQ(rule({}, {mean[0], {comm, Reduction::sum}}), (test::ErrorWith{"BadOption", "a team twice"}));
  if (comm.num_ranks() > 1) {
    EXPECT_EQ(rule({.unused = odd_one ? training::Unused::allowed : training::Unused::refused}, mean),
              "ArgumentDisagreement");
    EXPECT_EQ(rule({}, {{comm, odd_one ? Reduction::sum : Reduction::mean}}), "ArgumentDisagreement");
    torch::nn::Linear other(3, odd_one ? 3 : 2);
    auto const thrown = thrown_by([&] { training::DataParallel const parallel(*other, {}, mean); });
    EXPECT_EQ(thrown.rule, "ReplicaMismatch");
    EXPECT_NE(thrown.text.find("weight Float [ 2 3 ]"), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("weight Float [ 3 3 ]"), std::string::npos) << thrown.text;
    auto partly_frozen = small_layer(1);
    partly_frozen->bias.set_requires_grad(!odd_one);
    auto const frozen_there = thrown_by([&] { training::DataParallel const parallel(*partly_frozen, {}, mean); });
    EXPECT_EQ(frozen_there.rule, "ReplicaMismatch");
    EXPECT_NE(frozen_there.text.find("bias Double [ 2 ], frozen"), std::string::npos) << frozen_there.text;
  }
  auto frozen = small_layer(1);
  for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  EXPECT_EQ(rule_of([&] { training::DataParallel const parallel(*frozen, {}, mean); }), "NoParameters");
  auto twice = small_layer(1);
  training::DataParallel const parallel(*twice, {}, mean);
  EXPECT_EQ(rule_of([&] { training::DataParallel const again(*twice, {}, mean); }), "WrongState");
}

TEST(DataParallel, adds_up_without_messages_and_reduces_the_total) {
  auto const comm = Comm::world();
  for (auto const reduction : {Reduction::sum, Reduction::mean}) {
    Net net;
    training::DataParallel parallel(*net, {}, {{comm, reduction}});
    auto serial = copy_of(net);
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      serial->zero_grad();
      auto const before = test::mpi_calls();
      for (int k = 0; k < 2; ++k) {
        auto const local = parallel.no_sync();
        loss_of(net, part_of(whole_batch(k, 2 * comm.num_ranks()), comm)).backward();
      }
      EXPECT_EQ(test::mpi_calls(), before);
      loss_of(net, part_of(whole_batch(2, 2 * comm.num_ranks()), comm)).backward();

      for (int k = 0; k < 3; ++k) {
        auto const factor = reduction == Reduction::sum ? comm.num_ranks() : 1;
        (loss_of(serial, whole_batch(k, 2 * comm.num_ranks())) * factor).backward();
      }
      EXPECT_LE(gradient_difference(*net, *serial), 1e-12);
    }
  }
}

TEST(DataParallel, adds_backwards_to_what_is_reduced) {
  auto const comm = Comm::world();
  Holder holder;
  auto const a = holder.add("a", torch::zeros({2}, torch::kDouble));
  training::DataParallel parallel(holder, {}, {{comm, Reduction::sum}});
  double const sum = comm.num_ranks() * (comm.num_ranks() + 1) / 2.0;
  for (int n = 1; n <= 3; ++n) {
    (a.sum() * (comm.rank() + 1)).backward();
    EXPECT_TRUE((a.grad() == n * sum).all().item<bool>()) << a.grad();
  }
  {
    auto const local = parallel.no_sync();
    (a.sum() * (comm.rank() + 1)).backward();
  }
  parallel.reduce();
  EXPECT_TRUE((a.grad() == 4 * sum).all().item<bool>()) << a.grad();
  a.mutable_grad().zero_();
  (a.sum() * (comm.rank() + 1)).backward();
  EXPECT_TRUE((a.grad() == sum).all().item<bool>()) << a.grad();
  // Gradients that are asked for directly are nobody else's.
  (void)torch::autograd::grad({a.sum()}, {a});
  EXPECT_TRUE((a.grad() == sum).all().item<bool>()) << a.grad();
}

TEST(DataParallel, names_unused_parameters_or_counts_them_as_zero) {
  auto const comm = Comm::world();
  for (auto const unused : {training::Unused::refused, training::Unused::allowed}) {
    Holder holder;
    auto const a = holder.add("a", torch::zeros({2}, torch::kDouble));
    auto const some = holder.add("some", torch::zeros({2}, torch::kDouble));
    auto const none = holder.add("none", torch::zeros({2}, torch::kDouble));
    training::DataParallel parallel(holder, {}, {{comm, Reduction::mean}}, {.unused = unused});
    for (int step = 0; step < 3; ++step) {
      holder.zero_grad();
      auto const thrown = thrown_by([&] { (comm.rank() == 0 ? a.sum() + some.sum() * 6 : a.sum()).backward(); });

      if (unused == training::Unused::refused) {
        EXPECT_EQ(thrown.rule, "UnusedParameter");
        EXPECT_NE(thrown.text.find("'none' on any rank"), std::string::npos) << thrown.text;
        EXPECT_EQ(thrown.text.find("'some' on some ranks") != std::string::npos, comm.num_ranks() > 1) << thrown.text;
        EXPECT_EQ(thrown.text.find("'a'"), std::string::npos) << thrown.text;
      } else {
        EXPECT_EQ(thrown.rule, "nothing was thrown");
        EXPECT_TRUE((a.grad() == 1).all().item<bool>());
        EXPECT_TRUE((some.grad() == 6.0 / comm.num_ranks()).all().item<bool>());
        EXPECT_FALSE(none.grad().defined());
      }
    }
    (a.sum() + some.sum() + none.sum()).backward();
    EXPECT_TRUE((none.grad() == 1).all().item<bool>());
  }
}

TEST(DataParallel, tells_the_others_when_a_pass_throws_and_goes_on) {
  auto const comm = Comm::world();
  struct Broken : torch::autograd::Function<Broken> {
    static torch::Tensor forward(torch::autograd::AutogradContext* /*ctx*/, torch::Tensor const& x) { return x * 1; }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*ctx*/,
                                                   torch::autograd::variable_list const& /*grads*/) {
      throw std::runtime_error("broken");
    }
  };
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  for (auto const wait : {training::GradientWait::in_backward, training::GradientWait::late})
    for (bool const in_forward : {true, false}) {
      Net net;
      training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}}, {.wait = wait, .buckets = small_buckets});
      for (int step = 0; step < 4; ++step) {
        auto const batch = whole_batch(step, 2 * comm.num_ranks());
        auto serial = copy_of(net);
        bool const fails = step % 2 == 1;
        net->zero_grad();
        auto const thrown = thrown_by([&] {
          parallel.run([&] {
            if (fails && odd_one && in_forward) throw std::runtime_error("broken");
            auto x = part_of(batch, comm);
            if (fails && odd_one) x.first = Broken::apply(x.first.requires_grad_());
            // The convolution's gradient comes after the break.
            loss_of(net, x).backward();
          });
          parallel.synchronize();
        });
        if (!fails) {
          loss_of(serial, batch).backward();
          EXPECT_EQ(thrown.rule, "nothing was thrown");
          EXPECT_LE(gradient_difference(*net, *serial), 1e-12);
        } else if (odd_one) {
          EXPECT_EQ(thrown.text, "broken");
        } else {
          EXPECT_EQ(thrown.rule, "PeerFailed");
        }
      }
    }
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

TEST(DataParallel, reduces_each_segment_of_a_checkpointed_rollout) {
  auto const comm = Comm::world();
  nn::Domain const alone(comm.split(comm.rank(), 0), ProcessGrid{1, 1});
  auto layer = small_layer(3);
  training::DataParallel const parallel(*layer, {}, {{comm, Reduction::sum}});
  auto const serial = std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer->clone());
  auto const total_of = [&](torch::nn::LinearImpl& model, double start) {
    auto const step = [&](torch::Tensor const& x, std::int64_t) {
      return torch::cat({torch::tanh(model.forward(x)), x.narrow(1, 0, 1)}, 1);
    };
    return nn::rollout(alone, torch::full({2, 3}, start, torch::kDouble), {.num_steps = 4, .checkpoint_steps = 2}, step,
                       [](torch::Tensor const& x, std::int64_t) { return x.square().sum(); });
  };

  total_of(*layer, 0.1 * comm.rank()).backward();

  for (int rank = 0; rank < comm.num_ranks(); ++rank) total_of(*serial, 0.1 * rank).backward();
  EXPECT_LE(gradient_difference(*layer, *serial), 1e-12);
}

TEST(DataParallel, leaves_the_users_hooks_and_takes_its_own_away) {
  struct Doubling : torch::autograd::PostAccumulateGradHook {
    void operator()(torch::Tensor const& parameter) override { parameter.mutable_grad().mul_(2); }
  };
  auto const comm = Comm::world();
  Holder holder;
  auto const a = holder.add("a", torch::zeros({2}, torch::kDouble));
  {
    training::DataParallel const parallel(holder, {}, {{comm, Reduction::mean}});
    // Set afterwards, and still before the reduction.
    torch::autograd::impl::set_post_acc_grad_hooks(a, std::make_unique<Doubling>());
    (a.sum() * comm.rank()).backward();
    EXPECT_TRUE((a.grad() == comm.num_ranks() - 1).all().item<bool>()) << a.grad();
  }
  holder.zero_grad();
  auto const before = test::mpi_calls();
  (a.sum() * comm.rank()).backward();
  EXPECT_EQ(test::mpi_calls(), before);
  EXPECT_TRUE((a.grad() == 2 * comm.rank()).all().item<bool>());
}

TEST(DataParallel, names_parameters_that_it_has_lost) {
  auto const comm = Comm::world();
  auto layer = small_layer(1);
  torch::optim::SGD sgd(layer->parameters(), 0.1);
  training::DataParallel parallel(*layer, sgd, {{comm, Reduction::mean}});

  layer->to(torch::kFloat);

  EXPECT_EQ(rule_of([&] { parallel.step(); }), "ParametersChanged");
  auto other = small_layer(1);
  training::DataParallel without(*other, {}, {{comm, Reduction::mean}});
  EXPECT_EQ(rule_of([&] { without.step(); }), "WrongState");
}

}  // namespace test_wrapper
}  // namespace graticule
