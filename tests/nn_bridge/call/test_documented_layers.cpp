// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/layers.md.
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/nn_bridge/model/shard.hpp>
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include "expect_error.hpp"
#include "num_set_ups.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_documented_layers {

TEST(DocumentedLayers, run_as_shown) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_row));
  nn::Conv2d enter(nn::ConvOptions(torch::nn::Conv2dOptions(3, 8, 3).padding(1), nn::Padding::by_domain), domain);
  nn::Conv2d leave(nn::ConvOptions(torch::nn::Conv2dOptions(8, 2, 1)), domain);
  test::Part const part(domain, balanced_cuts(9, comm.num_ranks()), Cuts{16});
  auto const shard = part.of(torch::rand({1, 3, 9, 16})).clone();
  auto const target = part.of(torch::rand({1, 2, 9, 16})).clone();
  std::vector<double> const latitudes{90, 67.5, 45, 22.5, 0, -22.5, -45, -67.5, -90};
  auto const weights = area_weights(latitudes);
  std::vector<double> const my_row_weights(weights.begin() + part.row, weights.begin() + part.row + part.num_rows);

  torch::Tensor const prediction = leave(torch::gelu(enter(shard)));

  nn::GradientSync const sync(*enter, {{comm, nn::Reduction::sum}});
  sync.broadcast();
  nn::MSELoss loss_of(domain, nn::LossOptions{.row_weights = my_row_weights});
  torch::Tensor const loss = loss_of(prediction, target);
  loss.backward();
  sync.reduce();
  EXPECT_TRUE(enter->weight.grad().isfinite().all().item<bool>());

  torch::Tensor const energy = nn::reduce_loss(prediction.square().sum(), domain);
  EXPECT_GT(energy.item<double>(), 0);
}

TEST(DocumentedLayers, join_resolutions) {
  namespace F = torch::nn::functional;
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_row));
  auto const shard =
      test::Part(domain, balanced_cuts(9, comm.num_ranks()), Cuts{16}).of(torch::rand({1, 3, 9, 16})).clone();
  nn::Conv2d down(nn::ConvOptions(torch::nn::Conv2dOptions(3, 3, 3).stride(2).padding(1), nn::Padding::by_domain),
                  domain);
  nn::Resize up(nn::ResizeOptions(F::InterpolateFuncOptions().mode(torch::kBilinear).align_corners(false),
                                  nn::Padding::by_domain),
                domain);
  torch::Tensor const deep = down(shard);
  torch::Tensor const joined = torch::cat({shard, up->forward_like(deep, shard)}, 1);

  EXPECT_EQ(joined.sizes(), torch::IntArrayRef({1, 6, shard.size(-2), 16}));
}

TEST(DocumentedLayers, transform_spherical_harmonics) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const shard =
      test::Part(domain, balanced_cuts(9, comm.num_ranks()), Cuts{16}).of(torch::ones({1, 3, 9, 16})).clone();
  std::vector<double> const latitudes{90, 67.5, 45, 22.5, 0, -22.5, -45, -67.5, -90};

  nn::LatitudeRule const rows = nn::latitude_rule(latitudes);
  nn::SphericalConvolution spectral(nn::SphericalConvolutionOptions{.in_channels = 3, .out_channels = 3, .rows = rows},
                                    domain);
  torch::Tensor const filtered = spectral(shard);
  nn::SphericalTransform transform(nn::SphericalTransformOptions{.rows = rows}, domain);
  torch::Tensor const coefficients = transform(shard);  // [1, 3, degrees, orders of this rank]
  torch::Tensor const smooth = transform->inverse(coefficients);

  EXPECT_EQ(filtered.sizes(), shard.sizes());
  EXPECT_EQ(coefficients.size(-2), 5);
  EXPECT_LE(test::difference(smooth, shard), 1e-5);
}

TEST(DocumentedLayers, attend) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const embedded =
      test::Part(domain, balanced_cuts(9, comm.num_ranks()), Cuts{16}).of(torch::rand({1, 6, 9, 16})).clone();

  nn::WindowAttention windows(nn::WindowAttentionOptions{{6, 2}, {3, 4}, {1, 2}},
                              domain);  // 3 x 4 cells, shifted by 1 x 2
  nn::WindowAttention distant(nn::WindowAttentionOptions{{6, 2}, {3, 4}, {0, 0}, nn::WindowKind::dilated}, domain);
  nn::SelfAttention global(nn::SelfAttentionOptions{{6, 2}}, domain);
  torch::Tensor const attended = global(distant(windows(embedded)));

  EXPECT_EQ(attended.sizes(), embedded.sizes());
}

TEST(DocumentedLayers, fill_halos_in_place) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const shard = torch::ones({2, 2, 4});
  nn::PaddedHaloExchange halo(nn::HaloExchangeOptions{{1, 1}, {1, 1}, {}}, domain);
  torch::Tensor field = halo->room_for(shard);
  halo->owned(field).copy_(shard);
  torch::Tensor const filled = halo(field);

  EXPECT_TRUE(torch::equal(filled, torch::ones({2, 4, 6})));
}

struct NetImpl : torch::nn::Module {
  nn::Layer<torch::nn::Conv2d> enter{nullptr};  // torch::nn::Conv2d enter{nullptr};
  torch::nn::Sequential leave{nullptr};
  NetImpl() {
    enter = register_module("enter", nn::Layer<torch::nn::Conv2d>(torch::nn::Conv2dOptions(3, 8, 3).padding(1)));
    leave = register_module("leave", torch::nn::Sequential(torch::nn::GELU(), torch::nn::Conv2d(8, 2, 1)));
  }
  torch::Tensor forward(torch::Tensor const& x) { return leave->forward(enter(x)); }
};
TORCH_MODULE(Net);

TEST(DocumentedLayers, shard_a_model) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  torch::manual_seed(1);
  Net serial;
  torch::manual_seed(1);
  Net net;
  auto const x = torch::rand({1, 3, 9, 16});

  nn::ShardReport const report = nn::shard(*net, domain);
  std::string const table = report.text();

  nn::Trial const trial = nn::try_sharded([&](torch::Tensor const& in) { return serial->forward(in); },
                                          [&](torch::Tensor const& in) { return net->forward(in); }, x, domain);

  EXPECT_EQ(report.num(nn::Verdict::sharded), 2);
  EXPECT_NE(table.find("leave.1"), std::string::npos);
  EXPECT_LT(trial.output_difference, 1e-5);
}

/// Weights of this rank's rows and of their neighbours, [rows, 1].
struct SmoothingSetUp {
  torch::Tensor north, own, south;
};

/// The mean of each row and its two neighbours, weighted by area.
class SmoothingImpl : public nn::CommunicatingModule<SmoothingImpl, SmoothingSetUp> {
 public:
  SmoothingImpl(std::vector<double> row_weights, nn::Domain const& domain)
      : CommunicatingModule(domain, "Smoothing"), row_weights_(std::move(row_weights)) {
    reset();
  }

  torch::Tensor forward(torch::Tensor const& x) {
    auto const check = [&] {
      if (x.dim() < 2) throw Error("ShapeMismatch", "Smoothing takes [..., rows, columns]");
    };
    auto const call = enter(x, check, [&](Layout const& layout) { return set_up(layout, x); });
    auto const padded = halo_(x);
    if (x.size(-2) == 0) return padded;  // a rank without rows has none beyond them either
    auto const rows = [&](Index first) { return padded.narrow(-2, first, x.size(-2)); };
    auto const& weights = *call.set_up;
    return weights.north * rows(0) + weights.own * rows(1) + weights.south * rows(2);
  }

  void reset() override {
    halo_ = register_module("halo", nn::HaloExchange(nn::HaloExchangeOptions{.latitude = {1, 1}}, domain()));
  }

 private:
  std::shared_ptr<SmoothingSetUp const> set_up(Layout const& layout, torch::Tensor const& x) const {
    auto const n = layout.extent(0);
    if (n != Index(row_weights_.size()))
      throw Error("ShapeMismatch", std::to_string(row_weights_.size()) + " weights for " + std::to_string(n) + " rows");
    auto const w = torch::tensor(row_weights_, torch::kDouble);
    auto const all = torch::cat({w.narrow(0, 0, 1), w, w.narrow(0, n - 1, 1)});  // beyond a pole: the same row
    auto const sums = all.narrow(0, 0, n) + all.narrow(0, 1, n) + all.narrow(0, 2, n);
    auto const own = layout.owned(domain().comm().rank());
    auto const part = [&](Index first) {
      auto const shares = all.narrow(0, first, n) / sums;
      return shares.narrow(0, own.lo(0), own.extent(0)).unsqueeze(-1).to(x.device(), x.scalar_type());
    };
    return std::make_shared<SmoothingSetUp const>(SmoothingSetUp{part(0), part(1), part(2)});
  }

  /// Another batch has the same weights.
  std::vector<Index> structure_of(torch::Tensor const& x) const override {
    return {x.size(-2), Index(x.scalar_type()), Index(x.device().type())};
  }

  std::vector<double> row_weights_;
  nn::HaloExchange halo_{nullptr};
};
TORCH_MODULE(Smoothing);

TEST(DocumentedLayers, a_layer_of_your_own_equals_that_of_one_rank) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_face));
  nn::Domain const alone(Comm(MPI_COMM_SELF), ProcessGrid{1, 1}, Boundary::sphere(Edge::pole_face));
  std::vector<double> const latitudes{80, 60, 40, 20, 0, -20, -40, -60, -80};
  std::mt19937 random(3);
  Smoothing smooth(area_weights(latitudes), domain);
  Smoothing whole_smooth(area_weights(latitudes), alone);
  for (int cut = 0; cut < 4; ++cut) {
    test::Part const part(domain, test::random_cuts(random, 9, comm.num_ranks()), Cuts{6});
    auto const x = test::random_tensor(random, {2, 3, 9, 6}).requires_grad_();
    auto const cotangent = test::random_tensor(random, {2, 3, 9, 6});
    auto const shard = part.of(x.detach()).clone().requires_grad_();

    smooth->reset_structure();
    nn::reset_structure(*smooth);
    auto const expected = whole_smooth(x);
    auto const found = smooth(shard);
    (expected * cotangent).sum().backward();
    nn::reduce_loss((found * part.of(cotangent)).sum(), domain).backward();

    EXPECT_LE(test::difference(found, part.of(expected)), 1e-14);
    EXPECT_LE(test::difference(shard.grad(), part.of(x.grad())), 1e-14);
  }
  // One row by hand: the first, whose northern neighbour lies half way round.
  auto const weights = area_weights(latitudes);
  auto const x = test::random_tensor(random, {9, 6});
  auto const by_hand =
      (weights[0] * x[0].roll(3, 0) + weights[0] * x[0] + weights[1] * x[1]) / (2 * weights[0] + weights[1]);
  EXPECT_LE(test::difference(whole_smooth(x)[0], by_hand), 1e-14);
}

TEST(DocumentedLayers, a_layer_of_your_own_serves_ranks_without_rows_or_without_columns) {
  auto const comm = Comm::world();
  nn::Domain const alone(Comm(MPI_COMM_SELF), ProcessGrid{1, 1}, Boundary::sphere(Edge::pole_face));
  std::vector<double> const latitudes{80, 60, 40, 20, 0, -20, -40, -60, -80};
  std::mt19937 random(3);
  Smoothing whole_smooth(area_weights(latitudes), alone);
  for (int const axis : {0, 1}) {
    SCOPED_TRACE(axis == 0 ? "rows" : "columns");
    auto const n = comm.num_ranks();
    nn::Domain const domain(comm, axis == 0 ? ProcessGrid{n, 1} : ProcessGrid{1, n}, Boundary::sphere(Edge::pole_face));
    // The first rank has nothing, unless it is alone.
    std::vector<Index> sizes(std::size_t(n), 0);
    sizes.back() = axis == 0 ? 9 : 6;
    Cuts const cuts(sizes);
    test::Part const part(domain, axis == 0 ? cuts : Cuts{9}, axis == 0 ? Cuts{6} : cuts);
    Smoothing smooth(area_weights(latitudes), domain);
    auto const x = test::random_tensor(random, {2, 3, 9, 6}).requires_grad_();
    auto const shard = part.of(x.detach()).clone().requires_grad_();

    auto const expected = whole_smooth(x);
    auto const found = smooth(shard);
    expected.pow(3).sum().backward();
    nn::reduce_loss(found.pow(3).sum(), domain).backward();

    EXPECT_LE(test::difference(found, part.of(expected)), 1e-14);
    EXPECT_LE(test::difference(shard.grad(), part.of(x.grad())), 1e-14);
  }
}

TEST(DocumentedLayers, a_layer_of_your_own_has_the_life_cycle_of_all) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  bool const is_last = comm.rank() == comm.num_ranks() - 1;
  std::vector<double> const weights(std::size_t(2 * comm.num_ranks()), 1);
  Smoothing smooth(weights, domain);

  for (std::int64_t const batch : {1, 2, 1}) (void)smooth(torch::ones({batch, 2, 4}));
  EXPECT_EQ(test::num_set_ups(smooth), 1);
  Smoothing const copy(std::dynamic_pointer_cast<SmoothingImpl>(smooth->clone()));
  EXPECT_EQ(test::num_set_ups(copy), 0);
  EXPECT_EQ(test::rule_of([&] { (void)smooth(torch::ones({1, 3, 4})); }), "ShapeMismatch");
  (void)smooth(torch::ones({1, 2, 4}));
  EXPECT_EQ(test::rule_of([&] { (void)smooth(is_last ? torch::ones({4}) : torch::ones({1, 2, 4})); }), "ShapeMismatch");
  if (comm.num_ranks() == 1) return;
  EXPECT_EQ(test::rule_of([&] { (void)smooth(torch::ones({is_last ? 2 : 1, 2, 4})); }), "StructureDisagreement");
  auto const thrown = test::thrown_by([&] { (void)smooth(torch::ones({1, is_last ? 3 : 2, 4})); });
  EXPECT_EQ(thrown.rule, "StructureDisagreement");
  EXPECT_NE(thrown.text.find("Smoothing"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("[1, 3, 4]"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("[1, 2, 4]"), std::string::npos) << thrown.text;
}

TEST(DocumentedLayers, roll_out) {
  auto const comm = Comm::world();
  nn::Domain domain(comm, ProcessGrid{comm.num_ranks(), 1});
  nn::Conv2d step(nn::ConvOptions(torch::nn::Conv2dOptions(2, 2, 3).padding(1), nn::Padding::by_domain), domain);
  auto const state = torch::ones({1, 2, 2, 4});
  auto const total = nn::rollout(
      domain, state, {.num_steps = 4, .checkpoint_steps = 2},
      [&](torch::Tensor const& x, std::int64_t) { return x + 0.1 * torch::tanh(step(x)); },
      [&](torch::Tensor const& x, std::int64_t) { return nn::reduce_loss(x.square().sum(), domain); });
  total.backward();
  domain.set_call_checks(nn::CallChecks::new_structures);

  EXPECT_EQ(step(state).sizes(), state.sizes());
  EXPECT_TRUE(step->weight.grad().defined());
}

}  // namespace test_documented_layers
}  // namespace graticule
