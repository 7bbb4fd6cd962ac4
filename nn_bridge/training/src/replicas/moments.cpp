// SPDX-License-Identifier: BSD-3-Clause
#include "moments.hpp"

#include <graticule/training/detail/optimizer_state.hpp>

#include "state/optimizer_kinds.hpp"

namespace graticule::training::detail {

namespace {

/// Options of the parameter's group, none where the optimizer does not hold it.
torch::optim::OptimizerOptions const* options_of(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  for (auto& group : optimizer.param_groups())
    for (auto const& held : group.params())
      if (held.is_same(parameter)) return &group.options();
  return nullptr;
}

}  // namespace

std::vector<torch::Tensor> moments_of(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  std::vector<torch::Tensor> result;
  with_kind(optimizer, [&]<class Kind>(Kind /*kind*/) {
    auto const* const options = options_of(optimizer, parameter);
    if (options == nullptr) return;
    typename Kind::State const none;
    auto const* const state = state_of<typename Kind::State>(optimizer, parameter);
    Kind::state(state == nullptr ? none : *state, [&](std::string_view part, auto const& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>)
        if (Kind::keeps(static_cast<typename Kind::Options const&>(*options), part)) result.push_back(value);
    });
  });
  return result;
}

int num_moments(torch::optim::Optimizer& optimizer, torch::Tensor const& parameter) {
  return int(moments_of(optimizer, parameter).size());
}

}  // namespace graticule::training::detail
