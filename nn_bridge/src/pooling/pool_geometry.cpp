// SPDX-License-Identifier: BSD-3-Clause
#include "pool_geometry.hpp"

#include <graticule/partition/error.hpp>

#include <algorithm>
#include <string>

namespace graticule::nn::detail {

Index PoolAxis::count() const noexcept {
  auto const& w = window;
  Index const room = w.extent + 2 * w.before - w.reach();
  Index const count = (ceil_mode ? ceil_div(room, w.stride) : floor_div(room, w.stride)) + 1;
  bool const starts_beyond = ceil_mode && (count - 1) * w.stride >= w.extent + w.before;
  return starts_beyond ? count - 1 : count;
}

Index PoolAxis::num_outputs() const {
  auto const& w = window;
  Index const total = count();
  if (total < 1 || w.extent < least_cells)
    throw Error("KernelTooLarge", "a window of " + std::to_string(w.reach()) + " cells does not fit an axis of " +
                                      std::to_string(w.extent) + " with padding " + std::to_string(w.before));
  // A dilated window may surround the field and contain no cell; LibTorch then returns some other cell as its maximum.
  for (Index o = 0; o < total && !by_domain; ++o) {
    Index const start = o * w.stride - w.before;
    Index const first = start < 0 ? start + ceil_div(-start, w.dilation) * w.dilation : start;
    if (first >= std::min(w.extent, start + w.reach()))
      throw Error("KernelTooLarge", "a window of " + std::to_string(w.reach()) + " cells, dilated by " +
                                        std::to_string(w.dilation) + ", holds none of an axis of " +
                                        std::to_string(w.extent) + " with padding " + std::to_string(w.before));
  }
  return total;
}

Range PoolAxis::clipped(Range outputs) const noexcept {
  Index const stride = window.stride;
  Range part{std::max<Index>(0, outputs.lo - ceil_div(window.before, stride)) * stride,
             std::min(window.needed(outputs).hi, window.extent)};
  if (part.size() < least_cells) part.hi = std::min(part.lo + least_cells, window.extent);
  if (part.size() < least_cells) {
    part.lo = std::max<Index>(0, part.lo - ceil_div(least_cells - part.size(), stride) * stride);
    part.hi = std::max(part.hi, part.lo + least_cells);
  }
  return part;
}

PoolRun PoolAxis::run(Range outputs) const noexcept {
  if (outputs.size() == 0) return {outputs, {}, 0, 0, 0};
  auto const whole = window.needed(outputs);
  if (by_domain || (whole.lo >= 0 && whole.hi <= window.extent)) return {outputs, whole, 0, 0, outputs.size()};
  auto const part = clipped(outputs);
  auto of_part = *this;
  of_part.window.extent = part.size();
  return {outputs, part, window.before, outputs.lo - part.lo / window.stride, of_part.count()};
}

Range PoolAxis::reaching(Range outputs, Range cells) const noexcept {
  auto const& w = window;
  return {std::max(outputs.lo, floor_div(cells.lo + w.before - w.reach(), w.stride) + 1),
          std::min(outputs.hi, ceil_div(cells.hi + w.before, w.stride))};
}

std::optional<PoolSplit> split(PoolAxis const& axis, Range own, Range outputs, bool ceil_mode) {
  auto const& w = axis.window;
  if (own.size() < w.reach() || outputs.size() == 0) return {};
  auto const start = [&](Index output) { return output * w.stride - w.before; };
  auto const all = w.needed(outputs);
  std::optional<PoolSplit> best;
  for (Index padding = 0; padding <= w.kernel / 2; ++padding) {
    Index const ahead = all.lo - (own.lo - padding);
    PoolAxis const local{{own.size(), w.kernel, w.stride, w.dilation, padding, padding}, ceil_mode};
    PoolRun const run{outputs, own, padding, ahead / w.stride, local.count()};
    if (ahead < 0 || ahead % w.stride != 0 || run.num_skipped + outputs.size() > run.num_results) continue;
    bool const as_on_globe = !axis.by_domain && padding == w.before;
    bool const at_lower_edge = as_on_globe && own.lo == 0;
    bool const at_upper_edge = as_on_globe && own.hi == w.extent;
    Range const inner{
        at_lower_edge ? outputs.lo : std::max(outputs.lo, ceil_div(own.lo + w.before, w.stride)),
        at_upper_edge ? outputs.hi : std::min(outputs.hi, floor_div(own.hi + w.before - w.reach(), w.stride) + 1)};
    if (inner.size() == 0) continue;
    Range const middle{inner.lo > outputs.lo ? start(inner.lo - 1) + w.reach() : all.lo,
                       inner.hi < outputs.hi ? start(inner.hi) : all.hi};
    if (middle.lo > middle.hi) continue;
    bool const better = !best || inner.size() > best->inner.size() ||
                        (inner.size() == best->inner.size() && run.num_results < best->local.num_results);
    if (better) best = PoolSplit{run, inner, middle};
  }
  return best;
}

}  // namespace graticule::nn::detail
