// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>
#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <functional>
#include <string>

namespace graticule::app {

/// Creates the folder of `--output` and removes the file `stopped` of an earlier run. Collective; rank 0 does it.
/// @param check further conditions on the folder, tested on rank 0 before the removal
/// @throws `BadOption` (usage) if the folder cannot be created; what `check` throws
void make_output_folder(Comm const& comm, std::filesystem::path const& folder, std::function<void()> const& check = {});

/// Reports a run that stopped early with a checkpoint: `stopped_by` in the report, and `reason after place` in the file
/// `stopped` of the output folder, which scripts read because launchers lose exit codes. Collective.
/// @param reason as of `reason_to_stop`  @param place such as `step 3 of 10`
/// @return the exit code `run_again`
[[nodiscard]] int end_early(Context& context, std::filesystem::path const& folder, std::string const& reason,
                            std::string const& place);

}  // namespace graticule::app
