// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>
#include <graticule/repartition/parity.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace graticule::nn::detail {

/// Neighboring channels (axis -3) of equal parity.
struct ParityRun {
  torch::Tensor part;
  Parity parity = Parity::even;
};

/// Splits a tensor at the channels where the parity changes; one run where no channel is odd.
inline std::vector<ParityRun> parity_runs(torch::Tensor const& x, std::vector<std::int64_t> const& odd_channels) {
  if (odd_channels.empty()) return {{x, Parity::even}};
  if (x.dim() < 3)
    throw Error("BadBoundary",
                "odd channels need a tensor with a channel axis, got " + std::to_string(x.dim()) + " axes");
  std::vector<ParityRun> result;
  auto const parity = [&](std::int64_t c) {
    return std::count(odd_channels.begin(), odd_channels.end(), c) ? Parity::odd : Parity::even;
  };
  for (std::int64_t first = 0; first < x.size(-3);) {
    auto last = first + 1;
    while (last < x.size(-3) && parity(last) == parity(first)) ++last;
    result.push_back({x.narrow(-3, first, last - first), parity(first)});
    first = last;
  }
  return result;
}

}  // namespace graticule::nn::detail
