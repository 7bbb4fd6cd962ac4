// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

namespace graticule::nn {

namespace detail {
struct Like;
class UnpoolState;
}  // namespace detail

/// LibTorch's `max_unpool` of shards: places maxima where `MaxPool` of the same windows found them, and zeros
/// elsewhere.
///
/// Indices refer to the whole field, as returned by `MaxPool::forward_with_indices`. Output row o belongs to the rank
/// of input row clamp(floor((o + padding - (kernel - 1) / 2) / stride)), or `forward_like` takes the cuts of another
/// field, usually the pooled one. Shapes as for `MaxPool`. Differentiable to any order.
/// Cost: two small all-reduces, the messages of maxima and indices, and a pass over the output.
template <std::size_t D>
class MaxUnpoolImpl : public detail::StatefulModule<MaxUnpoolImpl<D>, detail::UnpoolState> {
 public:
  /// @throws `BadOption` for kernels or strides below 1
  MaxUnpoolImpl(torch::nn::MaxUnpoolOptions<D> const& options, Domain domain);

  /// The output extent per axis is (N - 1) stride - 2 padding + kernel. Collective. @param x this rank's maxima
  /// @param indices int64, of the sizes of `x`
  /// @throws `OutOfRange` for an index outside its window, `KernelTooLarge` if no output remains,
  /// `LongitudeIsCut`, `ShapeMismatch`, `StructureDisagreement`, `CallDisagreement`, on
  ///         all ranks alike
  torch::Tensor forward(torch::Tensor const& x, torch::Tensor const& indices);

  /// The same with the global sizes and cuts of `like`; see `Resize::forward_like`.
  /// @throws `BadOption` for sizes that differ by more than a stride from those of `forward`
  torch::Tensor forward_like(torch::Tensor const& x, torch::Tensor const& indices, torch::Tensor const& like);

 private:
  torch::Tensor unpooled(torch::Tensor const& x, torch::Tensor const& indices, detail::Like const& like);
};

extern template class MaxUnpoolImpl<1>;
extern template class MaxUnpoolImpl<2>;
extern template class MaxUnpoolImpl<3>;

using MaxUnpool1dImpl = MaxUnpoolImpl<1>;
using MaxUnpool2dImpl = MaxUnpoolImpl<2>;
using MaxUnpool3dImpl = MaxUnpoolImpl<3>;
TORCH_MODULE(MaxUnpool1d);
TORCH_MODULE(MaxUnpool2d);
TORCH_MODULE(MaxUnpool3d);

}  // namespace graticule::nn
