// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/device_queue.hpp>

#include <torch/torch.h>

namespace graticule::nn::detail {

/// The engine's queue for a call on `tensor`: LibTorch's current stream of its device; `{}` on the host.
/// @throws `Unsupported` while the stream is captured into a graph, or for a device that this Kokkos cannot use
[[nodiscard]] DeviceQueue queue_of(torch::Tensor const& tensor);

}  // namespace graticule::nn::detail
