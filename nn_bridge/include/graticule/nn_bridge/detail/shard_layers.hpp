// SPDX-License-Identifier: BSD-3-Clause
// The sharded counterparts of LibTorch's layers: a `Counterpart` for each.
#pragma once

#include <graticule/nn_bridge/detail/common_conv_options.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/model/shard.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/pooling/layers.hpp>
#include <graticule/nn_bridge/stencil/conv1d.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/conv3d.hpp>
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>
#include <graticule/nn_bridge/stencil/padding.hpp>
#include <graticule/nn_bridge/stencil/pixel_shuffle.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include <ATen/CPUGeneratorImpl.h>

#include <type_traits>

namespace graticule::nn::detail {

/// Arguments of a counterpart in addition to its serial layer.
struct ShardContext {
  Domain domain;
  Padding padding = Padding::by_mode;
  Sharding sharding;
  std::optional<Comm> data_team;
  RandomOptions random;
};

/// Keeps the random state: a counterpart fills parameters of its own before it is given those of the serial layer.
class KeptRandomState {
 public:
  KeptRandomState() : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  KeptRandomState(KeptRandomState const&) = delete;
  KeptRandomState& operator=(KeptRandomState const&) = delete;
  ~KeptRandomState() { generator_.set_state(state_); }

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

template <class Serial>
struct Counterpart;

template <std::size_t D>
struct ConvCounterpart {
  static auto make(torch::nn::detail::ConvNdOptions<D> const& o, ShardContext const& context) {
    using Options = torch::nn::ConvOptions<D>;
    auto const options =
        with_common_options(Options(o.in_channels(), o.out_channels(), o.kernel_size()), o).padding(o.padding());
    return std::make_shared<ConvImpl<D>>(ConvOptions<D>(options, context.padding), context.domain);
  }
};
template <>
struct Counterpart<torch::nn::Conv1dImpl> : ConvCounterpart<1> {};
template <>
struct Counterpart<torch::nn::Conv2dImpl> : ConvCounterpart<2> {};
template <>
struct Counterpart<torch::nn::Conv3dImpl> : ConvCounterpart<3> {};

template <std::size_t D>
struct ConvTransposeCounterpart {
  static auto make(torch::nn::detail::ConvNdOptions<D> const& o, ShardContext const& context) {
    using Options = torch::nn::ConvTransposeOptions<D>;
    auto const options = with_common_options(Options(o.in_channels(), o.out_channels(), o.kernel_size()), o)
                             .padding(std::get<torch::ExpandingArray<D>>(o.padding()))
                             .output_padding(o.output_padding());
    return std::make_shared<ConvTransposeImpl<D>>(ConvTransposeOptions<D>(options, context.padding), context.domain);
  }
};
template <>
struct Counterpart<torch::nn::ConvTranspose1dImpl> : ConvTransposeCounterpart<1> {};
template <>
struct Counterpart<torch::nn::ConvTranspose2dImpl> : ConvTransposeCounterpart<2> {};
template <>
struct Counterpart<torch::nn::ConvTranspose3dImpl> : ConvTransposeCounterpart<3> {};

/// Made from the serial layer's options and the domain.
template <class Sharded>
struct PlainCounterpart {
  template <class Options>
  static auto make(Options const& options, ShardContext const& context) {
    return std::make_shared<Sharded>(options, context.domain);
  }
};
template <>
struct Counterpart<torch::nn::InstanceNorm1dImpl> : PlainCounterpart<InstanceNorm1dImpl> {};
template <>
struct Counterpart<torch::nn::InstanceNorm2dImpl> : PlainCounterpart<InstanceNorm2dImpl> {};
template <>
struct Counterpart<torch::nn::InstanceNorm3dImpl> : PlainCounterpart<InstanceNorm3dImpl> {};
template <>
struct Counterpart<torch::nn::GroupNormImpl> : PlainCounterpart<GroupNormImpl> {};

template <class Sharded>
struct BatchNormCounterpart {
  static auto make(torch::nn::BatchNormOptions const& options, ShardContext const& context) {
    return std::make_shared<Sharded>(options, context.domain, context.data_team);
  }
};
template <>
struct Counterpart<torch::nn::BatchNorm1dImpl> : BatchNormCounterpart<BatchNorm1dImpl> {};
template <>
struct Counterpart<torch::nn::BatchNorm2dImpl> : BatchNormCounterpart<BatchNorm2dImpl> {};
template <>
struct Counterpart<torch::nn::BatchNorm3dImpl> : BatchNormCounterpart<BatchNorm3dImpl> {};

template <>
struct Counterpart<torch::nn::LayerNormImpl> {
  static auto make(torch::nn::LayerNormOptions const& options, ShardContext const& context) {
    return std::make_shared<LayerNormImpl>(options, context.domain, context.sharding);
  }
};

template <class Sharded>
struct DropoutCounterpart {
  static auto make(torch::nn::DropoutOptions const& options, ShardContext const& context) {
    if constexpr (std::is_constructible_v<Sharded, torch::nn::DropoutOptions, RandomOptions, Domain, Sharding>)
      return std::make_shared<Sharded>(options, context.random, context.domain, context.sharding);
    else
      return std::make_shared<Sharded>(options, context.random, context.domain);
  }
};
template <>
struct Counterpart<torch::nn::DropoutImpl> : DropoutCounterpart<DropoutImpl> {};
template <>
struct Counterpart<torch::nn::Dropout2dImpl> : DropoutCounterpart<Dropout2dImpl> {};
template <>
struct Counterpart<torch::nn::Dropout3dImpl> : DropoutCounterpart<Dropout3dImpl> {};
template <>
struct Counterpart<torch::nn::AlphaDropoutImpl> : DropoutCounterpart<AlphaDropoutImpl> {};

/// LibTorch's, which throws for tensors without cells.
struct LocalResponse : torch::nn::Module {
  explicit LocalResponse(torch::nn::LocalResponseNormOptions const& options) : norm(options) {}
  torch::Tensor forward(torch::Tensor const& x) { return x.numel() > 0 ? norm(x) : x * 1; }

  torch::nn::LocalResponseNorm norm;
};
template <>
struct Counterpart<torch::nn::LocalResponseNormImpl> {
  static auto make(torch::nn::LocalResponseNormOptions const& options, ShardContext const& /*context*/) {
    return std::make_shared<LocalResponse>(options);
  }
};

template <>
struct Counterpart<torch::nn::PixelShuffleImpl> : PlainCounterpart<PixelShuffleImpl> {};
template <>
struct Counterpart<torch::nn::PixelUnshuffleImpl> : PlainCounterpart<PixelUnshuffleImpl> {};

/// A padding layer keeps its own mode at the edges of the globe.
template <std::size_t D>
struct PadCounterpart {
  template <class Options>
  static auto make(Options const& options, ShardContext const& context) {
    return std::make_shared<PadImpl<D>>(PadOptions<D>(options), context.domain);
  }
};
template <>
struct Counterpart<torch::nn::ZeroPad1dImpl> : PadCounterpart<1> {};
template <>
struct Counterpart<torch::nn::ZeroPad2dImpl> : PadCounterpart<2> {};
template <>
struct Counterpart<torch::nn::ZeroPad3dImpl> : PadCounterpart<3> {};
template <>
struct Counterpart<torch::nn::ConstantPad1dImpl> : PadCounterpart<1> {};
template <>
struct Counterpart<torch::nn::ConstantPad2dImpl> : PadCounterpart<2> {};
template <>
struct Counterpart<torch::nn::ConstantPad3dImpl> : PadCounterpart<3> {};
template <>
struct Counterpart<torch::nn::ReflectionPad1dImpl> : PadCounterpart<1> {};
template <>
struct Counterpart<torch::nn::ReflectionPad2dImpl> : PadCounterpart<2> {};
template <>
struct Counterpart<torch::nn::ReflectionPad3dImpl> : PadCounterpart<3> {};
template <>
struct Counterpart<torch::nn::ReplicationPad1dImpl> : PadCounterpart<1> {};
template <>
struct Counterpart<torch::nn::ReplicationPad2dImpl> : PadCounterpart<2> {};
template <>
struct Counterpart<torch::nn::ReplicationPad3dImpl> : PadCounterpart<3> {};

/// Made from options that include the source of padding.
template <class Sharded, class ShardedOptions>
struct PaddedCounterpart {
  template <class Options>
  static auto make(Options const& options, ShardContext const& context) {
    return std::make_shared<Sharded>(ShardedOptions(options, context.padding), context.domain);
  }
};
template <>
struct Counterpart<torch::nn::UpsampleImpl> : PaddedCounterpart<ResizeImpl, ResizeOptions> {};
template <>
struct Counterpart<torch::nn::MaxPool1dImpl>
    : PaddedCounterpart<MaxPool1dImpl, PoolOptions<torch::nn::MaxPool1dOptions>> {};
template <>
struct Counterpart<torch::nn::MaxPool2dImpl>
    : PaddedCounterpart<MaxPool2dImpl, PoolOptions<torch::nn::MaxPool2dOptions>> {};
template <>
struct Counterpart<torch::nn::MaxPool3dImpl>
    : PaddedCounterpart<MaxPool3dImpl, PoolOptions<torch::nn::MaxPool3dOptions>> {};
template <>
struct Counterpart<torch::nn::AvgPool1dImpl>
    : PaddedCounterpart<AvgPool1dImpl, PoolOptions<torch::nn::AvgPool1dOptions>> {};
template <>
struct Counterpart<torch::nn::AvgPool2dImpl>
    : PaddedCounterpart<AvgPool2dImpl, PoolOptions<torch::nn::AvgPool2dOptions>> {};
template <>
struct Counterpart<torch::nn::AvgPool3dImpl>
    : PaddedCounterpart<AvgPool3dImpl, PoolOptions<torch::nn::AvgPool3dOptions>> {};
template <>
struct Counterpart<torch::nn::LPPool1dImpl> : PaddedCounterpart<LPPool1dImpl, PoolOptions<torch::nn::LPPool1dOptions>> {
};
template <>
struct Counterpart<torch::nn::LPPool2dImpl> : PaddedCounterpart<LPPool2dImpl, PoolOptions<torch::nn::LPPool2dOptions>> {
};
template <>
struct Counterpart<torch::nn::LPPool3dImpl> : PaddedCounterpart<LPPool3dImpl, PoolOptions<torch::nn::LPPool3dOptions>> {
};
template <>
struct Counterpart<torch::nn::AdaptiveAvgPool1dImpl> : PlainCounterpart<AdaptiveAvgPool1dImpl> {};
template <>
struct Counterpart<torch::nn::AdaptiveAvgPool2dImpl> : PlainCounterpart<AdaptiveAvgPool2dImpl> {};
template <>
struct Counterpart<torch::nn::AdaptiveAvgPool3dImpl> : PlainCounterpart<AdaptiveAvgPool3dImpl> {};
template <>
struct Counterpart<torch::nn::AdaptiveMaxPool1dImpl> : PlainCounterpart<AdaptiveMaxPool1dImpl> {};
template <>
struct Counterpart<torch::nn::AdaptiveMaxPool2dImpl> : PlainCounterpart<AdaptiveMaxPool2dImpl> {};
template <>
struct Counterpart<torch::nn::AdaptiveMaxPool3dImpl> : PlainCounterpart<AdaptiveMaxPool3dImpl> {};

template <class Serial>
concept HasWeight = requires(Serial s) {
  s.weight;
  s.bias;
};
template <class Serial>
concept HasRunningStatistics = requires(Serial s) {
  s.running_mean;
  s.num_batches_tracked;
};

/// Gives a counterpart the state of its serial layer: the same tensors.
template <class Serial, class Sharded>
void share(Serial& serial, Sharded& sharded) {
  if constexpr (HasWeight<Serial>) {
    sharded.weight = serial.weight;
    sharded.bias = serial.bias;
  }
  if constexpr (HasRunningStatistics<Serial>) {
    sharded.running_mean = serial.running_mean;
    sharded.running_var = serial.running_var;
    sharded.num_batches_tracked = serial.num_batches_tracked;
  }
  if (sharded.is_training() != serial.is_training()) sharded.train(serial.is_training());
}

}  // namespace graticule::nn::detail
