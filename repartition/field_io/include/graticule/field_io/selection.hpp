// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/repartition/field_view.hpp>

namespace graticule {

/// Mapping from cells of a variable to elements of a field in memory.
///
/// Axes `a` are those of the variable in the file, axes `m` those of the field. Along each axis, `steps` selects cells
/// of `box`; they are adjacent in the field, starting at `offset`. Other elements are not written.
/// Example: `z(time=8, level=3, latitude=241, longitude=480)` and a field [level, longitude, latitude] with halos of
/// one cell around the rank's rows [81, 161): every second longitude, time 5, rows from south to north:
///     FileSelection{.box = Box({5, 0, 81, 0}, {6, 3, 161, 480}), .steps = {1, 1, -1, 2}, .axes = {1, 3, 2},
///                   .offset = {0, 1, 1}}
/// fills the elements [0, 3) x [1, 241) x [1, 81) of a field of 3 x 242 x 82.
struct FileSelection {
  Box box = {};         ///< of the variable; empty for a rank without cells
  Indices steps = {};   ///< every `steps[a]`-th cell from `lo` on, or backwards from the last one; empty: every cell
  Indices axes = {};    ///< axis `m` of the field is axis `axes[m]` of the variable, or -1 for no axis; empty: in order
  Indices offset = {};  ///< element of the field for the first selected cell; empty: the first element

  /// Number of selected cells along each axis of the variable. Example: step 2 or -2 in [0, 5) selects 3 cells, 0 2 4
  /// or 4 2 0.
  /// @throws `BadSelection` for a step of 0 or for steps of another number of axes
  [[nodiscard]] Indices counts() const;
};

}  // namespace graticule
