// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>

#include "hdf5.hpp"

namespace graticule::detail {

/// A box of a dataset and a dense block of as many cells in memory.
struct Selection {
  h5::Space file;
  h5::Space memory;
};

/// Without a box, both select nothing: a rank takes part in a collective call so.
[[nodiscard]] Selection select(hid_t dataset, Box const* box);

}  // namespace graticule::detail
