// SPDX-License-Identifier: BSD-3-Clause
// Checks for free disk space before writes that must not fail.
#pragma once

#include <graticule/partition/indices.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace graticule::detail {

/// Reserves room on the disk for the bytes from `offset` on of an open file, whose length stays, if as much is free: an
/// attempt that fails would leave other programs without any for a while. @return why there is no room: the disk, a
/// quota or a limit; empty when there is
[[nodiscard]] std::string reserve_on_disk(int file, Index offset, Index num_bytes);

/// Asks what is free for the bytes from `offset` on of an open file and for `num_others` of other files on its disk.
/// @return why that is too little: the disk or a limit; empty when it suffices
[[nodiscard]] std::string lack_of_room(int file, Index offset, Index num_bytes, Index num_others = 0);

/// Maximum length of a file of this process.
[[nodiscard]] Index file_size_limit();

/// Cause of a failed write, extracted from the messages of MPI-IO and HDF5: `No space left on device`. Where
/// they give no reason (Open MPI's layer never does), the disk is asked for more room. All of `error` when that is none
/// of the things that a user can mend.
[[nodiscard]] std::string disk_failure(std::string_view error, std::filesystem::path const& file);

}  // namespace graticule::detail
