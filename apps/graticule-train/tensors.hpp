// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "network.hpp"

#include <torch/torch.h>

#include <vector>

namespace graticule::train {

[[nodiscard]] torch::Dtype dtype_of(Precision precision);

/// [samples, channels, rows, columns] of the channels' values.
[[nodiscard]] torch::Tensor stacked(std::vector<Channel> const& channels, TrainingData const& data, torch::Dtype dtype);

/// [rows, statics]: the first column of each static channel; on a rank without columns there is nothing to scale.
[[nodiscard]] torch::Tensor static_tensor(TrainingData const& data, torch::Dtype dtype);

/// What each sample counts in the loss: the area of all its targets' cells that are not missing, over the ranks of the
/// domain. Collective.
[[nodiscard]] std::vector<double> sample_weights(Comm const& domain, TrainingData const& data);

}  // namespace graticule::train
