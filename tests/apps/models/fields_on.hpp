// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <cstdint>

namespace graticule::test {

/// [1, channels, rows, columns] of a box, in f64: value(channel, row, column).
template <class Value>
torch::Tensor fields_on(Box const& box, Index num_channels, Value const& value) {
  torch::Tensor fields = torch::zeros({1, num_channels, box.extent(0), box.extent(1)}, torch::kFloat64);
  auto values = fields.accessor<double, 4>();
  for (Index c = 0; c < num_channels; ++c)
    for (Index j = box.lo(0); j < box.hi(0); ++j)
      for (Index i = box.lo(1); i < box.hi(1); ++i) values[0][c][j - box.lo(0)][i - box.lo(1)] = value(c, j, i);
  return fields;
}

/// The box of a whole field's last two axes.
inline torch::Tensor part_of(torch::Tensor const& whole, Box const& box) {
  return whole.slice(-2, box.lo(0), box.hi(0)).slice(-1, box.lo(1), box.hi(1));
}

}  // namespace graticule::test
