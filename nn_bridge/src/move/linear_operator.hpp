// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/agreement.hpp>

#include "call/traffic.hpp"

#include <torch/torch.h>

#include <memory>

namespace graticule::nn::detail {

/// `x` with lazy conjugates and negatives resolved in memory, which plans read.
[[nodiscard]] inline torch::Tensor resolved(torch::Tensor const& x) {
  return x.defined() ? x.resolve_conj().resolve_neg() : x;
}

/// A linear operator between the tensors of all ranks, and its adjoint. Immutable: the graph keeps it.
class LinearOperator {
 public:
  LinearOperator() = default;
  LinearOperator(LinearOperator const&) = delete;
  LinearOperator& operator=(LinearOperator const&) = delete;
  virtual ~LinearOperator() = default;

  /// A fresh tensor. Collective.
  [[nodiscard]] virtual torch::Tensor apply(torch::Tensor const& x) const = 0;
  [[nodiscard]] virtual torch::Tensor apply_adjoint(torch::Tensor const& y) const = 0;
};

/// `apply` or, with `Way::adjoint`, `apply_adjoint`, differentiable to any order: the derivative of each is the other.
/// One node with two outputs; `anchor` as in `agreement.hpp`. A layer hands the result to `LayerState::record`.
[[nodiscard]] torch::Tensor apply_linear(std::shared_ptr<LinearOperator const> const& op, Way way,
                                         torch::Tensor const& x, torch::Tensor const& anchor);

/// Connects the operators of one call of a layer to the graph.
struct CallTies {
  torch::Tensor anchor;
  Agreement const& layer;

  /// `apply_linear`, recorded; `x` where there is no operator.
  [[nodiscard]] torch::Tensor apply(std::shared_ptr<LinearOperator const> const& op, Way way,
                                    torch::Tensor const& x) const;
};

}  // namespace graticule::nn::detail
