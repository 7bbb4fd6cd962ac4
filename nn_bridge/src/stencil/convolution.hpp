// SPDX-License-Identifier: BSD-3-Clause
// LibTorch's convolution and its backward, corrected for shapes for which LibTorch's own is wrong, and by products of
// matrices for kernels of one cell.
//
// LibTorch 2.13 gives convolutions of 16-bit types on the CPU to oneDNN 3.12. On processors with AMX (seen on Sapphire
// Rapids) its primitive brg_conv_fwd:avx10_1_512_amx is wrong for some strided convolutions to few columns: of 2,586
// random bf16 convolutions 15 were wrong, by up to 6.5, all of stride 2 with kernels of 3 and 5 on 2 to 7 columns, none
// with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16. It is also wrong for strides longer than the kernel. Upstream: PyTorch
// issue 169688, whose pull request 188426 finds one output column and a stride of columns above 1; oneDNN pull request
// 5494, in 3.13, for long strides. Strips of halo are few columns, so shards meet these shapes where whole grids do
// not. They are computed in f32 and rounded: few columns on every processor, long strides where there is AMX.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace graticule::nn::detail {

/// Geometry of the windows, per spatial axis.
struct Windows {
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups = 1;
  bool transposed = false;
  std::vector<std::int64_t> output_padding = std::vector<std::int64_t>(stride.size(), 0);
};

/// True for the shapes above. @param x [batch, channels, ...] @param weight of as many axes
[[nodiscard]] bool needs_f32(torch::Tensor const& x, torch::Tensor const& weight, Windows const& windows);

/// As `at::convolution`, to rounding. Differentiable as that is; `bias` may be undefined.
[[nodiscard]] torch::Tensor convolution(torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias,
                                        Windows const& windows);

/// As `at::convolution_backward`, to rounding: gradients of input, weight and bias, those that are wanted.
[[nodiscard]] std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> convolution_backward(
    torch::Tensor const& grad, torch::Tensor const& x, torch::Tensor const& weight, Windows const& windows,
    std::array<bool, 3> const& wanted);

/// Warns once per process when a convolution of the whole grid is one of the shapes above and the processor has AMX:
/// the sharded layer is right there, and the serial one is not. @param whole the shape of the whole input
void warn_of_wrong_serial_layer(std::string const& layer, torch::Tensor const& whole, torch::Tensor const& weight,
                                Windows const& windows);

}  // namespace graticule::nn::detail
