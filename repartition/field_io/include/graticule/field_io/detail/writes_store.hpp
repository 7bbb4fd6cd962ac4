// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace graticule {

/// Whether `FieldWriter` makes a Zarr store of a new file: `NAME.zarr`, also with a slash behind it.
/// @throws `BadOption` (usage) for `NAME.zarr.zip`: stores are written as folders
[[nodiscard]] bool writes_store(std::filesystem::path const& path);

}  // namespace graticule
