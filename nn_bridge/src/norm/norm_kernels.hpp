// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <utility>

namespace graticule::nn::detail {

// Data passes of a normalisation, over the rows of a contiguous [rows, cells] tensor. Coefficients are f64 tensors
// [rows]. Each function reads and writes the data once; deviations from a mean are formed in the data's own type
// (16-bit types in f32) from a mean in f64, so that a large mean does not reduce the precision.

/// Mean and sum of squared deviations of each row; with `centered` false zeros and the sum of squares.
[[nodiscard]] std::pair<torch::Tensor, torch::Tensor> row_moments(torch::Tensor const& x, bool centered);

/// (x - mean) * scale + shift
[[nodiscard]] torch::Tensor row_affine(torch::Tensor const& x, torch::Tensor const& mean, torch::Tensor const& scale,
                                       torch::Tensor const& shift);

/// Sum of g and sum of g * (x - mean) of each row.
[[nodiscard]] std::pair<torch::Tensor, torch::Tensor> row_dots(torch::Tensor const& g, torch::Tensor const& x,
                                                               torch::Tensor const& mean);

/// Coefficients of `row_gradient`.
struct RowGradient {
  torch::Tensor of_g;
  torch::Tensor of_x;
  torch::Tensor constant;
};

/// of_g * g + of_x * (x - mean) + constant
[[nodiscard]] torch::Tensor row_gradient(torch::Tensor const& g, torch::Tensor const& x, torch::Tensor const& mean,
                                         RowGradient const& by);

/// x - mean in the type that sums are made in; differentiable in x. @param mean f64, broadcast against `x`
[[nodiscard]] torch::Tensor deviations(torch::Tensor const& x, torch::Tensor const& mean);

}  // namespace graticule::nn::detail
