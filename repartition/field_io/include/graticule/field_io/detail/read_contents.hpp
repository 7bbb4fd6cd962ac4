// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>

#include <filesystem>

namespace graticule {

/// Lists a netCDF-4 or HDF5 file, or a Zarr store. Serial; needs no MPI.
/// Variables written by a newer HDF5 in a form that this one cannot read are listed with a `refusal`.
/// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile`, `UnsupportedFile` (input) when not even the list can be read
[[nodiscard]] FileContents read_contents(std::filesystem::path const& path,
                                         FilterPlugins plugins = FilterPlugins::from_path);

}  // namespace graticule
