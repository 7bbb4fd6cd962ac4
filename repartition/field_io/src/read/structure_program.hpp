// SPDX-License-Identifier: BSD-3-Clause
// Where the program `graticule-read-structure` lies.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace graticule::detail {

inline constexpr auto structure_program = "graticule-read-structure";
/// The environment variable that names it, or says `none`.
inline constexpr auto structure_variable = "GRATICULE_READ_STRUCTURE";

/// Its paths where it exists, the likeliest first: next to the program or shared library that holds this code, where
/// the installation has its programs as seen from its libraries, in the folder that the CMake package named when this
/// program was compiled, where it was built, where it was to be installed, and in `PATH`.
[[nodiscard]] std::vector<std::filesystem::path> find_structure_programs();

/// The folders that were searched, for an error's text.
[[nodiscard]] std::string structure_program_folders();

}  // namespace graticule::detail
