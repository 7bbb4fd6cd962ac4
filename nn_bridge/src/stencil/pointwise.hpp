// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of single cells, which mix channels and nothing else, as products of matrices.
//
// LibTorch gives f64, and f32 on one thread, to `_slow_conv2d`, which copies the bias into the output before it adds
// the product, and whose backward writes the gradient of the input as columns and adds these to zeros; f32 on more
// threads goes to oneDNN. Here blocks of cells stay in the caches from one product to the next: 721 x 1440 cells in
// f32, 16 to 32 channels, take 0.63 of the time forward and 0.56 backward on one thread, 0.45 and 0.22 on two (AMD
// EPYC).
#pragma once

#include "convolution.hpp"

namespace graticule::nn::detail {

/// True for kernels of one cell, stride 1, no padding, one group; in f32 and f64 on the CPU, channels before cells.
/// @param x [batch, channels, ...] @param weight of as many axes
[[nodiscard]] bool is_pointwise(torch::Tensor const& x, torch::Tensor const& weight, Windows const& windows);

/// Not differentiable. @pre is_pointwise(x, weight, windows) @param bias may be undefined
[[nodiscard]] torch::Tensor pointwise(torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias);

/// Gradients of input, weight and bias, those that are wanted; not differentiable. @pre is_pointwise(x, weight,
/// windows)
[[nodiscard]] std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> pointwise_backward(
    torch::Tensor const& grad, torch::Tensor const& x, torch::Tensor const& weight, std::array<bool, 3> const& wanted);

}  // namespace graticule::nn::detail
