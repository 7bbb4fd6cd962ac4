// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace graticule::nn::detail {

/// The serial forward with the spatial sizes of `like`, for layers whose output may have several sizes.
[[nodiscard]] torch::Tensor serial_like(torch::nn::ConvTranspose1dImpl& layer, torch::Tensor const& x,
                                        torch::Tensor const& like);
[[nodiscard]] torch::Tensor serial_like(torch::nn::ConvTranspose2dImpl& layer, torch::Tensor const& x,
                                        torch::Tensor const& like);
[[nodiscard]] torch::Tensor serial_like(torch::nn::ConvTranspose3dImpl& layer, torch::Tensor const& x,
                                        torch::Tensor const& like);
[[nodiscard]] torch::Tensor serial_like(torch::nn::UpsampleImpl& layer, torch::Tensor const& x,
                                        torch::Tensor const& like);

template <class Serial>
concept TakesLike = requires(Serial& layer, torch::Tensor const& x) {
  serial_like(layer, x, x);
};

}  // namespace graticule::nn::detail
