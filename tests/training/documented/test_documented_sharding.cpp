// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/sharded_parameters.md.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/training/sharded/checkpoint_state.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <utility>
#include <vector>

namespace graticule {
namespace test_documented_sharding {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width) : layer(register_module("layer", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(torch::Tensor const& x) { return torch::tanh(layer(x)); }
  torch::nn::Linear layer;
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() : layers(register_module("layers", torch::nn::Sequential(nn::Unit<Block>(8), nn::Unit<Block>(8)))) {}
  torch::Tensor forward(torch::Tensor const& x) { return layers->forward(x); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Net);

TEST(DocumentedSharding, runs_as_shown) {
  auto const comm = Comm::world();
  int const ranks_per_node = comm.num_ranks() % 2 == 0 ? 2 : 1;
  torch::manual_seed(1);
  Net model;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> const batches(3, {torch::randn({4, 8}), torch::zeros({4, 8})});
  auto const before = torch::mse_loss(model->forward(batches[0].first), batches[0].second).item<double>();

  training::ShardedParameters sharded(model.ptr(), {comm, nn::Reduction::mean});
  torch::optim::Adam optimizer(sharded.parameters(), torch::optim::AdamOptions(1e-3));
  for (auto const& [x, y] : batches) {
    optimizer.zero_grad();
    auto const loss = torch::mse_loss(sharded.forward([&] { return model->forward(x); }), y);
    loss.backward();
    sharded.clip_grad_norm(1.0);
    optimizer.step();
  }
  auto const x = batches[0].first;
  EXPECT_LT(torch::mse_loss(sharded.forward([&] { return model->forward(x); }), batches[0].second).item<double>(),
            before);
  {
    auto const whole = sharded.gathered();
    std::cout << model->layers[0]->parameters()[0].norm() << "\n";
  }

  Net other;
  Teams const teams(comm, {{"replica", 0}, {"shard", ranks_per_node}});
  training::ShardedParameters hybrid(other.ptr(), {teams.team("shard"), nn::Reduction::mean},
                                     {.replicas = {{teams.team("replica"), nn::Reduction::mean}}});
  {
    auto const guard = hybrid.no_sync(training::Unsynchronised::cut);
    hybrid.forward([&] { return other->forward(x); }).sum().backward();
  }
  hybrid.forward([&] { return other->forward(x); }).sum().backward();
  EXPECT_TRUE(hybrid.parameters().front().grad().defined());

  auto const folder =
      std::filesystem::temp_directory_path() / ("graticule-" + comm.broadcast(std::to_string(::getpid()), 0));
  Index const step = 3;
  {
    CheckpointStore store(comm, folder);
    auto writer = store.begin(step);
    training::save_model(writer, sharded, comm);
    writer.commit();
    auto const checkpoint = store.newest();
    ASSERT_TRUE(checkpoint);
    training::load_model(comm, *checkpoint, hybrid);
  }
  comm.barrier();
  if (comm.rank() == 0) std::filesystem::remove_all(folder);
  auto const a = training::full_state(sharded);
  auto const b = training::full_state(hybrid);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i].second, b[i].second)) << a[i].first;
}

}  // namespace test_documented_sharding
}  // namespace graticule
