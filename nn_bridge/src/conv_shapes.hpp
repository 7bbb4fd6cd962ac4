// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace graticule::nn::detail {

/// A length is a column of one cell: its convolution is that of [batch, channels, length, 1].
template <std::size_t D>
torch::Tensor with_columns(torch::Tensor const& x) {
  return D == 1 && x.defined() && x.dim() > 0 ? x.unsqueeze(-1) : x;
}

/// [batch, channels, rows, columns] or, for `D == 3`, with levels before the rows.
template <std::size_t D>
torch::Tensor batched(torch::Tensor const& x) {
  return with_columns<D>(x.dim() == std::int64_t(D) + 1 ? x.unsqueeze(0) : x);
}

/// `y` with the axes that `x` came with, the inverse of `batched`.
template <std::size_t D>
torch::Tensor unbatched(torch::Tensor const& y, torch::Tensor const& x) {
  auto const bare = D == 1 ? y.squeeze(-1) : y;
  return x.dim() == std::int64_t(D) + 1 ? bare.squeeze(0) : bare;
}

/// What a layer takes, for messages.
template <std::size_t D>
std::string axis_names() {
  return std::string("[batch, channels, ") +
         (D == 1   ? "length"
          : D == 2 ? "rows, columns"
                   : "levels, rows, columns") +
         "]";
}

}  // namespace graticule::nn::detail
