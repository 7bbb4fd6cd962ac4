// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>

namespace graticule::nn {

namespace detail {
class UnpoolState;
}

/// LibTorch's `max_unpool` of shards: puts maxima back where `MaxPool` of the same windows found them, zeros elsewhere.
///
/// Indices are those of the whole field, as `MaxPool::forward_with_indices` gives them. Output row o belongs to the rank of
/// input row clamp(floor((o + padding - (kernel - 1) / 2) / stride)), or has the cuts of another field: as a rule that
/// which was pooled. Shapes as for `MaxPool`. Differentiable to any order.
/// Cost: two small all-reduces, the messages of maxima and indices, and a pass over the output.
template <std::size_t D>
class MaxUnpoolImpl : public detail::StatefulModule<MaxUnpoolImpl<D>, detail::UnpoolState> {
 public:
  /// @throws `BadWindow` for kernels or strides below 1
  MaxUnpoolImpl(torch::nn::MaxUnpoolOptions<D> const& options, Domain domain);

  /// To (N - 1) stride - 2 padding + kernel cells along each axis. Collective.
  /// @param indices int64, of the sizes of `x`
  /// @throws `IndexOutsideWindow` for an index that its window does not hold, `KernelTooLarge` where no output is left,
  ///         `LongitudeIsCut`, `ShapeMismatch`, `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`,
  ///         on all ranks alike
  torch::Tensor forward(torch::Tensor const& x, torch::Tensor const& indices);

  /// With the global sizes and the cuts of `like`, see `Resize::forward_like`.
  /// @throws `BadOutputSize` for sizes more than a stride away from those of `forward`
  torch::Tensor forward_like(torch::Tensor const& x, torch::Tensor const& indices, torch::Tensor const& like);

 private:
  torch::Tensor unpooled(torch::Tensor const& x, torch::Tensor const& indices, Layout const* like,
                         std::int64_t like_levels);
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
