// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <torch/torch.h>

namespace graticule::nn::detail {

/// Whether values have 16 bits, and are added in f32.
[[nodiscard]] constexpr bool is_narrow(torch::ScalarType type) noexcept {
  return type == torch::kHalf || type == torch::kBFloat16;
}

/// The type in which values are added: f32 for types of 16 bits, else their own.
[[nodiscard]] constexpr torch::ScalarType type_of_sums(torch::ScalarType type) noexcept {
  return is_narrow(type) ? torch::kFloat : type;
}

/// The engine's data type for a tensor's. @throws `UnsupportedTensor`
[[nodiscard]] DType dtype_of(torch::ScalarType type);

}  // namespace graticule::nn::detail
