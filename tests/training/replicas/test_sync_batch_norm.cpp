// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
#include <graticule/partition/stall.hpp>
#include <graticule/training/replicas/sync_batch_norm.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "numbers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace graticule {
namespace test_sync_batch_norm {

namespace tn = torch::nn;
using test::numbers;
using test::rule_of;
using test::thrown_by;

double difference(torch::Tensor const& a, torch::Tensor const& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

/// Samples of each rank, uneven, the second rank has none.
std::vector<std::int64_t> samples_of(int num_ranks) {
  std::vector<std::int64_t> result;
  for (int r = 0; r < num_ranks; ++r) result.push_back(r == 1 ? 0 : 3 + r);
  return result;
}

/// Two trainings and one evaluation on uneven samples against the serial layer on all of them.
template <class Sync, class Serial>
void expect_serial(tn::BatchNormOptions const& options, std::vector<std::int64_t> const& cells) {
  auto const world = Comm::world();
  auto const counts = samples_of(world.num_ranks());
  std::int64_t first = 0;
  std::int64_t total = 0;
  for (int r = 0; r < world.num_ranks(); ++r) {
    if (r < world.rank()) first += counts[std::size_t(r)];
    total += counts[std::size_t(r)];
  }
  auto const own = counts[std::size_t(world.rank())];
  Sync sync(options);
  Serial serial(options);
  sync->to(torch::kDouble);
  serial->to(torch::kDouble);
  (void)training::replicate(*sync, world);
  for (int call = 0; call < 2; ++call) {
    std::vector<std::int64_t> sizes{total, options.num_features()};
    sizes.insert(sizes.end(), cells.begin(), cells.end());
    // Of a large mean.
    auto whole = (numbers(std::uint64_t(call), sizes) * 2 + 1000).requires_grad_();
    auto const cotangent = numbers(std::uint64_t(50 + call), sizes);
    auto const expected = serial->forward(whole);
    expected.backward(cotangent);
    auto part = whole.detach().narrow(0, first, own).clone().requires_grad_();

    auto const found = sync->forward(part);
    found.backward(cotangent.narrow(0, first, own));

    EXPECT_LE(difference(found, expected.narrow(0, first, own)), 1e-9);
    EXPECT_LE(difference(part.grad(), whole.grad().narrow(0, first, own)), 1e-9);
  }
  for (auto& item : sync->named_parameters()) {
    auto gradient = item.value().grad().contiguous();
    world.sum(std::span<double>(gradient.template mutable_data_ptr<double>(), std::size_t(gradient.numel())));
    EXPECT_LE(difference(gradient, serial->named_parameters()[item.key()].grad()), 1e-8);
  }
  for (auto const& item : sync->named_buffers())
    if (item.value().defined()) {
      EXPECT_LE(difference(item.value().to(torch::kDouble), serial->named_buffers()[item.key()].to(torch::kDouble)),
                1e-9);
    }
  nn::require_same_bits(world, nn::detail::buffers_of(*sync));
  if (!options.track_running_stats()) return;
  sync->eval();
  serial->eval();
  std::vector<std::int64_t> sizes{4, options.num_features()};
  sizes.insert(sizes.end(), cells.begin(), cells.end());
  auto const x = numbers(9, sizes);
  EXPECT_LE(difference(sync->forward(x), serial->forward(x)), 1e-11);
}

TEST(SyncBatchNorm, equals_the_serial_layer_on_all_samples_uneven_and_none) {
  tn::BatchNormOptions const plain(3);
  expect_serial<training::SyncBatchNorm1d, tn::BatchNorm1d>(plain, {});
  expect_serial<training::SyncBatchNorm1d, tn::BatchNorm1d>(plain, {5});
  expect_serial<training::SyncBatchNorm2d, tn::BatchNorm2d>(plain, {4, 5});
  expect_serial<training::SyncBatchNorm1d, tn::BatchNorm1d>(tn::BatchNormOptions(1), {5});
  expect_serial<training::SyncBatchNorm2d, tn::BatchNorm2d>(tn::BatchNormOptions(1), {4, 5});
  expect_serial<training::SyncBatchNorm3d, tn::BatchNorm3d>(plain, {2, 3, 2});
  expect_serial<training::SyncBatchNorm2d, tn::BatchNorm2d>(tn::BatchNormOptions(3).momentum(std::nullopt).eps(1e-3),
                                                            {4, 5});
  expect_serial<training::SyncBatchNorm2d, tn::BatchNorm2d>(
      tn::BatchNormOptions(3).track_running_stats(false).affine(false), {4, 5});
}

TEST(SyncBatchNorm, is_the_serial_layer_before_replication_and_in_clones) {
  auto const world = Comm::world();
  training::SyncBatchNorm2d sync(tn::BatchNormOptions(3));
  tn::BatchNorm2d serial(tn::BatchNormOptions(3));
  auto const x = numbers(std::uint64_t(world.rank()), {4, 3, 2, 2}).to(torch::kFloat);
  EXPECT_TRUE(torch::equal(sync->forward(x), serial->forward(x)));

  (void)training::replicate(*sync, world);
  EXPECT_TRUE(sync->is_synchronised());
  auto const clone = std::dynamic_pointer_cast<training::SyncBatchNormImpl<tn::BatchNorm2dImpl>>(sync->clone());
  ASSERT_TRUE(clone);
  EXPECT_FALSE(clone->is_synchronised());
  EXPECT_TRUE(torch::equal(clone->forward(x), serial->forward(x)));
  EXPECT_NE(sync->as<tn::BatchNorm2d>(), nullptr);
}

TEST(SyncBatchNorm, lets_an_activation_work_in_place_after_it) {
  auto const world = Comm::world();
  torch::nn::Sequential model(training::SyncBatchNorm1d(tn::BatchNormOptions(3)), tn::ReLU(tn::ReLUOptions(true)));
  (void)training::replicate(*model, world);
  auto x = numbers(std::uint64_t(world.rank()), {4, 3}).to(torch::kFloat).requires_grad_();

  model->forward(x).sum().backward();

  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

/// Batch normalisations in each kind of container, one of them in two places.
struct ContainersImpl : torch::nn::Module {
  ContainersImpl() {
    auto const shared = tn::BatchNorm2d(4);
    sequence =
        register_module("sequence", tn::Sequential(tn::Conv2d(tn::Conv2dOptions(2, 4, 1)), shared, tn::ReLU(), shared));
    list = register_module("list", tn::ModuleList(tn::BatchNorm3d(4)));
    std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> const named{
        {"norm", tn::BatchNorm1d(4).ptr()}};
    dict = register_module("dict", tn::ModuleDict(named));
  }
  tn::Sequential sequence{nullptr};
  tn::ModuleList list{nullptr};
  tn::ModuleDict dict{nullptr};
};
TORCH_MODULE(Containers);

TEST(ConvertBatchNorms, keeps_names_tensors_and_places) {
  Containers model;
  auto const names = model->named_parameters().keys();
  auto const before = model->parameters();
  auto const buffers = model->buffers();

  EXPECT_EQ(training::convert_batch_norms(*model), 4);

  EXPECT_EQ(model->named_parameters().keys(), names);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(model->parameters()[i].is_same(before[i]));
  for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(model->buffers()[i].is_same(buffers[i]));
  EXPECT_EQ(model->sequence->ptr(1), model->sequence->ptr(3));
  EXPECT_EQ(training::convert_batch_norms(*model), 0);
  // The model, three containers, the convolution, three normalisations and the activation.
  EXPECT_EQ(training::replicate(*model, Comm::world()).size(), 9U);
  for (auto const& module : {model->sequence->ptr(1), model->list->ptr(0), model->dict["norm"]})
    EXPECT_NE(std::dynamic_pointer_cast<training::ReplicaHook>(module), nullptr);
  auto const sync =
      std::dynamic_pointer_cast<training::SyncBatchNormImpl<tn::BatchNorm2dImpl>>(model->sequence->ptr(1));
  ASSERT_TRUE(sync);
  EXPECT_TRUE(sync->is_synchronised());
}

struct WithMemberImpl : torch::nn::Module {
  WithMemberImpl() { norm = register_module("norm", tn::BatchNorm2d(4)); }
  torch::Tensor forward(torch::Tensor const& x) { return norm(x); }
  tn::BatchNorm2d norm{nullptr};
};
TORCH_MODULE(WithMember);

TEST(ConvertBatchNorms, refuses_members_by_name_and_changes_nothing) {
  torch::nn::Sequential model(tn::BatchNorm2d(4), WithMember());

  auto const thrown = thrown_by([&] { (void)training::convert_batch_norms(*model); });

  EXPECT_EQ(thrown.rule, "Unsupported");
  EXPECT_EQ(thrown.text.substr(0, 6), "1.norm");
  EXPECT_EQ(std::dynamic_pointer_cast<training::ReplicaHook>(model->ptr(0)), nullptr);
}

TEST(SyncBatchNorm, ends_unequal_calls_by_an_error_on_all_ranks) {
  auto const world = Comm::world();
  if (world.num_ranks() == 1) GTEST_SKIP() << "needs 2 ranks";
  bool const odd_one = world.rank() == world.num_ranks() - 1;
  training::SyncBatchNorm1d const first(tn::BatchNormOptions(3));
  training::SyncBatchNorm1d const second(tn::BatchNormOptions(3));
  torch::nn::Sequential model(first, second);
  auto const call = [](training::SyncBatchNorm1d layer) {
    return layer->forward(torch::ones({4, 3}).cumsum(0).requires_grad_());
  };
  // One rank calls the first layer again, where the others go on to the second one.
  (void)training::replicate(*model, world);
  auto const forward = thrown_by([&] {
    (void)call(first);
    (void)call(odd_one ? first : second);
  });
  EXPECT_EQ(forward.rule, "CallDisagreement");
  EXPECT_NE(forward.text.find("rank 0 has forward 1 of module 2, rank " + std::to_string(world.num_ranks() - 1) +
                              " has forward 2 of module 1"),
            std::string::npos)
      << forward.text;
  // One rank calls a layer once more, where the others begin their backward.
  (void)training::replicate(*model, world);
  auto const backward = thrown_by([&] {
    auto y = call(first);
    if (odd_one) y = call(first);
    y.sum().backward();
  });
  EXPECT_EQ(backward.rule, "CallDisagreement");
  EXPECT_NE(backward.text.find("backward 1 of module 1"), std::string::npos) << backward.text;
  // All is well again after the next replication.
  (void)training::replicate(*model, world);
  call(second).sum().backward();
}

TEST(SyncBatchNorm, refuses_bad_and_unequal_inputs_on_all_ranks) {
  auto const world = Comm::world();
  bool const odd_one = world.rank() == world.num_ranks() - 1;
  bool const several = world.num_ranks() > 1;
  training::SyncBatchNorm1d layer(tn::BatchNormOptions(3));
  (void)training::replicate(*layer, world);
  auto const rule = [&](torch::Tensor const& x) { return rule_of([&] { (void)layer->forward(x); }); };
  auto const good = torch::ones({4, 3});

  EXPECT_EQ(rule(odd_one ? torch::ones({4, 2}) : good), "ShapeMismatch");
  EXPECT_EQ(rule(odd_one ? torch::ones({4, 3, 1, 1}) : good), "ShapeMismatch");
  EXPECT_EQ(rule(odd_one ? torch::ones({4, 3}, torch::kLong) : good), "ShapeMismatch");
  EXPECT_EQ(rule(odd_one ? torch::ones({4, 3}, torch::kDouble) : good), "ShapeMismatch");
  EXPECT_EQ(rule(odd_one ? torch::ones({4, 3}, torch::kHalf) : good),
            several ? "StructureDisagreement" : "nothing was thrown");
  EXPECT_EQ(rule(world.rank() == 0 ? torch::ones({1, 3}) : torch::ones({0, 3})), "TooFewValues");
  EXPECT_EQ(rule_of([&] {
              torch::AutoGradMode const mode(!odd_one);
              (void)layer->forward(good);
            }),
            several ? "StructureDisagreement" : "nothing was thrown");
  EXPECT_EQ(rule(good), "nothing was thrown");
  EXPECT_EQ(rule_of([&] { (void)training::replicate({layer.ptr()}); }), "Unsupported");
}

TEST(SyncBatchNorm, waits_for_a_rank_without_calls_no_longer_than_told) {
  auto const world = Comm::world();
  if (world.num_ranks() == 1) GTEST_SKIP() << "needs 2 ranks";
  training::SyncBatchNorm1d layer(tn::BatchNormOptions(3));
  (void)training::replicate(*layer, world);

  if (world.rank() == 0) {
    auto const kept = stall_rule();
    set_stall_rule({.report_seconds = 0, .error_seconds = 0.5});
    auto const thrown = thrown_by([&] { (void)layer->forward(torch::ones({4, 3})); });
    EXPECT_EQ(thrown.rule, "StalledExchange");
    EXPECT_NE(thrown.text.find("SyncBatchNorm in forward 1 of module 0: rank 0 waits"), std::string::npos)
        << thrown.text;
    set_stall_rule(kept);
  }
  world.barrier();
  test::forgive_left_objects();
}

}  // namespace test_sync_batch_norm
}  // namespace graticule
