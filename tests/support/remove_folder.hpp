// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ftw.h>

#include <cstdio>
#include <filesystem>

namespace graticule::test {

/// Removes a folder and all in it, as far as it can. LibTorch's wheels export parts of `std::filesystem` of an older
/// libstdc++, with which `remove_all` of that of GCC 13 jumps to address 0.
inline void remove_folder(std::filesystem::path const& folder) {
  constexpr int most_open = 16;
  (void)::nftw(
      folder.c_str(), [](char const* path, struct stat const*, int, FTW*) { return std::remove(path); }, most_open,
      FTW_DEPTH | FTW_PHYS);
}

}  // namespace graticule::test
