// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace graticule::training::detail {

/// State that an optimizer keeps for a parameter; nullptr before the first step that changes it.
/// @pre `State` is the type of the optimizer's states
template <class State>
[[nodiscard]] State const* state_of(torch::optim::Optimizer const& optimizer, torch::Tensor const& parameter) {
  auto const found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : static_cast<State const*>(found->second.get());
}

}  // namespace graticule::training::detail
