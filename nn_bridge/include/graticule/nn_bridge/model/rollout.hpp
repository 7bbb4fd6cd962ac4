// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace graticule::nn {

/// Inputs or outputs of a segment.
using Tensors = std::vector<torch::Tensor>;

/// Runs `segment` without storing the activations for its backward, and runs it again in the backward.
///
/// Stores inputs and outputs only, at the cost of a second forward. The segment may contain any layers of the domain:
/// in the backward all ranks run it again together, including halos. It must be a pure function of its inputs and of
/// parameters: this library's `Dropout` repeats its mask, LibTorch's does not. Gradients of parameters are added to
/// their `.grad`, so the loss must be differentiated by `backward()`, not by `autograd::grad`, and only once. Requires
/// the same call on all ranks of the domain.
/// @param domain the ranks that share a sample @param segment the function to run @param inputs tensors of any shapes
/// @return the result of `segment`
/// @throws `Unsupported` if the segment returns no tensor, and in a backward that builds a
///        graph, on all ranks alike
[[nodiscard]] Tensors checkpoint(Domain const& domain, std::function<Tensors(Tensors const&)> const& segment,
                                 Tensors const& inputs);

/// Options of `rollout`.
struct RolloutOptions {
  std::int64_t num_steps = 1;
  /// Number of steps whose activations the backward recomputes at a time; 0: activations are stored.
  std::int64_t checkpoint_steps = 0;
  /// Maximum number of steps that gradients flow back over; 0: all.
  std::int64_t gradient_steps = 0;
};

/// Applies `step` repeatedly, starting with `state`; the state stays sharded between steps.
///
/// @param domain the ranks that share a sample @param state the initial state, this rank's shard @param options see
///        `RolloutOptions` @param step takes the state and the number of the step, from 0
/// @param on_state takes the state after each step and returns its loss; the losses are summed
/// @return the sum of the losses, whose `backward` runs through all steps
/// @throws `BadOption` for invalid options
/// Example: 4 steps, `checkpoint_steps` 2: the backward stores activations of two steps at a time.
[[nodiscard]] torch::Tensor rollout(Domain const& domain, torch::Tensor const& state, RolloutOptions const& options,
                                    std::function<torch::Tensor(torch::Tensor const&, std::int64_t)> const& step,
                                    std::function<torch::Tensor(torch::Tensor const&, std::int64_t)> const& on_state);

}  // namespace graticule::nn
