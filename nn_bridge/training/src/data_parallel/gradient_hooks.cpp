// SPDX-License-Identifier: BSD-3-Clause
#include "gradient_hooks.hpp"

#include <memory>
#include <utility>

namespace graticule::training::detail {

namespace {

using torch::autograd::variable_list;

/// Calls a function with the place of a parameter, and passes the gradients on.
template <class Base, class... Others>
struct Hook : Base {
  Hook(GradientHooks::Call const& function, std::size_t place) : call(function), index(place) {}
  variable_list operator()(variable_list const& grads, Others const&... /*inputs*/) override {
    torch::NoGradGuard const no_grad;
    call(index);
    return grads;
  }
  GradientHooks::Call call;
  std::size_t index;
};
using Before = Hook<torch::autograd::FunctionPreHook>;
using After = Hook<torch::autograd::FunctionPostHook, variable_list>;

}  // namespace

struct GradientHooks::Place {
  torch::Tensor parameter;
  /// Shared; the tensor itself holds it weakly. It is a std::shared_ptr in LibTorch 2.11, an intrusive_ptr in 2.13.
  decltype(torch::autograd::impl::grad_accumulator(std::declval<torch::Tensor const&>())) node;
  Before const* before = nullptr;
  std::uintptr_t after = 0;
};

GradientHooks::GradientHooks(std::vector<torch::Tensor> parameters, Call before, Call after) {
  for (auto& parameter : parameters) {
    auto& place = places_.emplace_back();
    auto const index = places_.size() - 1;
    place.node = torch::autograd::impl::grad_accumulator(parameter);
    auto hook = std::make_unique<Before>(before, index);
    place.before = hook.get();
    place.node->add_pre_hook(std::move(hook));
    place.after = place.node->add_post_hook(std::make_unique<After>(after, index));
    place.parameter = std::move(parameter);
  }
}

GradientHooks::~GradientHooks() {
  for (auto& place : places_) {
    std::erase_if(place.node->pre_hooks(), [&](auto const& hook) { return hook.get() == place.before; });
    place.node->del_post_hook(place.after);
  }
}

std::size_t GradientHooks::first_lost() const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (torch::autograd::impl::try_get_grad_accumulator(places_[i].parameter) != places_[i].node) return i;
  return places_.size();
}

bool GradientHooks::are_on(torch::Tensor const& parameter) {
  auto const node = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!node) return false;
  for (auto const& hook : node->pre_hooks())
    if (dynamic_cast<Before const*>(hook.get()) != nullptr) return true;
  return false;
}

}  // namespace graticule::training::detail
