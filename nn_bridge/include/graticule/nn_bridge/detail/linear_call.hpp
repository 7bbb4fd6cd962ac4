// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

namespace graticule::nn::detail {

/// A linear operator between the tensors of all ranks, and its adjoint, for libraries on top of this one. Immutable:
/// the graph keeps it.
struct LinearCall {
  std::function<torch::Tensor(torch::Tensor const&)> apply;    ///< a fresh tensor; collective
  std::function<torch::Tensor(torch::Tensor const&)> adjoint;  ///< likewise
};

/// `call->apply(x)`, differentiable to any order: the derivative of each of the two is the other.
///
/// Collective, as is its backward. The result's node has two outputs, for `LayerState::record`; every rank owns one
/// where `anchor` (see `agreement.hpp`) requires a gradient.
[[nodiscard]] torch::Tensor apply_linear_call(std::shared_ptr<LinearCall const> const& call, torch::Tensor const& x,
                                              torch::Tensor const& anchor);

}  // namespace graticule::nn::detail
