// SPDX-License-Identifier: BSD-3-Clause
// Stores as sources.
#pragma once

#include "read/source.hpp"

#include <filesystem>
#include <memory>

namespace graticule::detail::zarr {

/// Lists a store: consolidated metadata where it has them, else those of each folder. Serial.
/// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile`, `UnsupportedFile` (input)
[[nodiscard]] Catalogue list(std::filesystem::path const& path);

/// Opens a store for this process, which reads it without the others: cells in this machine's byte order.
/// @throws as `Store`; reading: `BrokenFile`, `UnreadableVariable` (input)
[[nodiscard]] std::unique_ptr<Source> open_store(std::filesystem::path const& path, SourceOptions const& options);

/// The file that tells whether two copies of a store are of the same contents.
[[nodiscard]] std::filesystem::path metadata_file(std::filesystem::path const& path);

}  // namespace graticule::detail::zarr
