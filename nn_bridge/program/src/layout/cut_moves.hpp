// SPDX-License-Identifier: BSD-3-Clause
// Indices and cuts of axes, and what becomes of a cut in views.
#pragma once

#include <graticule/program/detail/shape.hpp>
#include <graticule/program/layout/digits.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::program {

/// An axis, extent or place that is not negative, to index a container with.
[[nodiscard]] constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
/// 0, 1, ..., count - 1.
[[nodiscard]] std::vector<std::int64_t> numbers_below(std::int64_t count);

/// What a cut divides, as the place value (stride) and the number of values (size) of a digit: {7, 103} are 103 windows
/// of 7 rows. The stride is the largest one that all bounds are multiples of.
struct Digit {
  std::int64_t stride = 1;
  std::int64_t size = 1;
};

/// The digit that a cut divides.
[[nodiscard]] Digit digit_of(Cut const& cut);

/// The shape of a rank's part.
[[nodiscard]] Shape local_shape(Shape const& shape, std::optional<Cut> const& cut, std::int64_t rank);
/// Indices of one axis that a rank owns under both cuts; the cuts are of the same axis.
[[nodiscard]] std::int64_t common_extent(Cut const& first, Cut const& second, std::int64_t extent, std::int64_t rank);

/// The cut of a view (view, reshape, flatten, squeeze, unsqueeze) of a cut tensor: each rank's part of the result is
/// the same view of its part, without any exchange. Nothing where the view divides the digit at another place than the
/// cut does. Example: 12 rows cut at {0, 8, 12} and seen as {3, 4} are axis 0 cut at {0, 2, 3}; cut at {0, 6, 12},
/// nothing. Cost: linear in the axes times the ranks.
[[nodiscard]] std::optional<Cut> through_view(Cut const& cut, Shape const& from, Shape const& to);

/// The cut nearest to this one that `through_view` accepts: bounds rounded to multiples of the digit that the view
/// makes. Nothing where the view's digits do not nest with the cut one.
[[nodiscard]] std::optional<Cut> aligned_for_view(Cut const& cut, Shape const& from, Shape const& to);

}  // namespace graticule::program
