// SPDX-License-Identifier: BSD-3-Clause
#include "convolution.hpp"

#include <graticule/nn_bridge/detail/types.hpp>

#include "conv_geometry.hpp"
#include "pointwise.hpp"

#include <algorithm>
#include <initializer_list>

namespace graticule::nn::detail {

namespace {

/// All shapes seen to be wrong have at most so many output columns.
constexpr Index few_outputs = 4;

bool has_amx() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("amx-bf16") != 0;
#else
  return false;
#endif
}

torch::Tensor in_f32(torch::Tensor const& x) { return x.defined() ? x.to(torch::kFloat) : x; }

std::optional<torch::Tensor> optional(torch::Tensor const& bias) {
  return bias.defined() ? std::optional(bias) : std::nullopt;
}

torch::Tensor libtorch_convolution(torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias,
                                   Windows const& w) {
  return at::convolution(x, weight, optional(bias), w.stride, w.padding, w.dilation, w.transposed, w.output_padding,
                         w.groups);
}

bool records(std::initializer_list<torch::Tensor> tensors) {
  return torch::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](torch::Tensor const& tensor) {
           return tensor.defined() && tensor.requires_grad();
         });
}

/// Where the innermost axis of more than one cell has few outputs. Strides longer than the kernel are common on wide
/// grids (1 x 1, stride 2) and cost elsewhere, so they count where there is AMX only.
bool is_unsafe(at::IntArrayRef x, at::IntArrayRef weight, Windows const& w) {
  bool innermost = true;
  for (std::size_t i = w.stride.size(); i-- > 0;) {
    auto const extent = x[i + 2];
    auto const kernel = weight[i + 2];
    if (w.stride[i] > kernel && has_amx()) return true;
    if (w.stride[i] > 1 && innermost) {
      auto const read = extent + 2 * w.padding[i] - w.dilation[i] * (kernel - 1) - 1;
      // The backward of a transposed convolution is a convolution to its inputs.
      if ((w.transposed ? extent : floor_div(read, w.stride[i]) + 1) <= few_outputs) return true;
    }
    // oneDNN removes axes of one cell.
    innermost = innermost && extent == 1;
  }
  return false;
}

}  // namespace

bool needs_f32(torch::Tensor const& x, torch::Tensor const& weight, Windows const& windows) {
  return x.is_cpu() && is_narrow(x.scalar_type()) && is_unsafe(x.sizes(), weight.sizes(), windows);
}

torch::Tensor convolution(torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias,
                          Windows const& windows) {
  if (is_pointwise(x, weight, windows) && !records({x, weight, bias})) return pointwise(x, weight, bias);
  if (!needs_f32(x, weight, windows)) return libtorch_convolution(x, weight, bias, windows);
  return libtorch_convolution(in_f32(x), in_f32(weight), in_f32(bias), windows).to(x.scalar_type());
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> convolution_backward(torch::Tensor const& grad,
                                                                             torch::Tensor const& x,
                                                                             torch::Tensor const& weight,
                                                                             Windows const& w,
                                                                             std::array<bool, 3> const& wanted) {
  if (is_pointwise(x, weight, w) && !records({grad, x, weight})) return pointwise_backward(grad, x, weight, wanted);
  std::int64_t const channels = w.transposed ? weight.size(1) * w.groups : weight.size(0);
  auto const backward = [&](torch::Tensor const& g, torch::Tensor const& input, torch::Tensor const& kernels) {
    return at::convolution_backward(g, input, kernels, at::IntArrayRef(&channels, 1), w.stride, w.padding, w.dilation,
                                    w.transposed, w.output_padding, w.groups, wanted);
  };
  if (!needs_f32(x, weight, w)) return backward(grad, x, weight);
  auto const rounded = [&](torch::Tensor const& y) { return y.defined() ? y.to(x.scalar_type()) : y; };
  auto const [input_grad, weight_grad, bias_grad] = backward(in_f32(grad), in_f32(x), in_f32(weight));
  return {rounded(input_grad), rounded(weight_grad), rounded(bias_grad)};
}

void warn_of_wrong_serial_layer(std::string const& layer, torch::Tensor const& whole, torch::Tensor const& weight,
                                Windows const& windows) {
  if (!has_amx() || !needs_f32(whole, weight, windows)) return;
  TORCH_WARN_ONCE(layer, " of ", whole.scalar_type(), " on a whole grid of ", whole.size(-2), " x ", whole.size(-1),
                  " cells: LibTorch's own strided convolutions to so few columns can be wrong on this processor (AMX; "
                  "PyTorch issue 169688). The sharded layer computes them in f32; a serial model does not.");
}

}  // namespace graticule::nn::detail
