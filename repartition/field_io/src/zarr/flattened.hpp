// SPDX-License-Identifier: BSD-3-Clause
// Data sets of anemoi: one array `data(time, variable, ensemble, cell)` for all variables, with the grid flattened, and
// `latitudes(cell)`, `longitudes(cell)`, `dates(time)`. The attribute `field_shape` has the rows and columns.
#pragma once

#include <graticule/field_io/contents.hpp>

#include "json.hpp"
#include "reader.hpp"
#include "store.hpp"

#include <string>
#include <vector>

namespace graticule::detail::zarr {

struct Listed {
  FileContents contents;
  std::vector<std::string> arrays;  ///< of each variable: key, metadata and attributes
};

/// Where a regular grid stands behind such a store, lists its variables by their names, such as
/// `2t(time, latitude, longitude)` (with `ensemble` where it has members), in place of those arrays. Others stay as
/// they are.
void unfold(Store const& store, Listed& listed);

/// The slab's cells of a variable that `unfold` has listed. @param fold of its description
void read_unfolded(ArrayReader& reader, Json const& fold, Index value_bytes, Slab const& slab, std::byte* target);

}  // namespace graticule::detail::zarr
