// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "serial_comparison.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_norms {

using test::Cotangent;
using test::difference;
using test::domains;
using test::Part;
using test::random_part;
using test::random_tensor;
using test::rule_of;
using test::SerialComparison;
using test::Shard;

/// `torch::rms_norm` as a layer: LibTorch has none in C++.
struct SerialRMSNormImpl : torch::nn::Module {
  explicit SerialRMSNormImpl(std::vector<std::int64_t> normalized_shape) : shape(std::move(normalized_shape)) {
    weight = register_parameter("weight", torch::ones(shape));
  }
  torch::Tensor forward(torch::Tensor const& x) { return torch::rms_norm(x, shape, weight); }
  std::vector<std::int64_t> shape;
  torch::Tensor weight;
};
TORCH_MODULE(SerialRMSNorm);

/// Random parameters, the same on all ranks and in both layers.
void same_parameters(torch::nn::Module& sharded, torch::nn::Module& serial, std::mt19937& random) {
  torch::NoGradGuard const no_grad;
  auto const found = sharded.named_parameters();
  auto const expected = serial.named_parameters();
  ASSERT_EQ(found.keys(), expected.keys());
  for (auto const& item : expected) {
    auto const values = random_tensor(random, item.value().sizes().vec()).to(item.value().scalar_type());
    item.value().detach().copy_(values);
    found[item.key()].detach().copy_(values);
  }
}

void expect_same_buffers(torch::nn::Module& sharded, torch::nn::Module& serial, double tolerance) {
  auto const found = sharded.named_buffers();
  auto const expected = serial.named_buffers();
  ASSERT_EQ(found.keys(), expected.keys());
  for (auto const& item : expected)
    EXPECT_LE(difference(found[item.key()].to(torch::kDouble), item.value().to(torch::kDouble)), tolerance)
        << item.key();
}

/// Fields of one length, not two, are cut along the last axis alone.
template <class Serial>
constexpr std::size_t num_spatial_axes =
    std::is_same_v<Serial, torch::nn::BatchNorm1d> || std::is_same_v<Serial, torch::nn::InstanceNorm1d> ? 1 : 2;

/// Both layers in f64 with the same random parameters, each of which is compared.
template <class Sharded, class Serial>
SerialComparison comparison_of(Shard const& shard, Sharded& sharded, Serial& serial, std::mt19937& random) {
  sharded->to(torch::kDouble);
  serial->to(torch::kDouble);
  same_parameters(*sharded, *serial, random);
  return {.name = typeid(Serial).name(),
          .layer = sharded,
          .oracle = serial,
          .input = shard,
          .module = sharded.ptr(),
          .parameters = serial->named_parameters(),
          .tolerance = {.gradient = 1e-11}};
}

/// Two calls in training and one in eval on random cuts against the serial layer, all in f64.
template <class Sharded, class Serial>
void expect_serial(nn::Domain const& domain, Sharded sharded, Serial serial, std::vector<std::int64_t> const& sizes,
                   std::mt19937& random) {
  std::ostringstream text;
  text << typeid(Serial).name() << " of " << sizes << " on " << to_string(domain.grid().extents());
  SCOPED_TRACE(text.str());
  constexpr auto num_axes = num_spatial_axes<Serial>;
  auto const space = at::IntArrayRef(sizes).slice(sizes.size() - num_axes);
  Shard const shard({domain, test::random_field_cuts(domain, random, space)}, num_axes);
  auto const comparison = comparison_of(shard, sharded, serial, random);
  for (int call = 0; call < 2; ++call) comparison.expect_equal(random_tensor(random, sizes) * 3 + 1, random);
  expect_same_buffers(*sharded, *serial, 1e-13);
  sharded->eval();
  serial->eval();
  auto const x = random_tensor(random, sizes);
  EXPECT_LE(difference(sharded->forward(shard.of(x)), shard.of(serial->forward(x))), 1e-12);
}

TEST(Norms, equal_serial_for_random_cuts) {
  std::mt19937 random(11);
  namespace t = torch::nn;
  auto const grids = domains();
  // Each case on one of the grids, in turn.
  auto next = [&, i = std::size_t(0)]() mutable { return grids[i++ % grids.size()]; };
  auto const check = [&](auto make, auto serial, std::vector<std::int64_t> const& sizes) {
    auto const domain = next();
    expect_serial(domain, make(domain), serial, sizes, random);
  };
  for (auto const& o : {t::BatchNormOptions(3), t::BatchNormOptions(3).momentum(std::nullopt).eps(1e-3),
                        t::BatchNormOptions(3).track_running_stats(false).affine(false)}) {
    expect_serial(grids.back(), nn::BatchNorm1d(o, grids.back()), t::BatchNorm1d(o), {2, 3, 11}, random);
    check([&](auto const& d) { return nn::BatchNorm2d(o, d); }, t::BatchNorm2d(o), {2, 3, 7, 5});
    check([&](auto const& d) { return nn::BatchNorm3d(o, d); }, t::BatchNorm3d(o), {2, 3, 2, 7, 5});
  }
  for (auto const& o :
       {t::InstanceNormOptions(3), t::InstanceNormOptions(3).affine(true).track_running_stats(true).momentum(0.3)}) {
    expect_serial(grids.back(), nn::InstanceNorm1d(o, grids.back()), t::InstanceNorm1d(o), {2, 3, 11}, random);
    expect_serial(grids.back(), nn::InstanceNorm1d(o, grids.back()), t::InstanceNorm1d(o), {3, 11}, random);
    check([&](auto const& d) { return nn::InstanceNorm2d(o, d); }, t::InstanceNorm2d(o), {2, 3, 7, 5});
    check([&](auto const& d) { return nn::InstanceNorm2d(o, d); }, t::InstanceNorm2d(o), {3, 4, 3});
    check([&](auto const& d) { return nn::InstanceNorm3d(o, d); }, t::InstanceNorm3d(o), {2, 3, 2, 7, 5});
  }
  for (auto const& o :
       {t::GroupNormOptions(2, 6), t::GroupNormOptions(6, 6), t::GroupNormOptions(1, 6).affine(false)}) {
    check([&](auto const& d) { return nn::GroupNorm(o, d); }, t::GroupNorm(o), {2, 6, 7, 5});
    check([&](auto const& d) { return nn::GroupNorm(o, d); }, t::GroupNorm(o), {2, 6, 2, 3, 5});
  }
  for (auto const& shape : std::vector<std::vector<std::int64_t>>{{5}, {7, 5}, {3, 7, 5}}) {
    auto const o = t::LayerNormOptions(shape);
    for (std::size_t g = 0; g < grids.size(); ++g) {
      check([&](auto const& d) { return nn::LayerNorm(o, d); }, t::LayerNorm(o), {2, 3, 7, 5});
      check(
          [&](auto const& d) {
            return nn::RMSNorm(nn::RMSNormOptions{shape, {}, true}, d);
          },
          SerialRMSNorm(shape), {2, 3, 7, 5});
    }
  }
}

TEST(Norms, of_a_single_group_or_channel_equal_serial) {
  std::mt19937 random(21);
  namespace t = torch::nn;
  for (auto const& domain : domains()) {
    for (bool const affine : {true, false}) {
      auto const group = t::GroupNormOptions(1, 6).affine(affine);
      expect_serial(domain, nn::GroupNorm(group, domain), t::GroupNorm(group), {1, 6, 7, 5}, random);
      auto const batch = t::BatchNormOptions(1).affine(affine);
      expect_serial(domain, nn::BatchNorm2d(batch, domain), t::BatchNorm2d(batch), {3, 1, 7, 5}, random);
      auto const instance = t::InstanceNormOptions(1).affine(affine);
      expect_serial(domain, nn::InstanceNorm2d(instance, domain), t::InstanceNorm2d(instance), {3, 1, 7, 5}, random);
    }
  }
}

TEST(Norms, layer_norm_over_channels_after_rows_and_columns_is_local_and_over_columns_too_is_not) {
  std::mt19937 random(12);
  for (auto const& domain : domains()) {
    for (auto const& shape : std::vector<std::vector<std::int64_t>>{{4}, {5, 4}}) {
      nn::LayerNorm sharded(torch::nn::LayerNormOptions(shape), domain, nn::Sharding{{-3, -2}, domain.grid()});
      torch::nn::LayerNorm serial{torch::nn::LayerNormOptions(shape)};
      Part const part = random_part(domain, random, {7, 5});
      auto const shard = Shard().cut(-3, part.row, part.num_rows).cut(-2, part.column, part.num_columns);

      comparison_of(shard, sharded, serial, random).expect_equal(random_tensor(random, {2, 7, 5, 4}), random);
    }
  }
}

TEST(Norms, equal_serial_for_strided_input_and_expanded_cotangents) {
  std::mt19937 random(13);
  for (auto const& domain : domains()) {
    nn::GroupNorm sharded(torch::nn::GroupNormOptions(1, 4), domain);
    torch::nn::GroupNorm serial(1, 4);
    auto const x = random_tensor(random, {2, 4, 6, 5});
    auto comparison = comparison_of(random_part(domain, random, x.sizes()), sharded, serial, random);
    for (bool const channels_last : {true, false}) {
      comparison.memory = [=](torch::Tensor const& t) {
        return channels_last ? t.contiguous(torch::MemoryFormat::ChannelsLast)
                             : t.transpose(-1, -2).contiguous().transpose(-1, -2);
      };

      auto const run = comparison.expect_equal(x, random, Cotangent::ones);

      EXPECT_EQ(run.found.suggest_memory_format(), run.shard.suggest_memory_format());
    }
  }
}

/// Output and gradients in `type` against the serial layer in f64 given the same rounded input.
template <class Sharded, class Serial>
void expect_close(nn::Domain const& domain, Sharded sharded, Serial serial, torch::Tensor const& x, double tolerance) {
  std::mt19937 random(14);
  auto const type = x.scalar_type();
  sharded->to(type);
  serial->to(type);
  same_parameters(*sharded, *serial, random);
  serial->to(torch::kDouble);
  SerialComparison const comparison{.name = typeid(Serial).name(),
                                    .layer = sharded,
                                    .oracle = serial,
                                    .input = random_part(domain, random, x.sizes()),
                                    .oracle_type = torch::kDouble};
  auto const run = comparison.run(x, random);

  EXPECT_EQ(run.found.scalar_type(), type);
  EXPECT_TRUE(test::close(run.found.to(torch::kDouble), run.output.of(run.expected), tolerance, run.output));
  expect_same_buffers(*sharded, *serial, tolerance);
  auto const scale = std::max(1.0, run.whole.grad().abs().max().template item<double>());
  EXPECT_TRUE(test::close(run.shard.grad().to(torch::kDouble) / scale, run.output.of(run.whole.grad()) / scale,
                          tolerance, run.output));
  test::expect_parameter_gradients(*sharded, serial->named_parameters(), domain.comm(), tolerance);
}

template <class Check>
void for_all_norms(nn::Domain const& domain, Check const& check) {
  namespace t = torch::nn;
  check(nn::BatchNorm2d(t::BatchNormOptions(4).eps(1e-12), domain), t::BatchNorm2d(t::BatchNormOptions(4).eps(1e-12)));
  check(nn::InstanceNorm2d(t::InstanceNormOptions(4).eps(1e-12), domain),
        t::InstanceNorm2d(t::InstanceNormOptions(4).eps(1e-12)));
  check(nn::GroupNorm(t::GroupNormOptions(2, 4).eps(1e-12), domain),
        t::GroupNorm(t::GroupNormOptions(2, 4).eps(1e-12)));
  check(nn::LayerNorm(t::LayerNormOptions({12, 10}).eps(1e-12), domain),
        t::LayerNorm(t::LayerNormOptions({12, 10}).eps(1e-12)));
}

/// Fields of one type whose values lie around `mean`.
struct Fields {
  torch::ScalarType type;
  double mean;
  double deviation;
  double tolerance;
};

std::ostream& operator<<(std::ostream& out, Fields const& fields) {
  return out << fields.type << " of mean " << fields.mean << ", deviation " << fields.deviation;
}

// Results of 16-bit types are rounded to 8 or 11 bits, those of affine LayerNorm twice, and parameters' gradients on
// each rank before they are summed.
constexpr double bits_8 = 2.0 / 256;
constexpr double bits_11 = 2.0 / 2048;

class NormsOf : public testing::TestWithParam<Fields> {};

TEST_P(NormsOf, large_means_keep_their_digits) {
  auto const [type, mean, deviation, tolerance] = GetParam();
  for (auto const& domain : {domains().front(), domains().back()}) {
    std::mt19937 random(15);
    auto const x = (random_tensor(random, {2, 4, 12, 10}) * deviation + mean).to(type);
    for_all_norms(domain, [&](auto sharded, auto serial) { expect_close(domain, sharded, serial, x, tolerance); });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NormsOf,
                         testing::Values(Fields{torch::kFloat, 1e4, 1e-2, 2e-6}, Fields{torch::kFloat, 1e4, 1e2, 2e-6},
                                         Fields{torch::kFloat, -1e5, 1e-1, 2e-6}, Fields{torch::kFloat, 1e6, 1, 2e-6},
                                         Fields{torch::kBFloat16, 1e2, 2, bits_8},
                                         Fields{torch::kBFloat16, -1e4, 200, bits_8},
                                         Fields{torch::kHalf, 1e2, 2, bits_11},
                                         Fields{torch::kHalf, 2e4, 100, bits_11}));

TEST(LayerNorm, of_large_means_is_as_good_on_one_rank_as_on_several) {
  namespace t = torch::nn;
  auto const o = t::LayerNormOptions({5, 10});
  for (auto const& domain : domains()) {
    std::mt19937 random(23);
    auto const x = (random_tensor(random, {1, 4, 5, 10}) + 1e4).to(torch::kFloat);

    expect_close(domain, nn::LayerNorm(o, domain), t::LayerNorm(o), x, 4e-6);
  }
}

TEST(LayerNorm, of_whole_groups_keeps_the_digits_of_large_means) {
  namespace t = torch::nn;
  auto const o = t::LayerNormOptions({10});
  auto const comm = Comm::world();
  std::mt19937 random(24);
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const x = (random_tensor(random, {1, 4, 5, 10}) + 1e4).to(torch::kFloat);

  expect_close(domain, nn::LayerNorm(o, domain), t::LayerNorm(o), x, 4e-6);
}

TEST(InstanceNorm, of_parts_with_means_far_apart_keeps_its_digits) {
  namespace t = torch::nn;
  auto const o = t::InstanceNormOptions(1);
  for (double const step : {1e3, 1e8, 1e16}) {
    std::mt19937 random(25);
    auto x = random_tensor(random, {1, 1, 60, 80});
    x.slice(2, 20, 40).add_(step);
    x.slice(2, 40, 60).sub_(2 * step);
    for (auto const& domain : domains())
      expect_close(domain, nn::InstanceNorm2d(o, domain), t::InstanceNorm2d(o), x.to(torch::kFloat), 2e-6);
  }
}

TEST(GroupNorm, of_fields_that_are_longer_than_caches_equals_serial) {
  namespace t = torch::nn;
  auto const comm = Comm::world();
  auto const channels = 4 * comm.num_ranks();
  auto const o = t::GroupNormOptions(2, channels);
  std::mt19937 random(26);
  // 17 MB per rank, in rows that begin within cache lines.
  auto const x = random_tensor(random, {1, channels, 1024, 1030}).to(torch::kFloat);
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});

  expect_close(domain, nn::GroupNorm(o, domain), t::GroupNorm(o), x, 4e-6);
}

TEST(Norms, running_statistics_have_the_same_bits_on_all_ranks) {
  std::mt19937 random(17);
  for (auto const& domain : domains()) {
    nn::BatchNorm2d layer(torch::nn::BatchNormOptions(5), domain);
    Part const part = random_part(domain, random, {9, 8});
    for (int call = 0; call < 3; ++call) layer(part.of(random_tensor(random, {2, 5, 9, 8}).to(torch::kFloat)));
    for (auto const& buffer : layer->buffers()) {
      auto const wide = buffer.to(torch::kDouble).contiguous();
      Hash hash;
      hash.add(std::span(wide.const_data_ptr<double>(), std::size_t(wide.numel())));

      EXPECT_NO_THROW(require_same(domain.comm(), "BitsDiffer", hash.value(), "buffer"));
    }
  }
}

template <class Sharded, class Serial>
void expect_second_derivatives(nn::Domain const& domain, Sharded sharded, Serial serial, std::mt19937& random) {
  std::vector<std::int64_t> const sizes{2, 4, 5, 4};
  auto comparison = comparison_of(random_part(domain, random, sizes), sharded, serial, random);
  comparison.parameters = {{"weight", serial->weight}};

  comparison.expect_equal_twice(random_tensor(random, sizes), random);
}

TEST(Norms, second_derivatives_equal_serial) {
  std::mt19937 random(18);
  namespace t = torch::nn;
  for (auto const& domain : domains()) {
    expect_second_derivatives(domain, nn::BatchNorm2d(t::BatchNormOptions(4), domain),
                              t::BatchNorm2d(t::BatchNormOptions(4)), random);
    auto const o = t::InstanceNormOptions(4).affine(true);
    expect_second_derivatives(domain, nn::InstanceNorm2d(o, domain), t::InstanceNorm2d(o), random);
    expect_second_derivatives(domain, nn::GroupNorm(t::GroupNormOptions(2, 4), domain), t::GroupNorm(2, 4), random);
    expect_second_derivatives(domain, nn::LayerNorm(t::LayerNormOptions({5, 4}), domain),
                              t::LayerNorm(t::LayerNormOptions({5, 4})), random);
  }
}

/// The world as two domains, and the ranks that hold the same cells in each.
struct TwoDomains {
  Comm world = Comm::world();
  int replica = world.rank() / (world.num_ranks() / 2);
  Comm domain_comm = world.split(replica, world.rank());
  Comm data_team = world.split(world.rank() % (world.num_ranks() / 2), world.rank());
  nn::Domain domain{domain_comm, ProcessGrid{domain_comm.num_ranks(), 1}};
};

TEST(BatchNorm, over_a_data_team_equals_serial_on_all_samples) {
  if (Comm::world().num_ranks() % 2) GTEST_SKIP() << "an even number of ranks makes two domains";
  std::mt19937 random(19);
  TwoDomains const teams;
  nn::BatchNorm2d sharded(torch::nn::BatchNormOptions(3), teams.domain, teams.data_team);
  torch::nn::BatchNorm2d serial(torch::nn::BatchNormOptions(3));
  auto const x = random_tensor(random, {3, 3, 6, 4});
  // The first domain has one sample, the second two.
  auto const shard = Shard(random_part(teams.domain, random, x.sizes())).cut(-4, teams.replica, 1 + teams.replica);

  auto const run = comparison_of(shard, sharded, serial, random).expect_equal(x, random);

  expect_same_buffers(*sharded, *serial, 1e-13);

  // A gradient that one domain alone wants takes the other's cotangents, too.
  bool const wanted = teams.replica == 0;
  auto again = shard.of(x).clone().requires_grad_(wanted);
  sharded(again).backward(run.cotangent);
  if (wanted) {
    EXPECT_LE(difference(again.grad(), shard.of(run.whole.grad())), 1e-11);
  } else {
    EXPECT_FALSE(again.grad().defined());
  }
  EXPECT_EQ(rule_of([&] {
              torch::AutoGradMode const mode(wanted);
              sharded(shard.of(x));
            }),
            "StructureDisagreement");
}

nn::Domain band_domain() { return domains().back(); }

torch::Tensor band(nn::Domain const& domain, torch::Tensor const& x) {
  return Part(domain, balanced_cuts(x.size(-2), domain.grid().extent(0)),
              balanced_cuts(x.size(-1), domain.grid().extent(1)))
      .of(x)
      .clone();
}

TEST(Norms, a_gradient_wanted_on_one_rank_only_is_right) {
  std::mt19937 random(20);
  auto const domain = band_domain();
  nn::GroupNorm sharded(torch::nn::GroupNormOptions(2, 4).affine(false), domain);
  torch::nn::GroupNorm serial(torch::nn::GroupNormOptions(2, 4).affine(false));
  auto const x = random_tensor(random, {2, 4, 7, 4});
  auto const cotangent = random_tensor(random, x.sizes().vec());
  auto whole = x.clone().requires_grad_();
  serial(whole).backward(cotangent);

  bool const wanted = domain.comm().rank() == 0;
  auto shard = band(domain, x).requires_grad_(wanted);
  sharded(shard).backward(band(domain, cotangent));

  if (wanted) {
    EXPECT_LE(difference(shard.grad(), band(domain, whole.grad())), 1e-11);
  } else {
    EXPECT_FALSE(shard.grad().defined());
  }
}

TEST(Norms, an_output_that_one_rank_does_not_use_does_not_hang_the_backward) {
  std::mt19937 random(21);
  auto const domain = band_domain();
  nn::InstanceNorm2d layer(torch::nn::InstanceNormOptions(2), domain);
  auto shard = band(domain, random_tensor(random, {1, 2, 7, 4})).requires_grad_();
  auto const y = layer(shard);
  auto const partial = domain.comm().rank() == 0 ? torch::zeros({}, torch::kDouble) : y.pow(3).sum();

  auto const loss = nn::reduce_loss(partial, domain);
  if (domain.comm().num_ranks() == 1) {
    // Where no rank uses its output, the loss has no gradient, whose backward LibTorch refuses.
    EXPECT_FALSE(loss.requires_grad());
    EXPECT_THROW(loss.backward(), c10::Error);
    return;
  }
  loss.backward();

  EXPECT_TRUE(shard.grad().defined());
}

TEST(Norms, refuse_what_they_cannot_do_on_all_ranks_alike) {
  auto const domain = band_domain();
  bool const odd_one = domain.comm().rank() == domain.comm().num_ranks() - 1;
  nn::BatchNorm2d batch(torch::nn::BatchNormOptions(2), domain);
  nn::InstanceNorm2d instance(torch::nn::InstanceNormOptions(2), domain);
  nn::LayerNorm layer(torch::nn::LayerNormOptions({6, 4}), domain);
  auto const ones = [&](std::vector<std::int64_t> const& sizes, torch::ScalarType type = torch::kFloat) {
    return band(domain, torch::ones(sizes, type));
  };

  EXPECT_EQ(rule_of([&] { batch(ones({1, 2, 1, 1})); }), "TooFewValues");
  EXPECT_EQ(rule_of([&] { instance(ones({3, 2, 1, 1})); }), "TooFewValues");
  batch->reset_structure();
  EXPECT_NO_THROW(batch(ones({2, 2, 1, 1})));
  EXPECT_EQ(rule_of([&] { batch(ones({2, 3, 6, 4})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { batch(ones({2, 6, 4})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { instance(ones({2, 2, 6, 4}, torch::kComplexFloat)); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { batch(ones({2, 2, 6, 4}, torch::kDouble)); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { layer(ones({2, 8, 4})); }), "ShapeMismatch");
  nn::BatchNorm1d length(torch::nn::BatchNormOptions(2), domain);
  EXPECT_EQ(rule_of([&] { length(torch::ones({3, 2})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] {
              nn::InstanceNorm1d(torch::nn::InstanceNormOptions(2), domain)(torch::ones({3, 4, 2}));
            }),
            "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { nn::GroupNorm(torch::nn::GroupNormOptions(3, 4), domain); }), "ShapeMismatch");
  if (domain.comm().num_ranks() == 1) return;
  EXPECT_EQ(rule_of([&] { nn::BatchNorm1d(torch::nn::BatchNormOptions(2), domains().front()); }), "LongitudeIsCut");
  EXPECT_EQ(rule_of([&] { nn::InstanceNorm1d(torch::nn::InstanceNormOptions(2), domains().front()); }),
            "LongitudeIsCut");
  batch->train(!odd_one);
  EXPECT_EQ(rule_of([&] { batch(ones({2, 2, 1, 1})); }), "CallDisagreement");
}

TEST(Norms, clones_have_state_of_their_own_and_run_without_the_original) {
  std::mt19937 random(22);
  auto const domain = band_domain();
  nn::BatchNorm2d batch(torch::nn::BatchNormOptions(2), domain);
  nn::LayerNorm layer(torch::nn::LayerNormOptions({6, 4}), domain);
  auto const x = band(domain, random_tensor(random, {1, 2, 6, 4}).to(torch::kFloat));
  batch(x);
  auto const copy = std::dynamic_pointer_cast<nn::BatchNorm2dImpl>(batch->clone());
  auto const layer_copy = std::dynamic_pointer_cast<nn::LayerNormImpl>(layer->clone());
  ASSERT_TRUE(copy && layer_copy);
  EXPECT_EQ(test::num_set_ups(copy), 0);
  auto const tracked = copy->running_mean.clone();

  batch(x);
  EXPECT_TRUE(torch::equal(copy->running_mean, tracked));
  copy->forward(x);
  EXPECT_TRUE(torch::equal(copy->running_mean, batch->running_mean));
  EXPECT_TRUE(torch::equal(layer_copy->forward(x), layer(x)));
  EXPECT_EQ(test::num_set_ups(batch), 1);
}

}  // namespace test_norms
}  // namespace graticule
