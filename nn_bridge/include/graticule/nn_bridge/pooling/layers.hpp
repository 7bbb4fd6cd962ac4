// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace graticule::nn {

// LibTorch's pooling of fields that are sharded over latitude and longitude. For any cuts, outputs, gradients and
// indices equal the serial ones: strides, padding, dilation, `ceil_mode` and divisors refer to the whole globe.
//
// 2d layers take [batch, channels, rows, columns], 3d layers [batch, channels, levels, rows, columns] with whole
// levels, 1d layers [batch, channels, length] with the length cut along latitude. The batch axis is optional. The rank
// that owns the center of a window owns its output: output row o belongs to the rank of input row clamp(o * stride -
// padding + (dilation * (kernel - 1)) / 2). A rank may hold no rows, or receive none. Outputs are differentiable to any
// order. Constructors take the options and the domain, and throw `BadHaloWidth` for padding of more than half a window,
// `BadOption` for kernels, strides, dilations or sizes below 1, `BadBoundary` for `odd_channels` without
// `Padding::by_domain`. Forwards are collective and throw `ShapeMismatch`, `KernelTooLarge`, `LongitudeIsCut`
// (lengths), `StructureDisagreement`, `CallDisagreement`, on all ranks alike. Cost: one small all-reduce and the
// messages; no messages if every window lies within a shard, as for 2 x 2 windows on shards of even sizes.

/// Options of LibTorch's layer, and the source of padding values.
template <class Torch>
struct PoolOptions {
  PoolOptions(Torch torch_options, Padding padding_by = Padding::by_mode)
      : pool(std::move(torch_options)), padding(padding_by) {}

  Torch pool;
  /// `by_mode`: as in LibTorch, windows that reach beyond the globe are truncated. `by_domain`: they are whole and read
  /// the cells there (periodic longitude, across poles). Levels always follow the mode.
  Padding padding = Padding::by_mode;
  /// With `Padding::by_domain`: channels that hold components of a horizontal vector, see `HaloExchangeOptions`.
  std::vector<std::int64_t> odd_channels = {};
};

namespace detail {

class WindowPool;
class AdaptiveMax;
class AreaResize;

/// LibTorch's sizes: one for all axes, or an optional one per axis; an axis without a size keeps the input's.
template <std::size_t D>
using AdaptiveSizes = std::conditional_t<D == 1, torch::ExpandingArray<1>,
                                         torch::ExpandingArrayWithOptionalElem<std::max<std::size_t>(D, 2)>>;

/// Common part of pooling modules: options, and the implementation `Core`.
template <class Derived, class Options, class Core>
class PoolModule : public StatefulModule<Derived, Core> {
 public:
  PoolModule(Options options, Domain domain);

 protected:
  Options options_;
};

/// The same for windows. @tparam Torch LibTorch's options
template <class Derived, class Torch>
using WindowPoolModule = PoolModule<Derived, PoolOptions<Torch>, WindowPool>;

}  // namespace detail

/// The maximum of each window.
template <std::size_t D>
class MaxPoolImpl : public detail::WindowPoolModule<MaxPoolImpl<D>, torch::nn::MaxPoolOptions<D>> {
  using Base = detail::WindowPoolModule<MaxPoolImpl<D>, torch::nn::MaxPoolOptions<D>>;

 public:
  using Base::Base;
  torch::Tensor forward(torch::Tensor const& x);
  /// @returns also the flat index of each maximum in the whole field: row * columns + column, in 3d preceded by the
  /// level. Among equal values it is the same as LibTorch's. @throws `BadBoundary` with `Padding::by_domain`
  std::tuple<torch::Tensor, torch::Tensor> forward_with_indices(torch::Tensor const& x);
};

/// The mean of each window.
template <std::size_t D>
class AvgPoolImpl : public detail::WindowPoolModule<AvgPoolImpl<D>, torch::nn::AvgPoolOptions<D>> {
  using Base = detail::WindowPoolModule<AvgPoolImpl<D>, torch::nn::AvgPoolOptions<D>>;

 public:
  using Base::Base;
  torch::Tensor forward(torch::Tensor const& x);
};

/// (sum over the window of x^p)^(1/p), as LibTorch computes it.
template <std::size_t D>
class LPPoolImpl : public detail::WindowPoolModule<LPPoolImpl<D>, torch::nn::LPPoolOptions<D>> {
  using Base = detail::WindowPoolModule<LPPoolImpl<D>, torch::nn::LPPoolOptions<D>>;

 public:
  using Base::Base;
  torch::Tensor forward(torch::Tensor const& x);
};

/// Options are LibTorch's own, as `torch::nn::AdaptiveAvgPool2dOptions`; an axis without a size keeps the input's.
/// Output row o of M is the mean of input rows floor(o N / M) to ceil((o + 1) N / M). This is the area mode of
/// `Resize`, with the same owners. A window over the whole globe gathers the field on one rank: compute global means by
/// `GlobalMean` instead.
template <std::size_t D>
class AdaptiveAvgPoolImpl : public detail::StatefulModule<AdaptiveAvgPoolImpl<D>, detail::AreaResize> {
 public:
  AdaptiveAvgPoolImpl(torch::nn::AdaptiveAvgPoolOptions<detail::AdaptiveSizes<D>> const& options, Domain domain);

  torch::Tensor forward(torch::Tensor const& x);
};

/// The maximum of the same windows, with the same options and owners.
template <std::size_t D>
class AdaptiveMaxPoolImpl
    : public detail::PoolModule<AdaptiveMaxPoolImpl<D>, torch::nn::AdaptiveMaxPoolOptions<detail::AdaptiveSizes<D>>,
                                detail::AdaptiveMax> {
  using Base = detail::PoolModule<AdaptiveMaxPoolImpl<D>, torch::nn::AdaptiveMaxPoolOptions<detail::AdaptiveSizes<D>>,
                                  detail::AdaptiveMax>;

 public:
  using Base::Base;
  torch::Tensor forward(torch::Tensor const& x);
  /// See `MaxPool`.
  std::tuple<torch::Tensor, torch::Tensor> forward_with_indices(torch::Tensor const& x);
};

using MaxPool1dImpl = MaxPoolImpl<1>;
TORCH_MODULE(MaxPool1d);
using MaxPool2dImpl = MaxPoolImpl<2>;
TORCH_MODULE(MaxPool2d);
using MaxPool3dImpl = MaxPoolImpl<3>;
TORCH_MODULE(MaxPool3d);

using AvgPool1dImpl = AvgPoolImpl<1>;
TORCH_MODULE(AvgPool1d);
using AvgPool2dImpl = AvgPoolImpl<2>;
TORCH_MODULE(AvgPool2d);
using AvgPool3dImpl = AvgPoolImpl<3>;
TORCH_MODULE(AvgPool3d);

using LPPool1dImpl = LPPoolImpl<1>;
TORCH_MODULE(LPPool1d);
using LPPool2dImpl = LPPoolImpl<2>;
TORCH_MODULE(LPPool2d);
using LPPool3dImpl = LPPoolImpl<3>;
TORCH_MODULE(LPPool3d);

using AdaptiveAvgPool1dImpl = AdaptiveAvgPoolImpl<1>;
TORCH_MODULE(AdaptiveAvgPool1d);
using AdaptiveAvgPool2dImpl = AdaptiveAvgPoolImpl<2>;
TORCH_MODULE(AdaptiveAvgPool2d);
using AdaptiveAvgPool3dImpl = AdaptiveAvgPoolImpl<3>;
TORCH_MODULE(AdaptiveAvgPool3d);

using AdaptiveMaxPool1dImpl = AdaptiveMaxPoolImpl<1>;
TORCH_MODULE(AdaptiveMaxPool1d);
using AdaptiveMaxPool2dImpl = AdaptiveMaxPoolImpl<2>;
TORCH_MODULE(AdaptiveMaxPool2d);
using AdaptiveMaxPool3dImpl = AdaptiveMaxPoolImpl<3>;
TORCH_MODULE(AdaptiveMaxPool3d);

}  // namespace graticule::nn
