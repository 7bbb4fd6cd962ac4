// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/forward_hooks.hpp>

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace graticule::test {

/// Hooks that write down what they are called for: `name<2` before a forward with two tensors, `name>1` after one that
/// gave one, `name!` when it has failed.
struct HookLog : nn::ForwardHooks {
  HookLog(std::string& log, std::string own_name) : text(log), name(std::move(own_name)) {}
  void before_forward(torch::nn::Module& /*unit*/, std::vector<torch::Tensor>& inputs) override {
    text += name + "<" + std::to_string(inputs.size()) + " ";
  }
  void after_forward(torch::nn::Module& /*unit*/, std::vector<torch::Tensor>& outputs) override {
    text += name + ">" + std::to_string(outputs.size()) + " ";
  }
  void forward_failed(torch::nn::Module& /*unit*/) noexcept override { text += name + "! "; }
  std::string& text;
  std::string name;
};

}  // namespace graticule::test
