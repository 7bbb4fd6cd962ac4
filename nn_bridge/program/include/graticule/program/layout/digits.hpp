// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule::program {

/// Extents of a tensor, outermost axis first; row-major.
using Shape = std::vector<std::int64_t>;

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

  [[nodiscard]] std::int64_t num_ranks() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
  bool operator==(Cut const&) const = default;
  auto operator<=>(Cut const&) const = default;
};

/// What a cut divides, as the place value (stride) and the number of values (size) of a digit: {7, 103} are 103 windows
/// of 7 rows. The stride is the largest one that all bounds are multiples of.
struct Digit {
  std::int64_t stride = 1;
  std::int64_t size = 1;
};

/// The digit that a cut divides.
[[nodiscard]] Digit digit_of(Cut const& cut);

/// A cut of `extent` into shares that differ by at most one unit of `stride` indices.
/// @pre `stride` divides `extent`
[[nodiscard]] Cut balanced_cut(std::int64_t axis, std::int64_t extent, std::int64_t num_ranks, std::int64_t stride = 1);

/// Number of indices that a rank owns of an axis of this extent.
[[nodiscard]] std::int64_t owned_extent(Cut const& cut, std::int64_t extent, std::int64_t rank);
/// The indices that a rank owns, ascending. Cost: linear in the extent.
[[nodiscard]] std::vector<std::int64_t> owned_indices(Cut const& cut, std::int64_t extent, std::int64_t rank);
/// The shape of a rank's part.
[[nodiscard]] Shape local_shape(Shape const& shape, std::optional<Cut> const& cut, std::int64_t rank);
/// Product of the extents.
[[nodiscard]] std::int64_t num_elements(Shape const& shape);
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

/// The cut after `permute(order)`: axis a of the result is axis order[a] of the tensor.
[[nodiscard]] Cut through_permute(Cut const& cut, std::vector<std::int64_t> const& order);
/// The cut before `permute(order)`.
[[nodiscard]] Cut before_permute(Cut const& cut, std::vector<std::int64_t> const& order);

/// The cut of the indices begin, begin + step, ... < end of the cut axis, each of which stays on its rank. Nothing
/// where a low digit is cut and the slice does not consist of whole periods.
[[nodiscard]] std::optional<Cut> through_slice(Cut const& cut, std::int64_t extent, std::int64_t begin,
                                               std::int64_t end, std::int64_t step);

/// "axis 2 at 0, 361, 721" or "axis 2, digit of stride 7 and size 103, at 0, 52, 103".
[[nodiscard]] std::string describe(Cut const& cut, std::int64_t extent);

}  // namespace graticule::program
