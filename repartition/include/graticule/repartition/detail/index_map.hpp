// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>

#include <array>
#include <functional>
#include <vector>

namespace graticule {

/// Map from one axis of a needed box to the source: source coordinate = `slope * e + offset`.
///
/// Slope 0 reads one cell repeatedly; slopes beyond 1 and -1 skip cells.
struct AxisMap {
  int source_axis = 0;
  int slope = 1;
  Index offset = 0;
  friend bool operator==(AxisMap const&, AxisMap const&) = default;
};

/// Maps for all axes of a needed box; the source axes are a permutation.
using AxisMaps = std::array<AxisMap, max_ndim>;

/// A part of a needed box whose cells all come from the source by one affine map, or all from a constant.
struct Piece {
  Box box;                 ///< in needed (extended) coordinates
  AxisMaps maps{};         ///< entries `[0, box.ndim())`
  bool odd_folds = false;  ///< crossed an odd number of folds: fields of odd parity change sign
  bool negated = false;    ///< the image changes sign for either parity
  bool filled = false;     ///< no source; cells become `fill`
  double fill = 0;
};

/// Cuts a needed box into pieces; cells in no piece are not written. Must be a pure function, equal on all ranks.
using IndexMap = std::function<std::vector<Piece>(Box const& needed)>;

/// Cells that `piece` reads, in source coordinates. @pre `!piece.filled`
[[nodiscard]] Box source_box(Piece const& piece);

/// The part of `piece` that reads only cells of `source`. @pre `!piece.filled`
[[nodiscard]] Piece restricted(Piece const& piece, Box const& source);

}  // namespace graticule
