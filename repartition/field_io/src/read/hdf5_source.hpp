// SPDX-License-Identifier: BSD-3-Clause
// netCDF-4 and HDF5 files as sources.
#pragma once

#include "source.hpp"

namespace graticule::detail {

/// Lists a file by a process that may crash. A file that an append has left incomplete is restored first.
[[nodiscard]] Catalogue read_hdf5_catalogue(std::filesystem::path const& path, FilterPlugins plugins, Structure kind);

[[nodiscard]] std::unique_ptr<Source> open_hdf5(std::filesystem::path const& path, SourceOptions const& options);

}  // namespace graticule::detail
