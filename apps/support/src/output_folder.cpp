// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/output_folder.hpp>
#include <graticule/field_io/complete_file.hpp>
#include <graticule/partition/error.hpp>

#include <spdlog/spdlog.h>

#include <system_error>

namespace graticule::app {

namespace {

std::filesystem::path stopped_file(std::filesystem::path const& folder) { return folder / "stopped"; }

}  // namespace

void make_output_folder(Comm const& comm, std::filesystem::path const& folder, std::function<void()> const& check) {
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error || !std::filesystem::is_directory(folder))
      throw Error(Fault::usage, "BadOption", "--output " + folder.string() + " cannot be created: " + error.message());
    if (check) check();
    std::filesystem::remove(stopped_file(folder), error);
  });
}

int end_early(Context& context, std::filesystem::path const& folder, std::string const& reason,
              std::string const& place) {
  context.report.data()["stopped_by"] = reason;
  run_agreed(context.comm, [&] {
    if (context.comm.rank() == 0) write_complete_file(stopped_file(folder), reason + " after " + place + "\n");
  });
  spdlog::info("stopped by {} after {}, with a checkpoint; run the same command to resume", reason, place);
  return run_again;
}

}  // namespace graticule::app
