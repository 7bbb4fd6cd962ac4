// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>

namespace graticule {

/// The bytes of a file, such as one of settings. Not collective.
/// @throws `NoSuchFile`; `UnreadableFile`, with the reason, also for pipes and devices, whose reading might never end
[[nodiscard]] std::string read_text(std::filesystem::path const& path);

}  // namespace graticule
