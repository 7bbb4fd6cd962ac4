// SPDX-License-Identifier: BSD-3-Clause
#include "convolution.hpp"

#include <graticule/nn_bridge/detail/types.hpp>

#include "conv_geometry.hpp"

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

// Convolutions of single cells, which mix channels and nothing else, as products of matrices.
//
// LibTorch gives f64, and f32 on one thread, to `_slow_conv2d`, which copies the bias into the output before it adds
// the product, and whose backward writes the gradient of the input as columns and adds these to zeros; f32 on more
// threads goes to oneDNN. Here blocks of cells stay in the caches from one product to the next: 721 x 1440 cells in
// f32, 16 to 32 channels, take 0.63 of the time forward and 0.56 backward on one thread, 0.45 and 0.22 on two (AMD
// EPYC).

/// Inputs and outputs of a block, which a core's caches hold.
constexpr Index block_bytes = Index(512) << 10;

bool all_are(std::vector<std::int64_t> const& values, std::int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](auto v) { return v == value; });
}

/// Calls `work` with [channels, cells] of each of the tensors, for each block of cells of each sample.
template <std::size_t N, class Work>
void for_blocks(std::array<torch::Tensor, N> const& tensors, Work const& work) {
  auto const& first = tensors[0];
  Index const cells = first.numel() / (first.size(0) * first.size(1));
  Index channels = 0;
  for (auto const& tensor : tensors) channels += tensor.size(1);
  // Threads share the cells of a block.
  Index const size = std::max(Index(256), block_bytes * at::get_num_threads() / (channels * first.element_size()));
  for (Index sample = 0; sample < first.size(0); ++sample) {
    std::array<torch::Tensor, N> matrices;
    for (std::size_t i = 0; i < N; ++i) matrices[i] = tensors[i].select(0, sample).view({tensors[i].size(1), cells});
    for (Index at = 0; at < cells; at += size) {
      std::array<torch::Tensor, N> blocks;
      for (std::size_t i = 0; i < N; ++i) blocks[i] = matrices[i].narrow(1, at, std::min(size, cells - at));
      work(blocks);
    }
  }
}

/// [batch, channels, ...] like x.
torch::Tensor empty_of(torch::Tensor const& x, std::int64_t channels) {
  auto sizes = x.sizes().vec();
  sizes[1] = channels;
  return torch::empty(sizes, x.options().requires_grad(false));
}

torch::Tensor matrix_of(torch::Tensor const& weight) {
  return weight.detach().reshape({weight.size(0), weight.size(1)});
}

/// Kernels of one cell, stride 1, no padding, one group; in f32 and f64 on the CPU, channels before cells.
bool is_pointwise(torch::Tensor const& x, torch::Tensor const& weight, Windows const& w) {
  bool const plain =
      x.is_cpu() && weight.is_cpu() && x.layout() == torch::kStrided && weight.layout() == torch::kStrided;
  auto const type = x.scalar_type();
  return plain && (type == torch::kFloat || type == torch::kDouble) && weight.scalar_type() == type && !w.transposed &&
         w.groups == 1 && x.dim() == weight.dim() && x.size(1) == weight.size(1) && x.numel() > 0 &&
         weight.numel() == weight.size(0) * weight.size(1) && weight.numel() > 0 && all_are(w.stride, 1) &&
         all_are(w.padding, 0) && x.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

/// Not differentiable. @param bias may be undefined
torch::Tensor pointwise(torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias) {
  auto const y = empty_of(x, weight.size(0));
  auto const matrix = matrix_of(weight);
  auto const shift = bias.defined() ? bias.detach().unsqueeze(1) : bias;
  for_blocks<2>({x.detach().contiguous(), y}, [&](auto& blocks) {
    auto& [inputs, outputs] = blocks;
    if (shift.defined())
      at::addmm_out(outputs, shift, matrix, inputs);
    else
      at::mm_out(outputs, matrix, inputs);
  });
  return y;
}

/// Gradients of input, weight and bias, those that are wanted; not differentiable.
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> pointwise_backward(torch::Tensor const& grad,
                                                                           torch::Tensor const& x,
                                                                           torch::Tensor const& weight,
                                                                           std::array<bool, 3> const& wanted) {
  auto const transposed = matrix_of(weight).t();
  auto const input_grad = wanted[0] ? empty_of(x, x.size(1)) : torch::Tensor();
  auto const weight_grad = wanted[1] ? torch::zeros({weight.size(0), weight.size(1)}, grad.options()) : torch::Tensor();
  auto const bias_grad = wanted[2] ? torch::zeros({weight.size(0)}, grad.options()) : torch::Tensor();
  auto const inputs = x.detach().contiguous();
  for_blocks<3>({grad.detach().contiguous(), inputs, wanted[0] ? input_grad : inputs}, [&](auto& blocks) {
    auto& [g, x_block, input_grad_block] = blocks;
    if (wanted[0]) at::mm_out(input_grad_block, transposed, g);
    if (wanted[1]) weight_grad.addmm_(g, x_block.t());
    if (wanted[2]) bias_grad.add_(g.sum(1));
  });
  return {input_grad, wanted[1] ? weight_grad.view(weight.sizes()) : weight_grad, bias_grad};
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
