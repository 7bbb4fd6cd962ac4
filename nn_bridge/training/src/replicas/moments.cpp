// SPDX-License-Identifier: BSD-3-Clause
#include "moments.hpp"

#include <graticule/partition/error.hpp>
#include <graticule/training/detail/optimizer_state.hpp>

#include <string>
#include <typeinfo>

namespace graticule::training::detail {

namespace {

using Tensors = std::vector<torch::Tensor>;

/// Options of the parameter's group, none where the optimizer does not hold it.
template <class Options>
Options const* options_of(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  for (auto& group : optimizer.param_groups())
    for (auto const& held : group.params())
      if (held.is_same(parameter)) return &static_cast<Options const&>(group.options());
  return nullptr;
}

template <class Options, class State>
Tensors of_adam(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  auto const* options = options_of<Options>(optimizer, parameter);
  if (options == nullptr) return {};
  Tensors result(options->amsgrad() ? 3 : 2);
  if (auto const* state = state_of<State>(optimizer, parameter)) {
    result[0] = state->exp_avg();
    result[1] = state->exp_avg_sq();
    if (options->amsgrad()) result[2] = state->max_exp_avg_sq();
  }
  return result;
}

Tensors of_sgd(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  auto const* options = options_of<torch::optim::SGDOptions>(optimizer, parameter);
  if (options == nullptr || options->momentum() == 0) return {};
  auto const* state = state_of<torch::optim::SGDParamState>(optimizer, parameter);
  return {state == nullptr ? torch::Tensor() : state->momentum_buffer()};
}

Tensors of_rmsprop(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  auto const* options = options_of<torch::optim::RMSpropOptions>(optimizer, parameter);
  if (options == nullptr) return {};
  auto const* state = state_of<torch::optim::RMSpropParamState>(optimizer, parameter);
  Tensors result{state == nullptr ? torch::Tensor() : state->square_avg()};
  if (options->momentum() > 0) result.push_back(state == nullptr ? torch::Tensor() : state->momentum_buffer());
  if (options->centered()) result.push_back(state == nullptr ? torch::Tensor() : state->grad_avg());
  return result;
}

Tensors of_adagrad(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  if (options_of<torch::optim::AdagradOptions>(optimizer, parameter) == nullptr) return {};
  auto const* state = state_of<torch::optim::AdagradParamState>(optimizer, parameter);
  return {state == nullptr ? torch::Tensor() : state->sum()};
}

}  // namespace

std::vector<torch::Tensor> moments_of(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  namespace t = torch::optim;
  if (dynamic_cast<t::Adam*>(&optimizer) != nullptr)
    return of_adam<t::AdamOptions, t::AdamParamState>(optimizer, parameter);
  if (dynamic_cast<t::AdamW*>(&optimizer) != nullptr)
    return of_adam<t::AdamWOptions, t::AdamWParamState>(optimizer, parameter);
  if (dynamic_cast<t::SGD*>(&optimizer) != nullptr) return of_sgd(optimizer, parameter);
  if (dynamic_cast<t::RMSprop*>(&optimizer) != nullptr) return of_rmsprop(optimizer, parameter);
  if (dynamic_cast<t::Adagrad*>(&optimizer) != nullptr) return of_adagrad(optimizer, parameter);
  throw Error("Unsupported", std::string("the moments of ") + typeid(optimizer).name() +
                                 " are unknown: keep them, or use SGD, Adam, AdamW, RMSprop or Adagrad");
}

int num_moments(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  return int(moments_of(optimizer, parameter).size());
}

}  // namespace graticule::training::detail
