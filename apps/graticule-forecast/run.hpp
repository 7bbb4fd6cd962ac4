// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/device.hpp>
#include <graticule/app/driver.hpp>
#include <graticule/app/partition.hpp>
#include <graticule/models/description.hpp>
#include <graticule/samples/detail/missing_cells.hpp>
#include <graticule/samples/detail/time_steps.hpp>

#include "names.hpp"
#include "scores.hpp"
#include "smooth_noise.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace graticule::forecast {

/// The command line of graticule-forecast: a member per option.
struct Options {
  std::vector<std::string> checkpoints;  ///< or `model`
  std::filesystem::path model;           ///< an exported network, which the following describe
  std::vector<std::string> prognostic;
  std::vector<std::string> diagnostic;
  std::string lead;
  std::string predict = "state";
  std::string input;
  samples::MissingRule missing = samples::MissingRule::warn;
  samples::RepeatedColumn repeated = samples::RepeatedColumn::refuse;
  std::vector<std::string> start;
  Index steps = 40;
  Index every = 1;
  std::optional<Index> members;  ///< none: one of each network
  int teams = 1;
  std::optional<double> perturbation;  ///< none: that of the network's training ensemble, or 0.5
  Index maps = 4;
  std::uint64_t seed = 1;
  std::filesystem::path output = "forecast";
  std::string output_format = "netcdf";
  std::string resume = "auto";
  std::string time_limit = "auto";
  Index checkpoint_every = 0;
  app::PartitionChoice partition;
  app::DeviceOption device;
  std::string given;                   ///< options that a resumed forecast must be given again, as written
  std::string network_device = "cpu";  ///< of this rank, as LibTorch names it
};

/// Forecasts from all dates, writes and scores them. Collective. @return an exit code
[[nodiscard]] int run_forecast(app::Context& context, Options const& options);

/// The initial times of `--start`: dates, or all times of periods `A..B`.
/// @throws `BadOption` (usage) for a date that is not on the axis or has no history
[[nodiscard]] std::vector<Seconds> start_times(std::vector<std::string> const& texts, samples::TimeSteps const& steps,
                                               Index history);

/// What `scores.png` and `spectra.png` draw.
struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  int colour = 0;
  bool is_dashed = false;
};
struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool is_logarithmic = false;  ///< both axes
  std::vector<Curve> curves;
};

/// Draws charts side by side, up to three in a row, as a PNG file. Serial. @throws `OutputError`
void draw_charts(std::string const& title, std::vector<Chart> const& charts, std::filesystem::path const& path);

}  // namespace graticule::forecast
