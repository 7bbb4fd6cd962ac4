// SPDX-License-Identifier: BSD-3-Clause
// Detects the format of a file by its first bytes, before HDF5 opens it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace graticule::detail {

/// Returns for what can be the name of a local file or store.
/// @throws `UnsupportedFile` (input) for a URL, such as s3://bucket/era5.zarr
void refuse_url(std::filesystem::path const& path);

/// Returns when the file is there, readable, regular and carries HDF5's signature. Serial.
/// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile`, `UnsupportedFile` (input)
void require_hdf5_signature(std::filesystem::path const& path);

/// What follows the file's name in a message where it is a part of a file that HDF5's drivers `family`, `split` or
/// `multi` divided; empty for other files. Serial.
/// @param reason HDF5's error
[[nodiscard]] std::string divided_file_text(std::filesystem::path const& path, std::string_view reason);

}  // namespace graticule::detail
