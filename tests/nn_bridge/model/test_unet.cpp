// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/unet.md, and the training of its network, sharded and serial.
#include <graticule/field_io/file.hpp>
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/collective/fields.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/collective/match_cuts.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/model/shard.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

namespace graticule {
namespace test_unet {

using test::difference;

// clang-format off
torch::nn::Sequential block(int in, int out) {
  auto const options = torch::nn::Conv2dOptions(in, out, 3).padding(1).padding_mode(torch::kCircular);
  return torch::nn::Sequential(torch::nn::Conv2d(options), torch::nn::GroupNorm(2, out), torch::nn::GELU());
}

struct UNetImpl : torch::nn::Module {
  UNetImpl(int channels, int width) {
    enter = register_module("enter", block(channels, width));
    pool = register_module("pool", nn::Layer<torch::nn::MaxPool2d>(2));
    deep = register_module("deep", block(width, 2 * width));
    attention = register_module("attention", nn::SelfAttention(nn::SelfAttentionOptions{{2 * width, 2}}));
    up = register_module(
        "up", nn::Layer<torch::nn::ConvTranspose2d>(torch::nn::ConvTranspose2dOptions(2 * width, width, 2).stride(2)));
    leave = register_module("leave", block(2 * width, width));
    last = register_module("last", torch::nn::Sequential(torch::nn::Conv2d(width, channels, 1)));
  }

  torch::Tensor forward(torch::Tensor const& x) {
    torch::Tensor const skip = enter->forward(x);
    torch::Tensor const bottom = attention->forward(deep->forward(pool->forward(skip)));
    torch::Tensor const back = up->forward_like(bottom, skip);
    return last->forward(leave->forward(torch::cat({skip, back}, 1)));
  }

  torch::nn::Sequential enter, deep, leave, last;
  nn::Layer<torch::nn::MaxPool2d> pool{nullptr};
  nn::SelfAttention attention{nullptr};
  nn::Layer<torch::nn::ConvTranspose2d> up{nullptr};
};
TORCH_MODULE(UNet);

struct ShuffledUpImpl : torch::nn::Module {
  explicit ShuffledUpImpl(int width) {
    down = register_module("down", torch::nn::Sequential(torch::nn::MaxPool2d(2), torch::nn::Conv2d(width, 4 * width, 1)));
    shuffle = register_module("shuffle", nn::Layer<torch::nn::PixelShuffle>(2));
    match = register_module("match", nn::MatchCuts());
  }
  torch::Tensor forward(torch::Tensor const& skip) {
    torch::Tensor const up = shuffle->forward(down->forward(skip));
    return skip + match->forward(up, skip);
  }

  torch::nn::Sequential down;
  nn::Layer<torch::nn::PixelShuffle> shuffle{nullptr};
  nn::MatchCuts match{nullptr};
};
TORCH_MODULE(ShuffledUp);
// clang-format on

std::vector<double> regular_latitudes(Index num_rows) {
  std::vector<double> latitudes;
  for (Index row = 0; row < num_rows; ++row) latitudes.push_back(90 - (double(row) + 0.5) * 180 / double(num_rows));
  return latitudes;
}

TEST(UNet, runs_as_documented) {
  auto const comm = Comm::world();
  auto const latitudes = regular_latitudes(21);
  torch::manual_seed(1);
  auto const field = torch::rand({1, 2, 21, 16});

  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  UNet net(2, 4);
  nn::ShardReport const report = nn::shard(*net, domain);
  if (comm.rank() == 0) std::printf("%s", report.text().c_str());

  EXPECT_EQ(report.num(nn::Verdict::refused), 0);
  torch::Tensor const mine = nn::shard_of(field, domain);
  nn::MSELoss loss_of(domain, nn::LossOptions{.global_row_weights = area_weights(latitudes)});
  nn::GradientSync const sync(*net, {{comm, nn::Reduction::sum}});
  torch::Tensor const loss = loss_of(net->forward(mine), mine);
  loss.backward();
  sync.reduce();

  // clang-format off
  torch::Tensor const low = net->pool->forward(net->enter->forward(mine));
  nn::FieldPart const part = nn::part_of(low, domain);
  std::printf("rank %d: rows %d to %d of %d\n", comm.rank(), int(part.rows.lo()),
              int(part.rows.lo() + part.rows.size()), int(part.rows.extent()));
  torch::Tensor const whole = nn::whole_field(net->forward(mine), domain);
  // clang-format on
  EXPECT_EQ(part.rows.extent(), 10);
  EXPECT_EQ(part.rows.size(), low.size(-2));
  EXPECT_EQ(whole.sizes(), field.sizes());
}

/// Losses of some steps of Adam; with the shards of a domain, those of the whole field.
template <class Net>
std::vector<double> train(Net& net, nn::Domain const& domain, torch::Tensor const& input, torch::Tensor const& target,
                          std::vector<double> const& latitudes) {
  nn::MSELoss loss_of(domain, nn::LossOptions{.global_row_weights = area_weights(latitudes)});
  nn::GradientSync const sync(*net, {{domain.comm(), nn::Reduction::sum}});
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  std::vector<double> losses;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    auto const loss = loss_of(net->forward(input), target);
    loss.backward();
    sync.reduce();
    optimizer.step();
    losses.push_back(loss.template item<double>());
  }
  return losses;
}

struct Fields {
  torch::Tensor input;
  torch::Tensor target;
  std::vector<double> latitudes;
};

/// Trains the network of `make` on whole fields, and sharded by `cuts`, and compares.
template <class Make>
void expect_same_training(Make const& make, Fields const& fields, nn::FieldCuts const& cuts) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{cuts.rows.num_parts(), cuts.columns.num_parts()});
  torch::manual_seed(3);
  auto serial = make();
  serial->to(torch::kDouble);
  torch::manual_seed(3);
  auto net = make();
  net->to(torch::kDouble);
  nn::shard(*net, domain);

  auto const serial_losses = train(serial, nn::Domain(), fields.input, fields.target, fields.latitudes);
  auto const losses = train(net, domain, nn::shard_of(fields.input, domain, cuts),
                            nn::shard_of(fields.target, domain, cuts), fields.latitudes);

  EXPECT_LT(serial_losses.back(), 0.95 * serial_losses.front());
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], serial_losses[step], 1e-10 * serial_losses[step]) << "step " << step;
  auto const expected = serial->parameters();
  auto const found = net->parameters();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], expected[i]), 1e-9) << i;
  torch::NoGradGuard const no_grad;
  auto const whole = nn::whole_field(net->forward(nn::shard_of(fields.input, domain, cuts)), domain);
  EXPECT_LT(difference(whole, serial->forward(fields.input)), 1e-9);
}

Fields made_fields(std::mt19937& random, int channels, Index rows, Index columns) {
  auto const input = test::random_tensor(random, {2, channels, rows, columns});
  return {input, (input.roll(1, -1) * 0.5).tanh() + 0.2, regular_latitudes(rows)};
}

TEST(UNet, trains_sharded_as_serial) {
  std::mt19937 random(5);
  auto const num_ranks = Comm::world().num_ranks();
  for (Index const rows : {21, 24}) {
    auto const fields = made_fields(random, 2, rows, 12);
    for (auto const& grid : test::grids_of(num_ranks)) {
      auto const columns = balanced_cuts(12, int(grid.extent(1)));
      SCOPED_TRACE(std::to_string(rows) + " rows over " + to_string(grid));
      expect_same_training([] { return UNet(2, 4); }, fields, {balanced_cuts(rows, int(grid.extent(0))), columns});
      expect_same_training([] { return UNet(2, 4); }, fields,
                           {test::random_cuts(random, rows, int(grid.extent(0))), columns});
    }
  }
}

TEST(UNet, joins_fields_with_other_cuts) {
  std::mt19937 random(6);
  auto const num_ranks = Comm::world().num_ranks();
  auto const fields = made_fields(random, 3, 26, 12);
  // An odd number of rows on a rank: pooled rows are of the next one.
  std::vector<Index> sizes(std::size_t(num_ranks), 5);
  sizes[0] = 26 - 5 * (num_ranks - 1);
  expect_same_training([] { return ShuffledUp(3); }, fields, {Cuts(sizes), Cuts{12}});
}

TEST(UNet, joins_need_equal_cuts) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 2) GTEST_SKIP() << "cuts for 2 ranks";
  nn::Domain const domain(comm, ProcessGrid{2, 1});
  torch::nn::Sequential down(torch::nn::MaxPool2d(2), torch::nn::Conv2d(1, 4, 1), torch::nn::PixelShuffle(2));
  nn::shard(*down, domain);
  auto const skip = nn::shard_of(torch::rand({1, 1, 26, 8}), domain, nn::FieldCuts{Cuts({21, 5}), Cuts{8}});

  auto const up = down->forward(skip);

  EXPECT_NE(up.size(-2), skip.size(-2));
  EXPECT_EQ(nn::MatchCuts(domain)->forward(up, skip).sizes(), skip.sizes());
}

TEST(UNet, trains_on_real_fields_as_serial) {
  auto const path = std::filesystem::path(GRATICULE_TEST_DATA) / "eraint_uvz.nc";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no file " << path;
  auto const comm = Comm::world();
  FieldFile const file(comm, path.string());
  auto const& variable = file.variable("z");
  auto const rows = variable.extents[2];
  auto const columns = variable.extents[3];
  auto const read = [&](char const* name) {
    auto const values = torch::empty({1, 1, rows, columns});
    file.read(name, Box({0, 0, 0, 0}, {1, 1, rows, columns}),
              std::span(values.data_ptr<float>(), std::size_t(values.numel())));
    auto const scaled = (values - values.mean()) / values.std();
    return scaled.slice(-2, 0, rows, 12).slice(-1, 0, columns, 15).to(torch::kDouble).contiguous();
  };
  auto const input = torch::cat({read("z"), read("v")}, 1);
  auto const target = torch::cat({read("u"), read("z")}, 1);
  auto const all_latitudes = file.coordinate(variable.dimensions[2]);
  std::vector<double> latitudes;
  for (std::size_t row = 0; row < all_latitudes.size(); row += 12) latitudes.push_back(all_latitudes[row]);

  expect_same_training([] { return UNet(2, 4); }, {input, target, latitudes},
                       {balanced_cuts(input.size(-2), comm.num_ranks()), Cuts{input.size(-1)}});
}

TEST(UNet, layers_without_a_domain_are_serial_until_sharded) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  UNet net(2, 4);
  auto const whole = torch::rand({1, 2, 11, 8});

  auto const serial = net->forward(whole);
  auto const report = nn::shard(*net, domain);
  auto const sharded = nn::whole_field(net->forward(nn::shard_of(whole, domain)), domain);

  EXPECT_LT(difference(sharded, serial), 1e-5);
  for (auto const& module : report.modules)
    if (module.path == "attention") EXPECT_EQ(module.verdict, nn::Verdict::sharded);
}

TEST(LayerForwardLike, equals_libtorch_before_and_after_shard) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  struct NetImpl : torch::nn::Module {
    NetImpl() {
      up = register_module("up", nn::Layer<torch::nn::Upsample>(torch::nn::UpsampleOptions()
                                                                    .scale_factor(std::vector<double>{2, 2})
                                                                    .mode(torch::kBilinear)
                                                                    .align_corners(false)));
      back = register_module("back", nn::Layer<torch::nn::ConvTranspose2d>(
                                         torch::nn::ConvTranspose2dOptions(2, 2, 3).stride(2).padding(1)));
    }
    nn::Layer<torch::nn::Upsample> up{nullptr};
    nn::Layer<torch::nn::ConvTranspose2d> back{nullptr};
  } net;
  auto const x = torch::rand({1, 2, 6, 8});
  auto const like = torch::rand({1, 5, 12, 15});
  auto const resized = torch::nn::functional::interpolate(x, torch::nn::functional::InterpolateFuncOptions()
                                                                 .size(std::vector<std::int64_t>{12, 15})
                                                                 .mode(torch::kBilinear)
                                                                 .align_corners(false));
  auto const plain = std::make_shared<torch::nn::ConvTranspose2dImpl>(*net.back);
  std::vector<std::int64_t> const size{12, 15};
  auto const convolved = plain->forward(x, at::IntArrayRef(size));
  EXPECT_TRUE(torch::equal(net.up->forward_like(x, like), resized));
  EXPECT_TRUE(torch::equal(net.back->forward_like(x, like), convolved));

  nn::shard(net, domain);
  auto const mine = nn::shard_of(x, domain);
  nn::FieldCuts const cuts{Cuts([&] {
                             std::vector<Index> sizes(std::size_t(comm.num_ranks()), 2);
                             sizes[0] = 12 - 2 * (comm.num_ranks() - 1);
                             return sizes;
                           }()),
                           Cuts{15}};
  auto const my_like = nn::shard_of(like, domain, cuts);

  EXPECT_LT(difference(net.up->forward_like(mine, my_like), nn::shard_of(resized, domain, cuts)), 1e-6);
  EXPECT_LT(difference(net.back->forward_like(mine, my_like), nn::shard_of(convolved, domain, cuts)), 1e-6);
}

}  // namespace test_unet
}  // namespace graticule
