// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace graticule::training::detail {

/// Called around the accumulation of gradients, until it is destroyed.
///
/// The hooks belong to the nodes that accumulate gradients. The tensors' own slot for such hooks holds only one, which
/// is replaced without notice; a user's hook there runs before `after`. `torch::autograd::grad` accumulates nothing and
/// calls none.
class GradientHooks {
 public:
  using Call = std::function<void(std::size_t)>;

  /// @param parameters leaves that require a gradient @param before, after called with the parameter's place
  GradientHooks(std::vector<torch::Tensor> parameters, Call before, Call after);
  GradientHooks(GradientHooks const&) = delete;
  GradientHooks& operator=(GradientHooks const&) = delete;
  ~GradientHooks();

  /// @returns the first parameter with a new node (after a change of its device or type), or the number of parameters
  [[nodiscard]] std::size_t first_lost() const;
  /// Whether the node of a tensor has hooks of this kind.
  [[nodiscard]] static bool are_on(torch::Tensor const& parameter);

 private:
  struct Place;
  std::vector<Place> places_;
};

}  // namespace graticule::training::detail
