// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/conv2d.hpp>
#include <graticule/nn_bridge/halo_exchange.hpp>
#include <graticule/partition/cuts.hpp>

#include "options.hpp"
#include "timing.hpp"

namespace graticule::bench {

void run_layer(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  torch::set_num_threads(context.num_threads);
  torch::manual_seed(1);
  Index const channels = options.num_channels ? options.num_channels : 8;
  auto const rows = balanced_cuts(options.num_rows, comm.num_ranks()).size(comm.rank());
  nn::Domain const domain(comm, bands(comm));
  auto const conv_options = torch::nn::Conv2dOptions(channels, channels, 3).padding(1);
  nn::Conv2d sharded(nn::Conv2dOptions(conv_options, nn::Padding::by_domain), domain);
  nn::Conv2d zero_padded(conv_options, domain);
  torch::nn::Conv2d local(conv_options);
  nn::HaloExchange halo(nn::HaloExchangeOptions{{1, 1}, {1, 1}, {}}, domain);
  torch::nn::Conv2d unpadded(torch::nn::Conv2dOptions(channels, channels, 3));
  auto const x = torch::randn({1, channels, rows, options.num_columns}).requires_grad_();
  auto const cotangent = torch::randn({1, channels, rows, options.num_columns});
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
  std::string const title = "3x3 convolution, forward and backward, " + std::to_string(channels) + " x " +
                            std::to_string(options.num_rows) + " x " + std::to_string(options.num_columns) + " f32, " +
                            std::to_string(comm.num_ranks()) + " ranks";
  show(context, title,
       interleave(context,
                  {{"local convolution, no exchange", step(local)},
                   {"Conv2d, poles and periodic longitude", step(sharded)},
                   {"Conv2d, zero padding", step(zero_padded)},
                   {"HaloExchange, then unpadded convolution", concatenated}},
                  options.timing));
}

}  // namespace graticule::bench
