// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace graticule::nn::detail {

/// `out[i] = a[i] b[i]`, products of matrices with many rows and few columns, such as a Legendre table and the real and
/// imaginary parts of some channels.
///
/// Up to 16 columns of f32 and f64 on the host are multiplied without packing: MKL packs both operands for each
/// product. On AMD EPYC a spherical transform of 1 to 5 channels takes 0.5 to 0.75 of its time with `at::bmm_out`, one
/// of 8 the same, one of 16 1.05. Each sum is in the order of the inner index, whatever the number of columns and
/// threads. Other tensors go to `at::bmm_out`.
/// @param a [batch, rows, inner], of any strides @param b [batch, inner, columns]
/// @param out [batch, rows, columns]; shares no memory with the others
void batched_product(torch::Tensor out, torch::Tensor const& a, torch::Tensor const& b);

}  // namespace graticule::nn::detail
