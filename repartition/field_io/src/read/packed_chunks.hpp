// SPDX-License-Identifier: BSD-3-Clause
// Chunks that filters have packed, unpacked here: HDF5 1.10.8 does not look at how many bytes its filters give, and
// reads beyond them, or takes all memory, where a chunk is damaged.
#pragma once

#include <graticule/field_io/contents.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/hyperslab.hpp"

#include <cstddef>

namespace graticule::detail {

/// Whether `read_packed` knows the variable's filters: deflate, shuffle and fletcher32, each once at most.
[[nodiscard]] bool is_packed(Variable const& variable);

/// Reads the slab's cells as they are stored, except those beyond `counts`, which are left unchanged. Serial.
/// @pre `is_packed(variable)`; `target` holds all cells of the slab; the caller holds `h5::Lock`
/// @throws `Hdf5Error` for a damaged chunk
/// Cost: inflates each chunk once, `num_threads` at a time; some small chunks are kept for the next call
void read_packed(Variable const& variable, hid_t dataset, Slab const& slab, Indices const& counts, void* target,
                 int num_threads);

}  // namespace graticule::detail
