// SPDX-License-Identifier: BSD-3-Clause
#include "conv_geometry.hpp"

#include <algorithm>

namespace graticule::nn::detail {

Cuts cuts_of_outputs(Cuts const& inputs, Index total, std::function<Index(Index)> const& first_output) {
  auto const first = [&](Index input) -> Index {
    if (input <= 0) return 0;
    return input >= inputs.extent() ? total : std::clamp<Index>(first_output(input), 0, total);
  };
  std::vector<Index> sizes;
  for (int p = 0; p < inputs.num_parts(); ++p) sizes.push_back(first(inputs.hi(p)) - first(inputs.lo(p)));
  return Cuts(sizes);
}

Index ConvAxis::num_outputs() const {
  Index const room = extent + before + after - reach();
  if (room < 0 || extent == 0)
    throw Error("KernelTooLarge", "a kernel spans " + std::to_string(reach()) + " cells on an axis of " +
                                      std::to_string(extent) + " with padding " + std::to_string(before) + " and " +
                                      std::to_string(after));
  return room / stride + 1;
}

Cuts ConvAxis::output_cuts(Cuts const& inputs, Index total) const {
  Index const middle = dilation * (kernel - 1) / 2;
  return cuts_of_outputs(inputs, total, [&](Index input) { return ceil_div(input + before - middle, stride); });
}

Range ConvAxis::needed(Range outputs) const noexcept {
  if (outputs.size() == 0) return {};
  return {outputs.lo * stride - before, (outputs.hi - 1) * stride - before + reach()};
}

Cuts TransposedAxis::output_cuts(Cuts const& inputs, Index total) const {
  return cuts_of_outputs(inputs, total, [&](Index input) { return input * stride - padding + span() / 2; });
}

Range TransposedAxis::needed(Range outputs) const noexcept {
  if (outputs.size() == 0) return {};
  Index const lo = ceil_div(outputs.lo + padding - span(), stride);
  Index const hi = floor_div(outputs.hi - 1 + padding, stride) + 1;
  return ends ? Range{std::max<Index>(lo, 0), std::min(hi, extent)} : Range{lo, hi};
}

ConvAxisShard::ConvAxisShard(ConvAxis const& axis, Range own_inputs, Range own_outputs)
    : own(own_inputs), outputs(own_outputs), needed(axis.needed(own_outputs)) {
  used = {std::max(own.lo, needed.lo), std::min(own.hi, needed.hi)};
  if (outputs.size() == 0 || used.size() == 0) return;
  Index const lower = used.lo - needed.lo;
  Index const upper = needed.hi - used.hi;
  padding = lower;
  splits = lower >= upper && lower - upper < axis.stride;
  if (!splits) return;
  Index const first_upper = std::max<Index>(0, ceil_div(used.hi - needed.lo - axis.reach() + 1, axis.stride));
  lower_rim = {outputs.lo, outputs.lo + std::min(ceil_div(lower, axis.stride), outputs.size())};
  upper_rim = {std::min(outputs.lo + first_upper, outputs.hi), outputs.hi};
  lower_strip = axis.needed(lower_rim);
  upper_strip = axis.needed(upper_rim);
  lower_halo = {needed.lo, std::min(used.lo, lower_strip.hi)};
  upper_halo = {std::max(used.hi, upper_strip.lo), needed.hi};
}

}  // namespace graticule::nn::detail
