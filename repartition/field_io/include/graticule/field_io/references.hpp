// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace graticule {

/// Writes references of kerchunk (JSON) for a netCDF-4 or HDF5 file: a Zarr store of version 2 whose chunks are parts
/// of the file, named by its absolute path. `xarray.open_dataset(REFERENCES, engine="kerchunk")` and `FieldFile` read
/// them. Values that HDF5 keeps beside the structure, and strings, are copied into the references. Serial.
/// @return a sentence for each variable that is left out: those that cannot be read, virtual datasets, chunks without
/// some of their filters
/// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile` (input); `UnsupportedFile` (input) for a Zarr store, a file
/// with a user block, and where no variable can be referred to; `OutputError`
[[nodiscard]] std::vector<std::string> write_references(std::filesystem::path const& file,
                                                        std::filesystem::path const& references,
                                                        FilterPlugins plugins = FilterPlugins::from_path);

}  // namespace graticule
