// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/progress.hpp>
#include <graticule/app/report.hpp>
#include <graticule/partition/comm.hpp>

#include <CLI/CLI.hpp>

#include <functional>
#include <optional>
#include <string>

/// The common part of all drivers: start and end, command line, logs, progress, report and exit codes.
namespace graticule::app {

/// Exit codes of every driver.
enum ExitCode : int {
  good = 0,
  run_time_failure = 1,
  wrong_usage = 2,
  bad_input = 3,
  check_failed = 4,
  run_again = 85,  ///< stopped early with a valid checkpoint
};

/// Options of every driver.
struct CommonOptions {
  std::string report;  ///< path of the JSON report; none when empty
  ProgressMode progress = ProgressMode::automatic;
  std::string log_level = "info";
  int num_threads = 0;  ///< 0: the available cores, divided among the ranks of the node
  bool allow_single_rank = false;
  std::optional<double> stall_limit;  ///< seconds; none: as set by the environment, else ten minutes
};

/// Arguments of the driver's `run`.
struct Context {
  Comm const& comm;
  CommonOptions const& options;
  Report& report;
  int num_threads = 1;

  /// A progress line for `num_steps` steps, shown by rank 0 in the requested form.
  [[nodiscard]] Progress progress(std::string label, Index num_steps) const {
    return {comm.rank() == 0 ? options.progress : ProgressMode::none, std::move(label), num_steps};
  }
};

struct Driver {
  std::string name;         ///< `graticule-make-fields`
  std::string description;  ///< one sentence for --help
  /// Declares the driver's own options, by long names; lists are separated by commas. The configuration file accepts
  /// the same names.
  std::function<void(CLI::App&)> declare;
  /// Called when the command line is read, before --dump-config answers: gives options that were not given the default
  /// that follows from others, and those that have no effect an empty one, by `default_str`.
  std::function<void(CLI::App&)> settle_defaults = {};
  /// Does the work, on every rank. Logs by `spdlog::info` (rank 0) and `spdlog::warn` (every rank).
  /// @return an exit code, the same on all ranks
  std::function<int(Context&)> run;
  std::string torch_version = "none";
  /// Called with the number of threads before `run`; for libraries with their own threads.
  std::function<void(int)> set_threads = {};
  /// Called on every rank before Kokkos starts; collective. For the choice of a device.
  std::function<void(Comm const&)> before_start = {};
};

/// The main function of a driver: starts MPI and Kokkos, reads the command line, runs, and ends all ranks.
///
/// Options: --help, --version, --config, --dump-config, --report, --progress, --log-level, --threads,
/// --stall-limit, --allow-single-rank. An exception gives one message on stderr, from the lowest rank that threw, and
/// the exit code of its `Fault`. Ranks that wait for a rank that threw alone get `PeerFailed` a second later; if they
/// do not end within seconds, `MPI_Abort` ends them. A wait beyond the limit (ten minutes) is an error.
/// The process ends here, with the same exit code on all ranks, and runs no destructors of static objects: LibTorch
/// would take a third of a short run to forget its operators.
[[noreturn]] void run_driver(int argc, char** argv, Driver const& driver);

/// Output of --version.
[[nodiscard]] std::string version_text(Driver const& driver);

}  // namespace graticule::app
