// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule::program {

/// The division of one digit of one axis among ranks.
///
/// An axis of extent n is read as n / period equal periods, all divided alike: rank r owns the indices i with
/// bounds[r] <= i mod period < bounds[r + 1], in their global order. A period of the whole extent is a plain cut into
/// rows; a smaller one cuts a low digit, as the place inside a window. Example: extent 12, period 4, bounds {0, 1, 4}:
/// rank 0 owns {0, 4, 8}, rank 1 the other nine.
///
/// Bounds start at 0, never decrease and end at the period; a rank with equal bounds owns nothing.
struct Cut {
  std::int64_t axis = 0;
  std::int64_t period = 1;
  std::vector<std::int64_t> bounds;

  /// A cut of `extent` into shares that differ by at most one unit of `stride` indices.
  /// @pre `stride` divides `extent`
  [[nodiscard]] static Cut balanced(std::int64_t axis, std::int64_t extent, std::int64_t num_ranks,
                                    std::int64_t stride = 1);

  [[nodiscard]] std::int64_t num_ranks() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
  /// Number of indices that a rank owns of an axis of this extent.
  [[nodiscard]] std::int64_t owned_extent(std::int64_t extent, std::int64_t rank) const;
  /// The indices that a rank owns, ascending. Cost: linear in the extent.
  [[nodiscard]] std::vector<std::int64_t> owned_indices(std::int64_t extent, std::int64_t rank) const;
  /// "axis 2 at 0, 361, 721" or "axis 2, digit of stride 7 and size 103, at 0, 52, 103".
  [[nodiscard]] std::string describe(std::int64_t extent) const;

  bool operator==(Cut const&) const = default;
  auto operator<=>(Cut const&) const = default;
};

/// Nothing: every rank holds the whole value.
using Placement = std::optional<Cut>;

}  // namespace graticule::program
