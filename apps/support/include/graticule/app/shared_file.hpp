// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <string>

namespace graticule::app {

/// The bytes of a file, which rank 0 reads for all ranks. Collective; an error of rank 0 is one on all ranks.
/// @param option that names the file, such as `--config`; empty: an argument without a name
/// @throws as `read_text`, or with an option `BadOption` (usage), which names it
[[nodiscard]] std::string read_shared(Comm const& comm, std::filesystem::path const& path,
                                      std::string const& option = {});

}  // namespace graticule::app
