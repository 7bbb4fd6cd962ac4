// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include "options.hpp"
#include "shards.hpp"
#include "timing.hpp"

namespace graticule::bench {

void run_layer(app::Context& context, Options const& options) {
  Shards const shards(context, options);
  auto const channels = shards.channels;
  auto const& domain = shards.domain;
  auto const conv_options = torch::nn::Conv2dOptions(channels, channels, 3).padding(1);
  nn::Conv2d sharded(nn::ConvOptions(conv_options, nn::Padding::by_domain), domain);
  nn::Conv2d zero_padded(conv_options, domain);
  torch::nn::Conv2d local(conv_options);
  nn::HaloExchange halo(nn::HaloExchangeOptions{{1, 1}, {1, 1}, {}}, domain);
  torch::nn::Conv2d unpadded(torch::nn::Conv2dOptions(channels, channels, 3));
  auto const x = shards.random().requires_grad_();
  auto const cotangent = shards.random();
  auto const step = [&](auto&& layer) {
    return [&, layer]() mutable {
      x.mutable_grad() = torch::Tensor();
      for (auto& parameter : layer->parameters()) parameter.mutable_grad() = torch::Tensor();
      layer(x).backward(cotangent);
    };
  };
  auto const concatenated = [&] {
    x.mutable_grad() = torch::Tensor();
    unpadded->zero_grad();
    unpadded(halo(x)).backward(cotangent);
  };
  show(context, "3x3 convolution, forward and backward, " + shards.size_text,
       interleave(context,
                  {{"local convolution, no exchange", step(local)},
                   {"Conv2d, poles and periodic longitude", step(sharded)},
                   {"Conv2d, zero padding", step(zero_padded)},
                   {"HaloExchange, then unpadded convolution", concatenated}},
                  options.timing));
}

}  // namespace graticule::bench
