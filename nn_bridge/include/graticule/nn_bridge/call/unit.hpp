// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace graticule::nn {

/// Functions called before and after each forward of a unit.
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

namespace detail {

inline void collect(std::vector<torch::Tensor*>& tensors, torch::Tensor& value) { tensors.push_back(&value); }
inline void collect(std::vector<torch::Tensor*>& tensors, std::optional<torch::Tensor>& value) {
  if (value) tensors.push_back(&*value);
}
inline void collect(std::vector<torch::Tensor*>& tensors, std::vector<torch::Tensor>& values) {
  for (auto& value : values) tensors.push_back(&value);
}
template <class... Types>
void collect(std::vector<torch::Tensor*>& tensors, std::tuple<Types...>& values);
template <class Other>
void collect(std::vector<torch::Tensor*>& /*tensors*/, Other& /*value*/) {}
template <class... Types>
void collect(std::vector<torch::Tensor*>& tensors, std::tuple<Types...>& values) {
  std::apply([&](auto&... value) { (collect(tensors, value), ...); }, values);
}

/// Lets `hook` see and replace the tensors within `values`.
template <class Values, class Hook>
void with_tensors(Values& values, Hook&& hook) {
  std::vector<torch::Tensor*> places;
  collect(places, values);
  std::vector<torch::Tensor> tensors;
  for (auto const* place : places) tensors.push_back(*place);
  hook(tensors);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = tensors.at(i);
}

}  // namespace detail

/// A module with forward hooks, which LibTorch's C++ modules lack (pytorch#25888).
///
/// A base of every `Unit` and `Layer`; found by `dynamic_cast<Hooked*>(module)`. Copies and clones have no hooks.
class Hooked {
 public:
  Hooked() = default;
  Hooked(Hooked const& /*other*/) noexcept {}
  Hooked& operator=(Hooked const& /*other*/) noexcept { return *this; }
  virtual ~Hooked() = default;

  /// The new hooks run before existing ones ahead of the forward, and after them behind it.
  void add_hooks(std::shared_ptr<ForwardHooks> hooks) { hooks_.insert(hooks_.begin(), std::move(hooks)); }
  void remove_hooks(ForwardHooks const* hooks) noexcept {
    std::erase_if(hooks_, [&](auto const& held) { return held.get() == hooks; });
  }

 protected:
  /// `forward(arguments...)` with the hooks around it.
  template <class Result, class Forward, class... Arguments>
  Result call_hooked(torch::nn::Module& unit, Forward const& forward, Arguments&&... arguments) {
    if (hooks_.empty()) return forward(std::forward<Arguments>(arguments)...);
    auto const hooks = hooks_;  // A hook may remove itself.
    std::size_t entered = 0;
    try {
      std::tuple<std::decay_t<Arguments>...> held(std::forward<Arguments>(arguments)...);
      for (; entered < hooks.size();) {
        auto& hook = *hooks[entered++];
        detail::with_tensors(held, [&](auto& tensors) { hook.before_forward(unit, tensors); });
      }
      auto result = std::apply(forward, std::move(held));
      for (; entered > 0; --entered)
        detail::with_tensors(result, [&](auto& tensors) { hooks[entered - 1]->after_forward(unit, tensors); });
      return result;
    } catch (...) {
      for (; entered > 0; --entered) hooks[entered - 1]->forward_failed(unit);
      throw;
    }
  }

 private:
  std::vector<std::shared_ptr<ForwardHooks>> hooks_;
};

namespace detail {

template <class Impl, class Forward>
class HookedForward;

/// `Impl` with hooks around its forward, whose signature is kept so that a `Sequential` accepts it.
template <class Impl, class Class, class Result, class... Arguments>
class HookedForward<Impl, Result (Class::*)(Arguments...)> : public Impl, public Hooked {
 public:
  using Impl::Impl;
  explicit HookedForward(Impl const& other) : Impl(other) {}

  Result forward(Arguments... arguments) {
    return this->template call_hooked<Result>(
        *this, [this](auto&&... held) -> Result { return Impl::forward(std::forward<decltype(held)>(held)...); },
        std::forward<Arguments>(arguments)...);
  }
};
template <class Impl, class Class, class Result, class... Arguments>
class HookedForward<Impl, Result (Class::*)(Arguments...) const>
    : public HookedForward<Impl, Result (Class::*)(Arguments...)> {
  using HookedForward<Impl, Result (Class::*)(Arguments...)>::HookedForward;
};

}  // namespace detail

/// A module that data parallelism and sharded parameters handle separately: they wait for its gradients, or gather its
/// parameters. In every other respect it is `Impl`, including the names of its parameters.
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
