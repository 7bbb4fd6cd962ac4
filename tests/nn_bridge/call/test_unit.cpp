// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/layer.hpp>
#include <graticule/nn_bridge/call/unit.hpp>

#include "hook_log.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace graticule {
namespace test_unit {

using test::HookLog;

struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  explicit BlockImpl(std::int64_t width) : width_(width) { reset(); }
  void reset() override { linear = register_module("linear", torch::nn::Linear(width_, width_)); }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor const& x, double scale,
                                                   std::optional<torch::Tensor> const& more) {
    if (scale < 0) throw std::invalid_argument("negative");
    auto const y = linear(x) * scale;
    return {more ? y + *more : y, y};
  }
  std::int64_t width_;
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    block = register_module("block", nn::Unit<Block>(3));
    layers = register_module("layers", torch::nn::Sequential(nn::Unit<torch::nn::Linear>(3, 2), torch::nn::ReLU(),
                                                             nn::Layer<torch::nn::Linear>(2, 1)));
  }
  torch::Tensor forward(torch::Tensor const& x) { return layers->forward(std::get<0>(block(x, 2.0, x))); }
  nn::Unit<Block> block{nullptr};
  torch::nn::Sequential layers{nullptr};
};

void watch(torch::nn::Module& module, std::string& text) {
  int number = 0;
  for (auto const& child : module.modules(false))
    if (auto* const hooked = dynamic_cast<nn::Hooked*>(child.get()))
      hooked->add_hooks(std::make_shared<HookLog>(text, std::string(1, char('a' + number++))));
}

TEST(Unit, keeps_names_and_values_and_tells_its_forwards) {
  NetImpl net;
  auto const x = torch::ones({4, 3});
  auto const before = net.forward(x);
  std::string text;
  watch(net, text);

  auto const after = net.forward(x);

  EXPECT_TRUE(torch::equal(before, after));
  EXPECT_EQ(text, "a<2 a>2 b<1 b>1 c<1 c>1 ");
  EXPECT_EQ(net.named_parameters().keys(),
            (std::vector<std::string>{"block.linear.weight", "block.linear.bias", "layers.0.weight", "layers.0.bias",
                                      "layers.2.weight", "layers.2.bias"}));
}

TEST(Unit, lets_hooks_replace_inputs_and_outputs) {
  struct Doubling : nn::ForwardHooks {
    void before_forward(torch::nn::Module& /*unit*/, std::vector<torch::Tensor>& inputs) override { inputs[0] *= 2; }
    void after_forward(torch::nn::Module& /*unit*/, std::vector<torch::Tensor>& outputs) override {
      outputs[1] = outputs[1] + 1;
    }
  };
  nn::Unit<Block> block(3);
  auto const x = torch::ones({1, 3});
  auto const y = std::get<1>(block(x, 1.0, std::nullopt));
  auto const hooks = std::make_shared<Doubling>();
  block->add_hooks(hooks);

  EXPECT_TRUE(torch::allclose(std::get<1>(block(x.clone(), 1.0, std::nullopt)), block->linear(2 * x) + 1));

  block->remove_hooks(hooks.get());
  EXPECT_TRUE(torch::allclose(std::get<1>(block(x, 1.0, std::nullopt)), y));
}

TEST(Unit, tells_hooks_innermost_last_and_of_failures) {
  nn::Unit<Block> block(3);
  std::string text;
  block->add_hooks(std::make_shared<HookLog>(text, "inner"));
  block->add_hooks(std::make_shared<HookLog>(text, "outer"));

  EXPECT_THROW(block(torch::ones({1, 3}), -1.0, std::nullopt), std::invalid_argument);

  EXPECT_EQ(text, "outer<1 inner<1 inner! outer! ");
}

TEST(Unit, clones_are_units_without_hooks) {
  NetImpl net;
  std::string text;
  watch(net, text);

  auto const copy = std::dynamic_pointer_cast<NetImpl>(net.clone());
  auto const x = torch::ones({4, 3});

  EXPECT_TRUE(torch::allclose(copy->forward(x), NetImpl(*copy).forward(x)));
  EXPECT_EQ(text, "");
  watch(*copy, text);
  (void)copy->forward(x);
  EXPECT_EQ(text, "a<2 a>2 b<1 b>1 c<1 c>1 ");
}

}  // namespace test_unit
}  // namespace graticule
