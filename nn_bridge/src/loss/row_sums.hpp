// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace graticule::nn::detail {

/// Losses of a difference d = prediction - target.
enum class DifferenceKind : std::uint8_t {
  absolute,  ///< |d|
  squared,   ///< d^2
  huber,     ///< d^2 / 2 up to `bend`, then a straight line of slope `bend`
  smooth,    ///< huber / bend
};

struct DifferenceLoss {
  DifferenceKind kind = DifferenceKind::squared;
  double bend = 1;
};

/// Sums over the last axis in f64: [..., columns] to [..., 1]. The backward returns a view, which needs no memory.
/// Rows are summed one after the other in four interleaved partial sums: the same bits for any number of threads.
/// @param x real floating-point
[[nodiscard]] torch::Tensor row_sums(torch::Tensor const& x);

/// `row_sums` of the loss of each cell, in one pass over prediction and target, and one for the gradients, which are
/// the only allocation of the fields' size. Differentiable to any order. @param p, t of the same sizes and dtype, f32
/// or f64
[[nodiscard]] torch::Tensor row_sums(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t);

/// The loss of each cell.
[[nodiscard]] torch::Tensor elements(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t);

}  // namespace graticule::nn::detail
