// SPDX-License-Identifier: BSD-3-Clause
// Arrays of strings, which are read whole with the metadata.
#pragma once

#include "array.hpp"
#include "store.hpp"

#include <optional>
#include <string>
#include <vector>

namespace graticule::detail::zarr {

/// The strings of an array, row-major, in UTF-8 without zeros at their ends. Nothing where they have more than so many
/// bytes. @pre `array.strings` is not `none`, @param ndim axes without that of characters
/// @throws `BrokenFile`, `UnreadableVariable` (input)
[[nodiscard]] std::optional<std::vector<std::string>> read_strings(Store const& store, std::string const& key,
                                                                   Array const& array, Index most_bytes);

}  // namespace graticule::detail::zarr
