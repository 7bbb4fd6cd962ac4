// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "trained_network.hpp"

#include <torch/torch.h>

#include <cstddef>

namespace graticule::train {

[[nodiscard]] torch::Dtype dtype_of(Precision precision);

/// The device that the network computes on.
[[nodiscard]] torch::Device device_of(NetworkSettings const& settings);

/// [samples, channels, rows, columns] of a batch's inputs or targets, where they lie: on the host.
[[nodiscard]] torch::Tensor tensor_of(void const* values, std::size_t num_channels, Batch const& batch,
                                      TrainingData const& data);

/// [rows, statics]: the first column of each static channel; on a rank without columns there is nothing to scale.
[[nodiscard]] torch::Tensor static_tensor(TrainingData const& data, torch::Dtype dtype);

}  // namespace graticule::train
