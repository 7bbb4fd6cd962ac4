// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/forward_hooks.hpp>
#include <graticule/nn_bridge/call/layer.hpp>
#include <graticule/nn_bridge/call/unit.hpp>

#include "hook_log.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule {
namespace test_forward_hooks {

using test::HookLog;
using torch::Tensor;

/// Throws at one of its calls.
struct Thrower : nn::ForwardHooks {
  explicit Thrower(bool throws_before) : before(throws_before) {}
  void before_forward(torch::nn::Module& /*unit*/, std::vector<Tensor>& /*inputs*/) override {
    if (before) throw std::runtime_error("before");
  }
  void after_forward(torch::nn::Module& /*unit*/, std::vector<Tensor>& /*outputs*/) override {
    if (!before) throw std::runtime_error("after");
  }
  bool before;
};

/// Calls `check` with a module of each kind that has hooks.
template <class Check>
void for_each_kind(Check const& check) {
  {
    SCOPED_TRACE("Unit");
    check(nn::Unit<torch::nn::Linear>(3, 2));
  }
  SCOPED_TRACE("Layer");
  check(nn::Layer<torch::nn::Linear>(3, 2));
}

TEST(ForwardHooks, are_called_before_a_forward_in_the_opposite_order_of_after_it) {
  for_each_kind([](auto module) {
    std::string text;
    auto const first = std::make_shared<HookLog>(text, "first");
    module->add_hooks(first);
    module->add_hooks(std::make_shared<HookLog>(text, "second"));
    auto const x = torch::ones({1, 3});

    (void)module(x);
    EXPECT_EQ(text, "second<1 first<1 first>1 second>1 ");

    module->remove_hooks(first.get());
    text.clear();
    (void)module(x);
    EXPECT_EQ(text, "second<1 second>1 ");
  });
}

TEST(ForwardHooks, replace_the_tensors_that_go_in_and_come_out) {
  struct Doubling : nn::ForwardHooks {
    void before_forward(torch::nn::Module& /*unit*/, std::vector<Tensor>& inputs) override {
      inputs.at(0) = inputs.at(0) * 2;
    }
    void after_forward(torch::nn::Module& /*unit*/, std::vector<Tensor>& outputs) override {
      outputs.at(0) = outputs.at(0) + 1;
    }
  };
  torch::manual_seed(1);
  for_each_kind([](auto module) {
    auto const x = torch::rand({4, 3});
    auto const expected = torch::linear(2 * x, module->weight, module->bias) + 1;
    module->add_hooks(std::make_shared<Doubling>());

    EXPECT_TRUE(torch::allclose(module(x), expected));
  });
}

TEST(ForwardHooks, know_the_module_that_they_are_called_for) {
  struct Finder : nn::ForwardHooks {
    void before_forward(torch::nn::Module& unit, std::vector<Tensor>& /*inputs*/) override { before = &unit; }
    void after_forward(torch::nn::Module& unit, std::vector<Tensor>& /*outputs*/) override { after = &unit; }
    torch::nn::Module* before = nullptr;
    torch::nn::Module* after = nullptr;
  };
  for_each_kind([](auto module) {
    auto const finder = std::make_shared<Finder>();
    module->add_hooks(finder);

    (void)module(torch::ones({1, 3}));

    EXPECT_EQ(finder->before, module.get());
    EXPECT_EQ(finder->after, module.get());
  });
}

TEST(ForwardHooks, are_told_when_the_forward_or_another_hook_throws) {
  for_each_kind([](auto module) {
    std::string text;
    module->add_hooks(std::make_shared<HookLog>(text, "log"));
    EXPECT_ANY_THROW((void)module(torch::ones({1, 4})));
    EXPECT_EQ(text, "log<1 log! ");
  });
  for (bool const before : {true, false})
    for_each_kind([&](auto module) {
      std::string text;
      module->add_hooks(std::make_shared<Thrower>(before));
      module->add_hooks(std::make_shared<HookLog>(text, "log"));
      EXPECT_THROW((void)module(torch::ones({1, 3})), std::runtime_error);
      EXPECT_EQ(text, "log<1 log! ") << before;
    });
}

TEST(ForwardHooks, are_not_copied) {
  for_each_kind([](auto module) {
    std::string text;
    module->add_hooks(std::make_shared<HookLog>(text, "log"));

    decltype(module) copy(std::dynamic_pointer_cast<typename decltype(module)::ContainedType>(module->clone()));
    (void)copy(torch::ones({1, 3}));

    EXPECT_EQ(text, "");
  });
}

}  // namespace test_forward_hooks
}  // namespace graticule
