// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/serial_like.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

namespace graticule::nn::detail {

namespace {

/// The last `num_axes` sizes.
std::vector<std::int64_t> spatial_sizes(torch::Tensor const& like, std::int64_t num_axes) {
  auto const sizes = like.sizes();
  return {sizes.end() - std::min(num_axes, like.dim()), sizes.end()};
}

template <class Serial>
torch::Tensor transposed(Serial& layer, torch::Tensor const& x, torch::Tensor const& like, std::int64_t num_axes) {
  auto const sizes = spatial_sizes(like, num_axes);
  return layer.forward(x, at::IntArrayRef(sizes));
}

}  // namespace

torch::Tensor serial_like(torch::nn::ConvTranspose1dImpl& layer, torch::Tensor const& x, torch::Tensor const& like) {
  return transposed(layer, x, like, 1);
}
torch::Tensor serial_like(torch::nn::ConvTranspose2dImpl& layer, torch::Tensor const& x, torch::Tensor const& like) {
  return transposed(layer, x, like, 2);
}
torch::Tensor serial_like(torch::nn::ConvTranspose3dImpl& layer, torch::Tensor const& x, torch::Tensor const& like) {
  return transposed(layer, x, like, 3);
}

torch::Tensor serial_like(torch::nn::UpsampleImpl& layer, torch::Tensor const& x, torch::Tensor const& like) {
  auto options = ResizeOptions(layer.options).interpolate;
  options.scale_factor(std::nullopt).size(spatial_sizes(like, x.dim() - 2));
  return torch::nn::functional::interpolate(x, options);
}

}  // namespace graticule::nn::detail
