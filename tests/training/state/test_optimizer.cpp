// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/training/state/optimizer.hpp>

#include "expect_error.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace graticule {
namespace test_optimizer {

using test::Folder;
using test::rule_of;
using test::thrown_by;
namespace optim = torch::optim;

void take_step(torch::nn::Linear& layer, optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  layer(torch::ones({2, 3})).square().sum().backward();
  optimizer.step();
}

/// A checkpoint of an optimizer of one layer after a step.
Checkpoint saved(Comm const& comm, Folder const& folder, torch::nn::Linear& layer, optim::Optimizer& optimizer) {
  CheckpointStore store(comm, folder / "run");
  take_step(layer, optimizer);
  auto writer = store.begin(1);
  training::save_optimizer(writer, optimizer, *layer);
  return {comm, writer.commit()};
}

TEST(LoadOptimizer, goes_on_with_options_counts_and_moments_whatever_the_order_of_parameters) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  torch::manual_seed(1);
  torch::nn::Linear layer(3, 2);
  optim::Adam adam(layer->parameters(), optim::AdamOptions(0.1).betas({0.7, 0.8}));
  auto const checkpoint = saved(comm, folder, layer, adam);
  torch::nn::Linear other(std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer->clone()));
  optim::Adam loaded({other->bias, other->weight}, optim::AdamOptions(5));

  auto const without = training::load_optimizer(comm, checkpoint, loaded, *other);
  for (int step = 0; step < 3; ++step) {
    take_step(layer, adam);
    take_step(other, loaded);
  }

  EXPECT_TRUE(without.empty());
  EXPECT_TRUE(torch::equal(other->weight, layer->weight));
  EXPECT_TRUE(torch::equal(other->bias, layer->bias));
}

TEST(LoadOptimizer, refuses_another_kind_and_other_parameters_and_leaves_it_alone) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  torch::manual_seed(2);
  torch::nn::Linear layer(3, 2);
  optim::Adam adam(layer->parameters());
  auto const checkpoint = saved(comm, folder, layer, adam);
  optim::SGD sgd(layer->parameters(), optim::SGDOptions(0.25));
  torch::nn::Linear wide(3, 4);
  optim::Adam of_wide(wide->parameters());

  auto const kind = thrown_by([&] { training::load_optimizer(comm, checkpoint, sgd, *layer); });
  auto const shape = thrown_by([&] { training::load_optimizer(comm, checkpoint, of_wide, *wide); });

  EXPECT_EQ(kind.rule, "StateMismatch");
  EXPECT_EQ(kind.fault, Fault::input);
  for (auto const* text : {"Adam", "SGD"}) EXPECT_NE(kind.text.find(text), std::string::npos) << kind.text;
  EXPECT_EQ(shape.rule, "StateMismatch");
  EXPECT_NE(shape.text.find("weight"), std::string::npos) << shape.text;
  EXPECT_TRUE(sgd.state().empty());
  EXPECT_EQ(static_cast<optim::SGDOptions&>(sgd.param_groups()[0].options()).lr(), 0.25);
}

TEST(SaveOptimizer, refuses_kinds_and_parameters_that_it_does_not_know) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::nn::Linear layer(3, 2);
  torch::nn::Linear other(3, 2);
  optim::LBFGS lbfgs(layer->parameters());
  optim::SGD of_other(other->parameters(), optim::SGDOptions(0.1));
  auto const refused = [&](optim::Optimizer const& optimizer) {
    auto writer = store.begin(1);
    return rule_of([&] { training::save_optimizer(writer, optimizer, *layer); });
  };

  EXPECT_EQ(refused(lbfgs), "Unsupported");
  EXPECT_EQ(refused(of_other), "UnknownName");
}

}  // namespace test_optimizer
}  // namespace graticule
