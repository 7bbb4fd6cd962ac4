// SPDX-License-Identifier: BSD-3-Clause
#include "tensors.hpp"

namespace graticule::train {

torch::Dtype dtype_of(Precision precision) {
  switch (precision) {
    case Precision::f32: return torch::kFloat32;
    case Precision::f64: break;
  }
  return torch::kFloat64;
}

torch::Device device_of(NetworkSettings const& settings) { return torch::Device(settings.device); }

torch::Tensor tensor_of(void const* values, std::size_t num_channels, Batch const& batch, TrainingData const& data) {
  return torch::from_blob(const_cast<void*>(values),  // only read
                          {batch.num_samples, std::int64_t(num_channels), data.num_rows, data.num_columns},
                          batch.dtype == DType::f64 ? torch::kFloat64 : torch::kFloat32);
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

}  // namespace graticule::train
