// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>

#include <string>

namespace graticule {

/// Some cells of a global box: cell `k` of axis `a` is `first[a] + k * step[a]`, for `0 <= k < extents[a]`.
///
/// A step may be negative: the axis is then read from its upper end. Steps are not 0.
/// Example: every second row of 721, from south to north, and all 1440 columns: first {720, 0}, step {-2, 1},
/// extents {361, 1440}.
struct Selection {
  Indices first;
  Indices step;
  Indices extents;

  /// All cells of `box`.
  [[nodiscard]] static Selection all(Box const& box);
  /// Every `step`-th cell of `box` along each axis, from its lower end, or from its upper end where the step is
  /// negative. @throws `BadSelection` for a step of 0
  [[nodiscard]] static Selection every_nth(Box const& box, Indices const& step);

  [[nodiscard]] int ndim() const noexcept { return first.size(); }
  friend bool operator==(Selection const&, Selection const&) = default;
};

/// Text of a selection, for messages.
[[nodiscard]] std::string to_string(Selection const& selection);

}  // namespace graticule
