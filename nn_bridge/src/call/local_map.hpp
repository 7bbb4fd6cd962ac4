// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

namespace graticule::nn::detail {

/// What a rank computes on its own between the communicating nodes of a graph.
///
/// All ranks must run the same communicating nodes in a backward of any order. LibTorch's operations do not ensure
/// this: a rank without outputs lacks the nodes that a convolution creates on the others, and the dependencies of a
/// second derivative differ between operations. A local map is therefore one node, the same on all ranks for any
/// computation, and its derivatives are again local maps, of all inputs and all cotangents.
struct LocalMap {
  using Tensors = torch::autograd::variable_list;

  /// Outputs, by operations that LibTorch can differentiate, or constants on a rank that has nothing to compute.
  std::function<Tensors(Tensors const& inputs)> apply;
  /// The first derivative without a graph: gradients of the inputs that are `needed`, undefined or not for the others.
  /// Undefined: by LibTorch, from a second run of `apply`.
  std::function<Tensors(Tensors const& inputs, Tensors const& cotangents, std::vector<bool> const& needed)> backward =
      {};
};

/// Differentiable to any order. Local.
[[nodiscard]] LocalMap::Tensors apply_local(std::shared_ptr<LocalMap const> const& map,
                                            LocalMap::Tensors const& inputs);

}  // namespace graticule::nn::detail
