// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <vector>

namespace graticule::nn {

/// Functions called before and after each forward of a `Unit` or `Layer`. LibTorch's C++ modules have no forward hooks
/// (pytorch#25888).
///
/// `block->add_hooks(hooks)` adds them, `block->remove_hooks(hooks.get())` removes them; a module of unknown type is
/// asked by `dynamic_cast<Hooked*>` (call/unit.hpp). Of several, the one added last is called first before a forward,
/// and last after it. Copies and clones of a module have no hooks.
class ForwardHooks {
 public:
  virtual ~ForwardHooks() = default;
  /// @param unit the module @param inputs the tensors among the arguments, in their order; may be replaced by tensors
  ///        of equal values, to mark a position in the graph
  virtual void before_forward(torch::nn::Module& unit, std::vector<torch::Tensor>& inputs) = 0;
  /// @param unit the module @param outputs the tensors of the result, in their order; may be replaced likewise
  virtual void after_forward(torch::nn::Module& unit, std::vector<torch::Tensor>& outputs) = 0;
  /// Called if the forward or another hook throws after `before_forward`.
  virtual void forward_failed(torch::nn::Module& /*unit*/) noexcept {}
};

}  // namespace graticule::nn
