// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/forward_hooks.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace graticule::nn::detail {

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

/// A module with forward hooks, `nn::Hooked` to users.
class Hooked {
 public:
  Hooked() = default;
  Hooked(Hooked const& /*other*/) noexcept {}
  Hooked& operator=(Hooked const& /*other*/) noexcept { return *this; }
  virtual ~Hooked() = default;

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
        with_tensors(held, [&](auto& tensors) { hook.before_forward(unit, tensors); });
      }
      auto result = std::apply(forward, std::move(held));
      for (; entered > 0; --entered)
        with_tensors(result, [&](auto& tensors) { hooks[entered - 1]->after_forward(unit, tensors); });
      return result;
    } catch (...) {
      for (; entered > 0; --entered) hooks[entered - 1]->forward_failed(unit);
      throw;
    }
  }

 private:
  std::vector<std::shared_ptr<ForwardHooks>> hooks_;
};

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

}  // namespace graticule::nn::detail
