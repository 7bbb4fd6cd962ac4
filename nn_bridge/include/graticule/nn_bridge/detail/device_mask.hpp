// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/mask_kernel.hpp>

#include <torch/torch.h>

namespace graticule::nn::detail {

/// What `fill_on_device` would throw for a mask beside `tensor`, before the ranks agree on a call.
/// @throws `Unsupported` for a stream that is captured, and for another device than that of Kokkos
void check_mask_device(torch::Tensor const& tensor);

/// `fill_mask` in order of the current stream of the mask's device.
/// @param mask contiguous, of f32 or f64, on a device that the engine reaches
void fill_on_device(torch::Tensor const& mask, MaskWords const& words, MaskCells const& cells, double kept);

/// The mask of a tensor that every rank holds whole: 1 where a value is kept, otherwise 0; f64, in host memory. Local.
[[nodiscard]] torch::Tensor whole_mask(std::vector<std::int64_t> const& sizes, double p, std::uint64_t seed,
                                       std::uint32_t layer, std::int64_t draw);

}  // namespace graticule::nn::detail
