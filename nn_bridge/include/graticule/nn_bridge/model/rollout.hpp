// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace graticule::nn {

using Tensors = std::vector<torch::Tensor>;

/// Runs `segment` without keeping what its backward would need, and runs it again in the backward.
///
/// Memory for the inputs and outputs instead of all activations, time for one more forward. The segment may hold any
/// layers of the domain: in the backward all ranks run it again alike, halos included. It must be a pure function of
/// its inputs and of parameters: `Dropout` of this library gives the same mask again, LibTorch's does not. Gradients of
/// parameters are added to their `.grad`, so the loss is differentiated by `backward()`, not by `autograd::grad`, and not
/// twice. Same call on all ranks of the domain.
/// @param inputs tensors of any shapes @return what `segment` returned
/// @throws `EmptySegment` for a segment that returns nothing; `DoubleBackwardUnsupported` in a backward that builds a
///         graph, on all ranks alike
[[nodiscard]] Tensors checkpoint(Domain const& domain, std::function<Tensors(Tensors const&)> const& segment,
                                 Tensors const& inputs);

struct RolloutOptions {
  std::int64_t num_steps = 1;
  /// Recompute activations of so many steps at a time in the backward; 0: keep them all.
  std::int64_t checkpoint_steps = 0;
  /// Gradients flow back over at most so many steps; 0: over all of them.
  std::int64_t gradient_steps = 0;
};

/// Applies `step` to `state`, then to what it returned, and so on; the state stays sharded between steps.
///
/// @param step takes the state and the number of the step, from 0
/// @param on_state given each state from the first step's on, for a loss of each step; what it returns is summed
/// @return the sum of what `on_state` returned, on which `backward` runs through all steps
/// @throws `BadRollout` for options that make no sense
/// Example: 4 steps, `checkpoint_steps` 2: the backward holds activations of two steps at a time.
[[nodiscard]] torch::Tensor rollout(Domain const& domain, torch::Tensor const& state, RolloutOptions const& options,
                                    std::function<torch::Tensor(torch::Tensor const&, std::int64_t)> const& step,
                                    std::function<torch::Tensor(torch::Tensor const&, std::int64_t)> const& on_state);

}  // namespace graticule::nn
