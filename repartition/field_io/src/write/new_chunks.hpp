// SPDX-License-Identifier: BSD-3-Clause
// Chunks of datasets that other programs made and that this one makes longer.
#pragma once

#include <graticule/partition/indices.hpp>

#include "hdf5/handle.hpp"

namespace graticule::detail {

/// Makes the chunks that a dataset lacks since its extents grew from `before` to `after`, full of its fill value.
///
/// HDF5 1.10 allocates chunks for parallel writes when a dataset is made to do so from the start, as netCDF's are not.
/// Without it, ranks that write parts of a chunk find none to add them to, and the write fails. Datasets that allocate
/// their chunks themselves are not changed. The dataset is closed and opened again: HDF5 1.10.8 remembers where the
/// last new chunk was even after a write has moved it. Collective on the file's ranks, with the same arguments.
void allocate_new_chunks(h5::Dataset& dataset, Indices const& before, Indices const& after);

}  // namespace graticule::detail
