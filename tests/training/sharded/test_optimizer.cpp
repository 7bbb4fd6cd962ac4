// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/training/sharded/checkpoint_state.hpp>
#include <graticule/training/sharded/optimizer.hpp>
#include <graticule/training/state/model.hpp>
#include <graticule/training/state/optimizer.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"
#include "sharded_net.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace graticule {
namespace test_optimizer {

using test::Folder;
using test::ShardedNet;

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using Make = std::function<Optimizer(std::vector<torch::Tensor>)>;

/// Two groups, of which the second is slower.
template <class Kind, class Options>
Make maker(Options const& options) {
  return [options](std::vector<torch::Tensor> const& parameters) -> Optimizer {
    auto slow = options;
    slow.lr(options.lr() / 2);
    auto const middle = parameters.begin() + 3;
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<torch::Tensor>(parameters.begin(), middle), std::make_unique<Options>(options));
    groups.emplace_back(std::vector<torch::Tensor>(middle, parameters.end()), std::make_unique<Options>(slow));
    return std::make_unique<Kind>(groups, options);
  };
}

void train(std::function<torch::Tensor(torch::Tensor const&)> const& forward, torch::optim::Optimizer& optimizer,
           int first, int last) {
  for (int step = first; step < last; ++step) {
    auto const batch = test::make_batch(step);
    optimizer.zero_grad();
    (forward(batch.x) - batch.y).square().mean().backward();
    optimizer.step();
  }
}

/// Every rank has the same batch, so that any number of ranks trains as one does.
void train(training::ShardedParameters& sharded, ShardedNet& net, torch::optim::Optimizer& optimizer, int first,
           int last) {
  train([&](torch::Tensor const& x) { return sharded.forward([&] { return net->forward(x); }); }, optimizer, first,
        last);
}

class SavedOptimizer : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static Make make() {
    if (GetParam() == 0) return maker<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9));
    return maker<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).amsgrad(true));
  }
};

TEST_P(SavedOptimizer, goes_on_on_any_ranks_and_uncut) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto expected = test::make_net();
  auto expected_optimizer = make()(expected->parameters());
  train([&](torch::Tensor const& x) { return expected->forward(x); }, *expected_optimizer, 0, 6);
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
  auto optimizer = make()(sharded.parameters());
  train(sharded, net, *optimizer, 0, 3);

  CheckpointStore store(comm, folder / "run");
  auto writer = store.begin(3);
  training::save_model(writer, sharded, comm);
  training::save_optimizer(writer, *optimizer, sharded, comm);
  auto const file = writer.commit();

  for (int num_first = 1; num_first <= comm.num_ranks(); ++num_first) {
    auto const part = comm.split(comm.rank() < num_first ? 0 : 1, comm.rank());
    ShardedNet other;
    training::ShardedParameters cut(other.ptr(), {part, nn::Reduction::mean});
    auto loaded = make()(cut.parameters());
    Checkpoint const checkpoint(part, file);
    training::load_model(part, checkpoint, cut);
    // The frozen layer.
    EXPECT_EQ(training::load_optimizer(part, checkpoint, *loaded, cut),
              (std::vector<std::string>{"layers.2.weight", "layers.2.bias"}));
    train(cut, other, *loaded, 3, 6);
    EXPECT_LT(test::difference(training::full_state(cut), nn::parameters_of(*expected)), 1e-12) << num_first;
  }
  ShardedNet plain;
  auto plain_optimizer = make()(plain->parameters());
  Checkpoint const checkpoint(comm, file);
  training::load_model(comm, checkpoint, *plain);
  training::load_optimizer(comm, checkpoint, *plain_optimizer, *plain);
  train([&](torch::Tensor const& x) { return plain->forward(x); }, *plain_optimizer, 3, 6);
  EXPECT_LT(test::difference(nn::parameters_of(*plain), nn::parameters_of(*expected)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SavedOptimizer, testing::Values(0, 1));

TEST(SavedOptimizerOfRows, refuses_another_kind_and_tensors_that_are_not_cut) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto net = test::make_net();
  training::ShardedParameters sharded(net.ptr(), {comm, nn::Reduction::mean});
  torch::optim::SGD sgd(sharded.parameters(), 0.1);
  torch::optim::Adam adam(sharded.parameters());
  torch::optim::SGD whole(net->parameters(), 0.1);
  CheckpointStore store(comm, folder / "run");
  auto writer = store.begin(1);
  training::save_optimizer(writer, sgd, sharded, comm);
  EXPECT_EQ(test::rule_of([&] { training::save_optimizer(writer, whole, sharded, comm, "whole"); }), "UnknownName");
  Checkpoint const checkpoint(comm, writer.commit());

  EXPECT_EQ(test::rule_of([&] { training::load_optimizer(comm, checkpoint, adam, sharded); }), "StateMismatch");
  auto const without_state = training::load_optimizer(comm, checkpoint, sgd, sharded);
  EXPECT_TRUE(sgd.state().empty());
  std::vector<std::string> names;
  for (auto const& [name, tensor] : sharded.named_parameters()) names.push_back(name);
  EXPECT_EQ(without_state, names);
}

}  // namespace test_optimizer
}  // namespace graticule
