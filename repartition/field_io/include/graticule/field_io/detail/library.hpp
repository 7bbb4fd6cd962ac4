// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace graticule {

/// The HDF5 library in use: its version, whether it is parallel, and its available filters. For `--version`.
/// Example: `1.10.8 (parallel; filters deflate, shuffle, fletcher32, szip, nbit, scaleoffset)`
[[nodiscard]] std::string hdf5_description();

}  // namespace graticule
