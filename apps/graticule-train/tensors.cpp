// SPDX-License-Identifier: BSD-3-Clause
#include "tensors.hpp"

#include <cmath>

namespace graticule::train {

torch::Dtype dtype_of(Precision precision) { return precision == Precision::f64 ? torch::kFloat64 : torch::kFloat32; }

torch::Tensor stacked(std::vector<Channel> const& channels, TrainingData const& data, torch::Dtype dtype) {
  std::vector<torch::Tensor> parts;
  for (Channel const& channel : channels) {
    auto* const values = const_cast<double*>(channel.values.data());  // only read, and copied below
    parts.push_back(
        torch::from_blob(values, {data.num_samples, data.num_rows, data.num_columns}, torch::kFloat64).to(dtype));
  }
  return torch::stack(parts, 1);
}

torch::Tensor static_tensor(TrainingData const& data, torch::Dtype dtype) {
  auto const count = std::int64_t(data.statics.size());
  torch::Tensor rows = torch::zeros({data.num_rows, count}, torch::kFloat64);
  if (data.num_columns == 0) return rows.to(dtype);
  auto access = rows.accessor<double, 2>();
  for (std::int64_t c = 0; c < count; ++c)
    for (Index i = 0; i < data.num_rows; ++i)
      access[i][c] = data.statics[std::size_t(c)].values[std::size_t(i * data.num_columns)];
  return rows.to(dtype);
}

std::vector<double> sample_weights(Comm const& domain, TrainingData const& data) {
  std::vector<double> weights(std::size_t(data.num_samples), 0.0);
  for (Channel const& target : data.targets) {
    auto value = target.values.begin();
    for (double& weight : weights)
      for (Index i = 0; i < data.num_rows; ++i) {
        Index count = 0;
        for (Index j = 0; j < data.num_columns; ++j) count += std::isnan(*value++) ? 0 : 1;
        weight += data.row_weights[std::size_t(i)] * double(count);
      }
  }
  domain.sum(std::span(weights));
  return weights;
}

}  // namespace graticule::train
