// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/collective/feature_split.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn {

/// A convolution whose channels are cut over the ranks of a domain; each rank holds the whole horizontal field.
///
/// Options and parameters are LibTorch's; every rank holds whole parameters, as for `Linear`. Padding follows the
/// padding mode.
/// Example: 12 channels of 241 x 480 cells on 4 ranks, `FeatureSplit::input`: each rank passes 3 channels and receives
/// all outputs.
template <std::size_t D>
class ChannelSplitConvImpl : public detail::StatefulModule<ChannelSplitConvImpl<D>, detail::SplitLayer,
                                                           torch::nn::ConvNdImpl<D, ChannelSplitConvImpl<D>>> {
 public:
  /// Collective. @throws `Unsupported` for several groups; otherwise as `Linear`
  ChannelSplitConvImpl(torch::nn::ConvOptions<D> const& options, SplitOptions const& split, Domain const& domain);

  /// Collective. @param x [batch, channels, (levels,) rows, columns] with this rank's channels; all channels for
  /// `output`
  /// @throws `ShapeMismatch`, `KernelTooLarge`, `BadHaloWidth`, and as `Linear`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

 private:
  void check(torch::Tensor const& x) const;
  /// The convolution with some channels of the kernels.
  [[nodiscard]] torch::Tensor local(torch::Tensor const& x, torch::Tensor const& kernels,
                                    torch::Tensor const& shifts) const;

  std::vector<std::int64_t> pads_;  ///< lower and upper, last axis first
};

extern template class ChannelSplitConvImpl<1>;
extern template class ChannelSplitConvImpl<2>;
extern template class ChannelSplitConvImpl<3>;

using ChannelSplitConv1dImpl = ChannelSplitConvImpl<1>;
using ChannelSplitConv2dImpl = ChannelSplitConvImpl<2>;
using ChannelSplitConv3dImpl = ChannelSplitConvImpl<3>;
TORCH_MODULE(ChannelSplitConv1d);
TORCH_MODULE(ChannelSplitConv2d);
TORCH_MODULE(ChannelSplitConv3d);

}  // namespace graticule::nn
