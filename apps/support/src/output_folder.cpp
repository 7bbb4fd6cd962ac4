// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/output_folder.hpp>
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/detail/seen_by_all.hpp>
#include <graticule/partition/error.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>

namespace graticule::app {

namespace {

std::filesystem::path stopped_file(std::filesystem::path const& folder) { return folder / "stopped"; }

bool is_missing(std::filesystem::path const& path) noexcept {
  std::error_code error;
  return std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found;
}

void remove_empty(std::vector<std::filesystem::path> const& folders) noexcept {
  std::error_code error;
  for (auto const& folder : folders) {
    if (is_missing(folder)) continue;
    if (!std::filesystem::is_empty(folder, error) || error || !std::filesystem::remove(folder, error)) return;
  }
}

}  // namespace

OutputFolder::OutputFolder(Comm const& comm, std::filesystem::path const& folder, std::function<void()> const& check) {
  auto const create = [&] {
    if (comm.rank() != 0) return;
    std::error_code error;
    for (auto path = std::filesystem::absolute(folder / "").lexically_normal().parent_path();
         is_missing(path) && path.has_relative_path(); path = path.parent_path())
      created_.push_back(path);
    std::filesystem::create_directories(folder, error);
    if (error || !std::filesystem::is_directory(folder))
      throw Error("OutputError", "--output " + folder.string() + " cannot be created: " + error.message());
    lock_.emplace(folder, program_invocation_short_name);
    if (!lock_->weakness().empty()) spdlog::warn("{}", lock_->weakness());
    remove_leftovers(folder);
    require_writable(folder / "report.json");
    if (check) check();
    std::filesystem::remove(stopped_file(folder), error);
  };
  try {
    run_agreed(comm, create);
    require_shared(comm, folder);
  } catch (...) {
    lock_.reset();
    remove_empty(created_);
    throw;
  }
}

void OutputFolder::require_shared(Comm const& comm, std::filesystem::path const& folder) const {
  auto const file = comm.broadcast(lock_ ? lock_->path().string() : std::string(), 0);
  require_seen_by_all(comm, "--output " + folder.string(), file);
}

OutputFolder::~OutputFolder() {
  lock_.reset();
  remove_empty(created_);
}

void declare_output_format(CLI::App& app, std::string& format, std::string const& files) {
  app.add_option("--output-format", format,
                 "Format of " + files + ".\nnetcdf: a netCDF-4 file, .nc\nzarr: a Zarr store, .zarr")
      ->check(CLI::IsMember({"netcdf", "zarr"}))
      ->group("Output");
}

std::string ending_of_fields(std::string const& format) { return format == "zarr" ? ".zarr" : ".nc"; }

void remove_other_outputs(Comm const& comm, std::filesystem::path const& folder,
                          std::function<bool(std::string const&)> const& is_output,
                          std::vector<std::filesystem::path> const& kept) {
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    std::vector<std::filesystem::path> others;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      bool const is_kept = std::any_of(kept.begin(), kept.end(), [&](auto const& file) {
        std::error_code absent;
        return std::filesystem::equivalent(file, entry->path(), absent);
      });
      bool const is_store = entry->is_directory(error) && std::filesystem::exists(entry->path() / "zarr.json", error);
      if (!is_kept && is_output(entry->path().filename().string()) && (is_store || entry->is_regular_file(error)))
        others.push_back(entry->path());
    }
    std::sort(others.begin(), others.end());
    std::string names;
    for (auto const& file : others) {
      std::filesystem::remove_all(file, error);
      if (error)
        throw Error("OutputError", file.string() + ", of an earlier run, cannot be removed: " + error.message());
      names += (names.empty() ? "" : ", ") + file.filename().string();
    }
    if (!names.empty()) spdlog::info("removed {} of an earlier run from {}", names, folder.string());
  });
}

void warn_of_skipped(Comm const& comm, CheckpointStore const& store, bool found) {
  if (comm.rank() != 0) return;
  for (auto const& skipped : store.skipped()) spdlog::warn("skipped {}", skipped.reason);
  if (!found && !store.skipped().empty()) spdlog::warn("no checkpoint is intact: the run starts from the beginning");
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
