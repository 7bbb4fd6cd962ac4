// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>

#include <torch/torch.h>

#include <string>
#include <string_view>
#include <typeinfo>

namespace graticule::training::detail {

/// What each kind of optimizer holds, by name: LibTorch's own `serialize` knows parameters by addresses only.
///
/// `options` calls `visit(name, value)` for each option of a group, `state` for each part of a parameter's state;
/// `keeps` says whether a group with these options makes a part.
struct SgdKind {
  using Optimizer = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr char const* name = "SGD";
  template <class T, class Visit>
  static void options(T& o, Visit&& visit) {
    visit("lr", o.lr());
    visit("momentum", o.momentum());
    visit("dampening", o.dampening());
    visit("weight_decay", o.weight_decay());
    visit("nesterov", o.nesterov());
  }
  template <class T, class Visit>
  static void state(T& s, Visit&& visit) {
    visit("momentum_buffer", s.momentum_buffer());
  }
  static bool keeps(Options const& o, std::string_view /*part*/) { return o.momentum() != 0; }
};

template <class OptimizerType, class OptionsType, class StateType>
struct AdamLikeKind {
  using Optimizer = OptimizerType;
  using Options = OptionsType;
  using State = StateType;
  template <class T, class Visit>
  static void options(T& o, Visit&& visit) {
    visit("lr", o.lr());
    visit("beta1", std::get<0>(o.betas()));
    visit("beta2", std::get<1>(o.betas()));
    visit("eps", o.eps());
    visit("weight_decay", o.weight_decay());
    visit("amsgrad", o.amsgrad());
  }
  template <class T, class Visit>
  static void state(T& s, Visit&& visit) {
    visit("step", s.step());
    visit("exp_avg", s.exp_avg());
    visit("exp_avg_sq", s.exp_avg_sq());
    visit("max_exp_avg_sq", s.max_exp_avg_sq());
  }
  static bool keeps(Options const& o, std::string_view part) { return part != "max_exp_avg_sq" || o.amsgrad(); }
};
struct AdamKind : AdamLikeKind<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState> {
  static constexpr char const* name = "Adam";
};
struct AdamWKind : AdamLikeKind<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState> {
  static constexpr char const* name = "AdamW";
};

struct AdagradKind {
  using Optimizer = torch::optim::Adagrad;
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr char const* name = "Adagrad";
  template <class T, class Visit>
  static void options(T& o, Visit&& visit) {
    visit("lr", o.lr());
    visit("lr_decay", o.lr_decay());
    visit("weight_decay", o.weight_decay());
    visit("initial_accumulator_value", o.initial_accumulator_value());
    visit("eps", o.eps());
  }
  template <class T, class Visit>
  static void state(T& s, Visit&& visit) {
    visit("step", s.step());
    visit("sum", s.sum());
  }
  static bool keeps(Options const& /*o*/, std::string_view /*part*/) { return true; }
};

struct RmspropKind {
  using Optimizer = torch::optim::RMSprop;
  using Options = torch::optim::RMSpropOptions;
  using State = torch::optim::RMSpropParamState;
  static constexpr char const* name = "RMSprop";
  template <class T, class Visit>
  static void options(T& o, Visit&& visit) {
    visit("lr", o.lr());
    visit("alpha", o.alpha());
    visit("eps", o.eps());
    visit("weight_decay", o.weight_decay());
    visit("momentum", o.momentum());
    visit("centered", o.centered());
  }
  template <class T, class Visit>
  static void state(T& s, Visit&& visit) {
    visit("step", s.step());
    visit("square_avg", s.square_avg());
    visit("momentum_buffer", s.momentum_buffer());
    visit("grad_avg", s.grad_avg());
  }
  static bool keeps(Options const& o, std::string_view part) {
    return part == "momentum_buffer" ? o.momentum() > 0 : part != "grad_avg" || o.centered();
  }
};

/// State that an optimizer keeps for a parameter; nullptr before the first step that changes it.
/// @pre `State` is the type of the optimizer's states
template <class State>
[[nodiscard]] State const* state_of(torch::optim::Optimizer const& optimizer, torch::Tensor const& parameter) {
  auto const found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : static_cast<State const*>(found->second.get());
}

/// Calls `action` with the kind of an optimizer. @throws `Unsupported`
template <class Action>
void with_kind(torch::optim::Optimizer const& optimizer, Action&& action) {
  auto const try_kind = [&](auto kind) {
    if (dynamic_cast<typename decltype(kind)::Optimizer const*>(&optimizer) == nullptr) return false;
    action(kind);
    return true;
  };
  if (try_kind(SgdKind()) || try_kind(AdamKind()) || try_kind(AdamWKind()) || try_kind(AdagradKind()) ||
      try_kind(RmspropKind()))
    return;
  throw Error("Unsupported", std::string("the state of ") + typeid(optimizer).name() +
                                 " is not known here: use SGD, Adam, AdamW, Adagrad or RMSprop");
}

}  // namespace graticule::training::detail
