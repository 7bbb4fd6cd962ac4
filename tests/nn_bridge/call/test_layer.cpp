// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/layer.hpp>

#include <gtest/gtest.h>

#include <memory>

namespace graticule {
namespace test_layer {

namespace tn = torch::nn;
using LinearLayer = nn::Layer<tn::Linear>;

/// Something that a sharded forward communicates by.
struct Communicator : tn::Module, nn::Communicating {
  void reset_structure() override { ++num_resets; }
  int num_resets = 0;
};

/// Gives `layer` a forward that adds 1 to the serial one. @return how often it was made, and for what
std::shared_ptr<std::vector<std::shared_ptr<Communicator>>> shard(LinearLayer& layer) {
  auto made = std::make_shared<std::vector<std::shared_ptr<Communicator>>>();
  layer->set_sharded([made] {
    made->push_back(std::make_shared<Communicator>());
    return nn::detail::ShardedForward{.call =
                                          [](tn::Module& serial, torch::Tensor const& x) {
                                            auto const& linear = dynamic_cast<tn::LinearImpl&>(serial);
                                            return torch::linear(x, linear.weight, linear.bias) + 1;
                                          },
                                      .call_like = {},
                                      .layer = made->back()};
  });
  return made;
}

TEST(Layer, is_the_serial_layer_before_it_is_sharded) {
  torch::manual_seed(1);
  LinearLayer layer(3, 2);
  torch::manual_seed(1);
  tn::Linear serial(3, 2);
  auto const x = torch::rand({4, 3});

  EXPECT_FALSE(layer->is_sharded());
  EXPECT_EQ(layer->named_parameters().keys(), serial->named_parameters().keys());
  EXPECT_TRUE(torch::equal(layer(x), serial(x)));
  EXPECT_EQ(layer->as<tn::Linear>(), layer.get());
  layer->reset_structure();
}

TEST(Layer, takes_the_tensors_of_a_serial_layer) {
  tn::Linear serial(3, 2);

  LinearLayer const layer(*serial);

  EXPECT_TRUE(layer->weight.is_same(serial->weight));
  EXPECT_TRUE(layer->bias.is_same(serial->bias));
}

TEST(Layer, that_is_sharded_calls_its_forward_with_its_own_parameters) {
  LinearLayer layer(3, 2);
  auto const names = layer->named_parameters().keys();
  auto const x = torch::rand({4, 3});
  auto const made = shard(layer);

  auto const y = layer(x);
  {
    torch::NoGradGuard const no_grad;
    layer->weight.zero_();
  }

  EXPECT_TRUE(layer->is_sharded());
  EXPECT_EQ(made->size(), 1U);
  EXPECT_EQ(layer->named_parameters().keys(), names);
  EXPECT_TRUE(torch::equal(layer(x), (layer->bias + 1).expand({4, 2})));
  EXPECT_FALSE(torch::equal(layer(x), y));
}

TEST(Layer, resets_what_its_forward_communicates_by) {
  LinearLayer layer(3, 2);
  auto const made = shard(layer);
  tn::Sequential model(layer);

  nn::reset_structure(*model);

  EXPECT_EQ(made->front()->num_resets, 1);
}

TEST(Layer, has_clones_with_parameters_and_a_forward_of_their_own) {
  LinearLayer layer(3, 2);
  auto const made = shard(layer);

  auto const clone = std::dynamic_pointer_cast<nn::LayerImpl<tn::LinearImpl>>(layer->clone());
  ASSERT_TRUE(clone);
  {
    torch::NoGradGuard const no_grad;
    layer->weight.zero_();
  }
  auto const x = torch::rand({4, 3});

  EXPECT_TRUE(clone->is_sharded());
  EXPECT_EQ(made->size(), 2U);
  EXPECT_FALSE(clone->weight.is_same(layer->weight));
  EXPECT_TRUE(torch::equal(clone->forward(x), torch::linear(x, clone->weight, clone->bias) + 1));
  clone->reset_structure();
  EXPECT_EQ((*made)[0]->num_resets, 0);
  EXPECT_EQ((*made)[1]->num_resets, 1);
}

TEST(Layer, sharded_again_has_the_last_forward) {
  LinearLayer layer(3, 2);
  shard(layer);
  layer->set_sharded([] {
    return nn::detail::ShardedForward{[](tn::Module& /*serial*/, torch::Tensor const& x) { return -x; }, nullptr,
                                      nullptr};
  });
  auto const x = torch::rand({4, 3});

  EXPECT_TRUE(torch::equal(layer(x), -x));
}

}  // namespace test_layer
}  // namespace graticule
