// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace graticule::nn {

namespace detail {
struct Like;
class TransposedState;
}  // namespace detail

/// LibTorch's options and those of the globe.
template <std::size_t D>
struct ConvTransposeOptions {
  ConvTransposeOptions(torch::nn::ConvTransposeOptions<D> torch_options, Padding padding_by = Padding::by_mode)
      : conv(std::move(torch_options)), padding(padding_by) {}

  torch::nn::ConvTransposeOptions<D> conv;  ///< kernel, stride, padding, output padding, dilation, groups, bias
  /// The cells beyond the edges: none, as in LibTorch, or the domain's cells, whose products contribute to the output.
  /// An output of stride times the columns is then periodic. Levels always end at their edge.
  Padding padding = Padding::by_mode;
  /// With `Padding::by_domain`: input channels that hold components of a horizontal vector, see `ConvOptions`.
  std::vector<std::int64_t> odd_channels = {};
};

/// LibTorch's transposed convolution of a field that is sharded over latitude and longitude. For any cuts, output and
/// gradients equal the serial ones, and parameters have the same names and shapes.
///
/// Input cell i adds to outputs i * stride - padding + dilation * j, j < kernel. Shapes as for `ConvImpl`. Output row o
/// belongs to the rank of input row clamp(floor((o + padding - (dilation * (kernel - 1)) / 2) / stride)), so that
/// stride s with M = s N places s output rows on the rank of each input row. A rank may hold no rows, or receive none.
/// Differentiable to any order. Weight gradients are partial sums: reduce them by `GradientSync`.
/// Cost: one small all-reduce, the messages, and a copy of the needed inputs.
template <std::size_t D>
class ConvTransposeImpl : public detail::StatefulModule<ConvTransposeImpl<D>, detail::TransposedState,
                                                        torch::nn::ConvTransposeNdImpl<D, ConvTransposeImpl<D>>> {
 public:
  /// @throws `BadBoundary`, `Unsupported` for modes other than zeros, which LibTorch lacks as well,
  ///         `BadOption` for strides or dilations below 1 and output padding beyond both
  ConvTransposeImpl(ConvTransposeOptions<D> const& options, Domain domain);

  /// Collective. @param x this rank's shard
  /// @throws `KernelTooLarge` if no output remains, `LongitudeIsCut`, `ShapeMismatch`, `StructureDisagreement`,
  ///         `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// The same with the global sizes and cuts of `like` (see `Resize::forward_like`), which determine the output
  /// padding.
  /// @throws `BadOption` for sizes that no output padding less than stride or dilation yields
  torch::Tensor forward_like(torch::Tensor const& x, torch::Tensor const& like);

 private:
  torch::Tensor convolved(torch::Tensor const& x, detail::Like const& like);
  void check(torch::Tensor const& x) const;

  Padding padding_by_;
  std::vector<std::int64_t> odd_channels_;
};

extern template class ConvTransposeImpl<1>;
extern template class ConvTransposeImpl<2>;
extern template class ConvTransposeImpl<3>;

using ConvTranspose1dImpl = ConvTransposeImpl<1>;
using ConvTranspose2dImpl = ConvTransposeImpl<2>;
using ConvTranspose3dImpl = ConvTransposeImpl<3>;
TORCH_MODULE(ConvTranspose1d);
TORCH_MODULE(ConvTranspose2d);
TORCH_MODULE(ConvTranspose3d);

}  // namespace graticule::nn
