// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/forward_hooks.hpp>
#include <graticule/nn_bridge/detail/hooked.hpp>

#include <torch/torch.h>

#include <memory>
#include <optional>

namespace graticule::nn {

/// Base of every `Unit` and `Layer`, to give hooks to one of unknown type:
/// `if (auto* hooked = dynamic_cast<nn::Hooked*>(module.get())) hooked->add_hooks(hooks);`
using Hooked = detail::Hooked;

/// A module that data parallelism and sharded parameters handle separately: they wait for its gradients, or gather its
/// parameters. It calls the `ForwardHooks` given to `add_hooks`. In every other respect it is `Impl`, including the
/// names of its parameters.
template <class Impl>
class UnitImpl : public detail::HookedForward<Impl, decltype(&Impl::forward)> {
 public:
  using detail::HookedForward<Impl, decltype(&Impl::forward)>::HookedForward;

  std::shared_ptr<torch::nn::Module> clone(std::optional<torch::Device> const& device = {}) const override {
    Impl const plain(*this);
    return std::make_shared<UnitImpl>(dynamic_cast<Impl const&>(*plain.clone(device)));
  }
};

/// A member that is a unit: `Unit<Block> block{nullptr}` instead of `Block block{nullptr}`. It is constructed,
/// registered and called in the same way. `Holder` is a LibTorch module holder (`TORCH_MODULE(Block)`) whose forward is
/// one function, not a template.
template <class Holder>
class Unit : public torch::nn::ModuleHolder<UnitImpl<typename Holder::ContainedType>> {
 public:
  using torch::nn::ModuleHolder<UnitImpl<typename Holder::ContainedType>>::ModuleHolder;
};

}  // namespace graticule::nn
