// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/device.hpp>

#include "run.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <string>

namespace graticule::train {

/// The command line of graticule-train.
struct Options {
  RunSettings run;
  std::filesystem::path output = "graticule-train";
  std::string output_format = "netcdf";  ///< of the predictions
  bool verify = false;
  Index checkpoint_every = 0;
  std::string resume = "auto";  ///< `auto`, `never`, or a file
  std::string time_limit = "auto";
  std::string shard_parameters = "none";
  std::string memory = "auto";
  app::DeviceOption device;
  /// Of a forecast, as written; without `lead`, fields of the same time are learned.
  ForecastSettings forecast;
  std::string lead;
  std::string train_dates;
  std::string validate_dates;
  std::string test_dates;
  Index rollout = 1;
  std::vector<std::string> rollout_schedule;
  std::filesystem::path channel_weights;
  /// Whether an option is on the command line or in the configuration file; of `declare_options`.
  std::function<bool(std::string const&)> is_given = [](std::string const&) { return false; };
};

/// Declares all options of this driver; values land in `options`, which must outlive `app`.
void declare_options(CLI::App& app, Options& options);

/// Defaults that follow from other options: an exported network has its own layers and takes its channels as they are.
/// Options without effect get an empty default, so that --dump-config leaves them out.
void settle_defaults(CLI::App& app, Options const& options);

/// Rules that one option alone cannot break, and settings that follow from several.
/// @throws `BadOption` (usage)
void check_options(Options& options);

}  // namespace graticule::train
