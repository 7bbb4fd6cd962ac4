// SPDX-License-Identifier: BSD-3-Clause
// The layers of LibTorch that `shard` knows, and how the sharded counterpart of each is made.
#pragma once

#include <graticule/nn_bridge/detail/shard_layers.hpp>
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

#include "stencil/conv_options.hpp"

#include <torch/torch.h>

#include <type_traits>

namespace graticule::nn::detail {

namespace tn = torch::nn;

/// Arguments of a counterpart in addition to its serial layer.
struct ShardContext {
  Domain domain;
  Padding padding = Padding::by_mode;
  Sharding sharding;
  std::optional<Comm> data_team;
  RandomOptions random;
};

template <std::size_t D>
struct OfConv {
  static auto make(tn::detail::ConvNdOptions<D> const& o, ShardContext const& context) {
    auto const options = with_common_options(tn::ConvOptions<D>(o.in_channels(), o.out_channels(), o.kernel_size()), o)
                             .padding(o.padding());
    return std::make_shared<ConvImpl<D>>(ConvOptions<D>(options, context.padding), context.domain);
  }
};

template <std::size_t D>
struct OfConvTranspose {
  static auto make(tn::detail::ConvNdOptions<D> const& o, ShardContext const& context) {
    using Options = tn::ConvTransposeOptions<D>;
    auto const options = with_common_options(Options(o.in_channels(), o.out_channels(), o.kernel_size()), o)
                             .padding(std::get<torch::ExpandingArray<D>>(o.padding()))
                             .output_padding(o.output_padding());
    return std::make_shared<ConvTransposeImpl<D>>(ConvTransposeOptions<D>(options, context.padding), context.domain);
  }
};

/// From the serial layer's options and the domain. A padding layer keeps its own mode at the edges of the globe.
template <class Sharded>
struct Plain {
  static auto make(auto const& options, ShardContext const& context) {
    return std::make_shared<Sharded>(options, context.domain);
  }
};

/// From options that include the source of padding.
template <class Sharded>
struct Padded {
  static auto make(auto const& options, ShardContext const& context) {
    if constexpr (std::is_same_v<Sharded, ResizeImpl>)
      return std::make_shared<Sharded>(ResizeOptions(options, context.padding), context.domain);
    else
      return std::make_shared<Sharded>(PoolOptions(options, context.padding), context.domain);
  }
};

template <class Sharded>
struct OfBatchNorm {
  static auto make(auto const& options, ShardContext const& context) {
    return std::make_shared<Sharded>(options, context.domain, context.data_team);
  }
};

struct OfLayerNorm {
  static auto make(auto const& options, ShardContext const& context) {
    return std::make_shared<LayerNormImpl>(options, context.domain, context.sharding);
  }
};

template <class Sharded>
struct OfDropout {
  static auto make(auto const& options, ShardContext const& context) {
    if constexpr (std::is_constructible_v<Sharded, tn::DropoutOptions, RandomOptions, Domain, Sharding>)
      return std::make_shared<Sharded>(options, context.random, context.domain, context.sharding);
    else
      return std::make_shared<Sharded>(options, context.random, context.domain);
  }
};

struct OfLocalResponse {
  static auto make(auto const& options, ShardContext const& /*context*/) {
    return std::make_shared<LocalResponse>(options);
  }
};

template <class... Types>
struct TypeList {};

/// A layer of LibTorch, and what makes its counterpart.
template <class Holder, class Maker>
struct Known {
  using Serial = typename Holder::ContainedType;
  using Make = Maker;
};

using KnownTypes =
    TypeList<Known<tn::Conv1d, OfConv<1>>, Known<tn::Conv2d, OfConv<2>>, Known<tn::Conv3d, OfConv<3>>,
             Known<tn::ConvTranspose1d, OfConvTranspose<1>>, Known<tn::ConvTranspose2d, OfConvTranspose<2>>,
             Known<tn::ConvTranspose3d, OfConvTranspose<3>>, Known<tn::BatchNorm1d, OfBatchNorm<BatchNorm1dImpl>>,
             Known<tn::BatchNorm2d, OfBatchNorm<BatchNorm2dImpl>>, Known<tn::BatchNorm3d, OfBatchNorm<BatchNorm3dImpl>>,
             Known<tn::InstanceNorm1d, Plain<InstanceNorm1dImpl>>, Known<tn::InstanceNorm2d, Plain<InstanceNorm2dImpl>>,
             Known<tn::InstanceNorm3d, Plain<InstanceNorm3dImpl>>, Known<tn::GroupNorm, Plain<GroupNormImpl>>,
             Known<tn::LayerNorm, OfLayerNorm>, Known<tn::MaxPool1d, Padded<MaxPool1dImpl>>,
             Known<tn::MaxPool2d, Padded<MaxPool2dImpl>>, Known<tn::MaxPool3d, Padded<MaxPool3dImpl>>,
             Known<tn::AvgPool1d, Padded<AvgPool1dImpl>>, Known<tn::AvgPool2d, Padded<AvgPool2dImpl>>,
             Known<tn::AvgPool3d, Padded<AvgPool3dImpl>>, Known<tn::LPPool1d, Padded<LPPool1dImpl>>,
             Known<tn::LPPool2d, Padded<LPPool2dImpl>>, Known<tn::LPPool3d, Padded<LPPool3dImpl>>,
             Known<tn::AdaptiveAvgPool1d, Plain<AdaptiveAvgPool1dImpl>>,
             Known<tn::AdaptiveAvgPool2d, Plain<AdaptiveAvgPool2dImpl>>,
             Known<tn::AdaptiveAvgPool3d, Plain<AdaptiveAvgPool3dImpl>>,
             Known<tn::AdaptiveMaxPool1d, Plain<AdaptiveMaxPool1dImpl>>,
             Known<tn::AdaptiveMaxPool2d, Plain<AdaptiveMaxPool2dImpl>>,
             Known<tn::AdaptiveMaxPool3d, Plain<AdaptiveMaxPool3dImpl>>, Known<tn::Upsample, Padded<ResizeImpl>>,
             Known<tn::PixelShuffle, Plain<PixelShuffleImpl>>, Known<tn::PixelUnshuffle, Plain<PixelUnshuffleImpl>>,
             Known<tn::ZeroPad1d, Plain<Pad1dImpl>>, Known<tn::ZeroPad2d, Plain<Pad2dImpl>>,
             Known<tn::ZeroPad3d, Plain<Pad3dImpl>>, Known<tn::ConstantPad1d, Plain<Pad1dImpl>>,
             Known<tn::ConstantPad2d, Plain<Pad2dImpl>>, Known<tn::ConstantPad3d, Plain<Pad3dImpl>>,
             Known<tn::ReflectionPad1d, Plain<Pad1dImpl>>, Known<tn::ReflectionPad2d, Plain<Pad2dImpl>>,
             Known<tn::ReflectionPad3d, Plain<Pad3dImpl>>, Known<tn::ReplicationPad1d, Plain<Pad1dImpl>>,
             Known<tn::ReplicationPad2d, Plain<Pad2dImpl>>, Known<tn::ReplicationPad3d, Plain<Pad3dImpl>>,
             Known<tn::Dropout, OfDropout<DropoutImpl>>, Known<tn::Dropout2d, OfDropout<Dropout2dImpl>>,
             Known<tn::Dropout3d, OfDropout<Dropout3dImpl>>, Known<tn::AlphaDropout, OfDropout<AlphaDropoutImpl>>,
             Known<tn::LocalResponseNorm, OfLocalResponse>>;

/// Gives a counterpart the state of its serial layer: the same tensors.
template <class Serial, class Sharded>
void share(Serial& serial, Sharded& sharded) {
  if constexpr (requires { serial.weight; }) {
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
