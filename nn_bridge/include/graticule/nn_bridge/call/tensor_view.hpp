// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <span>

namespace graticule::nn {

/// A view of a tensor whose last two axes are latitude and longitude. Any strides; nothing is copied.
/// @throws `UnsupportedTensor` for fewer than two axes, a sparse tensor, a dtype or device that the engine does not
///        support, or a lazy conjugate or negative (see `resolve_conj`); `Unsupported` for a tensor on a device whose
///        current stream is captured into a graph, or that is not the one of Kokkos
[[nodiscard]] FieldView tensor_view(torch::Tensor const& tensor);

/// The same with other grid axes, counted from the last: `{-3, -2, -1}` for channels, rows and columns.
[[nodiscard]] FieldView tensor_view(torch::Tensor const& tensor, std::span<std::int64_t const> axes);

}  // namespace graticule::nn
