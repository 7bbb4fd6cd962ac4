// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/detail/folder_lock.hpp>
#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace graticule::app {

/// Declares `--output-format` of fields. @param files what has this format, for the help
void declare_output_format(CLI::App& app, std::string& format, std::string const& files);
/// Ending of the names of fields: `.nc`, or `.zarr` for `zarr`.
[[nodiscard]] std::string ending_of_fields(std::string const& format);

/// Removes results of earlier runs from the folder of `--output`: regular files, and Zarr stores, with names that
/// `is_output` accepts and that are none of `kept`, which are the results of this run and its inputs. Collective; rank
/// 0 does it and logs a line. @throws `OutputError`
void remove_other_outputs(Comm const& comm, std::filesystem::path const& folder,
                          std::function<bool(std::string const&)> const& is_output,
                          std::vector<std::filesystem::path> const& kept);

/// The folder of `--output`, for the lifetime of a run, which no other run may use meanwhile.
class OutputFolder {
 public:
  /// Creates the folder, locks it, and removes the file `stopped` of an earlier run and temporary files of killed ones.
  /// Collective; rank 0 does it.
  /// @param check further conditions on the folder, tested on rank 0 before the removal
  /// @throws `OutputError` if the folder cannot be created or written to, is in use by another run, or is another one
  /// on some nodes; what `check` throws
  OutputFolder(Comm const& comm, std::filesystem::path const& folder, std::function<void()> const& check = {});
  OutputFolder(OutputFolder const&) = delete;
  OutputFolder& operator=(OutputFolder const&) = delete;
  /// Unlocks the folder. Removes the folders that it created and that are still empty: the run has failed before its
  /// first file.
  ~OutputFolder();

 private:
  void require_shared(Comm const& comm, std::filesystem::path const& folder) const;

  std::vector<std::filesystem::path> created_;  ///< on rank 0, the innermost first
  std::optional<FolderLock> lock_;              ///< on rank 0
};

/// Warns, on rank 0, of each checkpoint that `store.newest()` has skipped, and of a start from the beginning where it
/// has `found` none that is intact.
void warn_of_skipped(Comm const& comm, CheckpointStore const& store, bool found);

/// Reports a run that stopped early with a checkpoint: `stopped_by` in the report, and `reason after place` in the file
/// `stopped` of the output folder, which scripts read because launchers lose exit codes. Collective.
/// @param reason as of `reason_to_stop`  @param place such as `step 3 of 10`
/// @return the exit code `run_again`
[[nodiscard]] int end_early(Context& context, std::filesystem::path const& folder, std::string const& reason,
                            std::string const& place);

}  // namespace graticule::app
