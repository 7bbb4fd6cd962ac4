// SPDX-License-Identifier: BSD-3-Clause
#include "pointwise.hpp"

#include <graticule/partition/indices.hpp>

#include <algorithm>

namespace graticule::nn::detail {

namespace {

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

}  // namespace

bool is_pointwise(torch::Tensor const& x, torch::Tensor const& weight, Windows const& w) {
  bool const plain =
      x.is_cpu() && weight.is_cpu() && x.layout() == torch::kStrided && weight.layout() == torch::kStrided;
  auto const type = x.scalar_type();
  return plain && (type == torch::kFloat || type == torch::kDouble) && weight.scalar_type() == type && !w.transposed &&
         w.groups == 1 && x.dim() == weight.dim() && x.size(1) == weight.size(1) && x.numel() > 0 &&
         weight.numel() == weight.size(0) * weight.size(1) && weight.numel() > 0 && all_are(w.stride, 1) &&
         all_are(w.padding, 0) && x.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

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

}  // namespace graticule::nn::detail
