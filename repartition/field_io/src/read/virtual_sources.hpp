// SPDX-License-Identifier: BSD-3-Clause
// Datasets that are put together from others, in other files.
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <string>

namespace graticule::detail {

struct Refusal {
  std::string rule;
  std::string text;  ///< empty when nothing is refused
};

/// Looks at every source of a virtual dataset: HDF5 itself gives fill values where one is missing. Sources must lie in
/// the folder of the file or below it, and cover all cells once. Serial.
/// @param creation the creation list of the dataset, @param num_cells of the dataset
[[nodiscard]] Refusal check_virtual_sources(hid_t creation, hsize_t num_cells, std::filesystem::path const& file);

}  // namespace graticule::detail
