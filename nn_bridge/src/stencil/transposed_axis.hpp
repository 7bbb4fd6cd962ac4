// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "conv_geometry.hpp"

#include <algorithm>
#include <vector>

namespace graticule::nn::detail {

/// One axis of a transposed convolution on the whole globe: input i adds to outputs i * stride - padding + dilation *
/// j.
struct TransposedAxis {
  Index extent = 1;
  Index kernel = 1;
  Index stride = 1;
  Index padding = 0;
  Index dilation = 1;
  bool ends = true;  ///< nothing lies beyond the edges

  [[nodiscard]] Index span() const noexcept { return dilation * (kernel - 1); }
  /// M = (N - 1) stride - 2 padding + span + 1, and output padding on top.
  [[nodiscard]] Index least_outputs() const noexcept { return (extent - 1) * stride - 2 * padding + span() + 1; }

  [[nodiscard]] Cuts output_cuts(Cuts const& inputs, Index total) const {
    auto const first_output = [&](Index input) -> Index {
      if (input <= 0) return 0;
      if (input >= extent) return total;
      return std::clamp<Index>(input * stride - padding + span() / 2, 0, total);
    };
    std::vector<Index> sizes;
    for (int p = 0; p < inputs.num_parts(); ++p)
      sizes.push_back(first_output(inputs.hi(p)) - first_output(inputs.lo(p)));
    return Cuts(sizes);
  }

  /// Inputs that add to `outputs`; may be empty.
  [[nodiscard]] Range needed(Range outputs) const noexcept {
    if (outputs.size() == 0) return {};
    Index const lo = ceil_div(outputs.lo + padding - span(), stride);
    Index const hi = floor_div(outputs.hi - 1 + padding, stride) + 1;
    return ends ? Range{std::max<Index>(lo, 0), std::min(hi, extent)} : Range{lo, hi};
  }
};

}  // namespace graticule::nn::detail
