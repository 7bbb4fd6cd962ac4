// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::nn::detail {

enum class PoolKind : std::uint8_t { maxima, means };

/// Which of LibTorch's poolings.
struct PoolRule {
  PoolKind kind = PoolKind::maxima;
  bool count_padding = true;                 ///< of means
  std::optional<std::int64_t> divisor = {};  ///< of means
};

/// Windows along the spatial axes: rows, columns; or levels, rows, columns.
struct PoolWindows {
  std::vector<Index> kernel;
  std::vector<Index> stride;
  std::vector<Index> padding;
  std::vector<Index> dilation;
  bool ceil_mode = false;
};

struct Pooled {
  torch::Tensor values;
  torch::Tensor indices;  ///< of maxima, flat along the spatial axes
};

/// LibTorch's pooling of a batched tensor; differentiable.
[[nodiscard]] Pooled pool(PoolRule const& rule, torch::Tensor const& x, PoolWindows const& windows);

/// What its backward computes; differentiable in `cotangent`. @param indices from `pool`
[[nodiscard]] torch::Tensor pool_backward(PoolRule const& rule, torch::Tensor const& cotangent, torch::Tensor const& x,
                                          torch::Tensor const& indices, PoolWindows const& windows);

}  // namespace graticule::nn::detail
