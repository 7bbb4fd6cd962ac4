// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/training/state/model.hpp>

#include "expect_error.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <string>

namespace graticule {
namespace test_model {

using test::Folder;
using test::rule_of;
using test::thrown_by;

/// A sharded layer and a plain one of the same names.
struct ShardedImpl : torch::nn::Module {
  explicit ShardedImpl(nn::Domain const& domain) {
    conv = register_module(
        "conv",
        nn::Conv2d(nn::ConvOptions(torch::nn::Conv2dOptions(2, 3, 3).padding(1), nn::Padding::by_domain), domain));
  }
  nn::Conv2d conv{nullptr};
};
struct PlainImpl : torch::nn::Module {
  PlainImpl() { conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 3).padding(1))); }
  torch::nn::Conv2d conv{nullptr};
};

TEST(LoadModel, gives_a_plain_model_what_a_sharded_one_saved) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::manual_seed(6);
  ShardedImpl sharded(nn::Domain(comm, ProcessGrid{comm.num_ranks(), 1}, Boundary::sphere(Edge::pole_row)));
  auto writer = store.begin(0);
  training::save_model(writer, sharded);
  auto const path = writer.commit();

  PlainImpl plain;
  training::load_model(path, plain);

  EXPECT_TRUE(torch::equal(plain.conv->weight, sharded.conv->weight));
  EXPECT_TRUE(torch::equal(plain.conv->bias, sharded.conv->bias));
  EXPECT_EQ(rule_of([&] { training::load_model(folder / "absent.h5", plain); }), "NoSuchFile");
}

TEST(SaveModel, of_a_model_without_memory_on_one_rank_is_an_error_on_all) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::nn::Module model;
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  model.register_parameter("weight", torch::zeros({3, 2}, odd_one ? torch::kMeta : torch::kCPU));
  auto writer = store.begin(0);

  auto const thrown = thrown_by([&] { training::save_model(writer, model); });

  EXPECT_NE(thrown.text.find("weight"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.rule, "nothing was thrown");
}

TEST(LoadModel, names_all_that_does_not_fit_and_leaves_the_model_alone) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::manual_seed(7);
  torch::nn::Sequential saved(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
  auto writer = store.begin(0);
  training::save_model(writer, *saved, "net");
  Checkpoint const checkpoint(comm, writer.commit());
  torch::nn::Sequential other(torch::nn::Linear(torch::nn::LinearOptions(4, 2).bias(false)), torch::nn::ReLU());
  auto const before = other->parameters()[0].detach().clone();

  auto const thrown = thrown_by([&] { training::load_model(comm, checkpoint, *other, "net"); });

  EXPECT_EQ(thrown.rule, "StateMismatch");
  EXPECT_EQ(thrown.fault, Fault::input);
  for (auto const* name : {"0.weight", "0.bias", "1.weight", "1.running_mean"})
    EXPECT_NE(thrown.text.find(name), std::string::npos) << thrown.text;
  EXPECT_TRUE(torch::equal(other->parameters()[0], before));
}

TEST(LoadModel, fills_parameters_and_buffers_in_place_under_its_prefix) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::manual_seed(8);
  torch::nn::BatchNorm1d saved(3);
  saved->running_mean.copy_(torch::tensor({1.0F, 2.0F, 3.0F}));
  auto writer = store.begin(0);
  training::save_model(writer, *saved, "a/b");
  Checkpoint const checkpoint(comm, writer.commit());
  torch::nn::BatchNorm1d other(3);
  auto const held = other->running_mean;

  training::load_model(comm, checkpoint, *other, "a/b");

  EXPECT_TRUE(other->running_mean.is_same(held));
  EXPECT_TRUE(torch::equal(held, saved->running_mean));
  EXPECT_EQ(rule_of([&] { training::load_model(comm, checkpoint, *other); }), "StateMismatch");
}

}  // namespace test_model
}  // namespace graticule
