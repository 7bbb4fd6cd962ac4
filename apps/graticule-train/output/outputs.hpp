// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "map_picture.hpp"
#include "run.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace graticule::train {

/// The first line of loss.csv, and that of a step (from 0).
[[nodiscard]] std::string loss_header();
[[nodiscard]] std::string loss_line(NetworkSettings const& settings, Index step, Index num_steps, double loss);
/// The text of loss.csv: `step,epoch,learning_rate,loss`, one line per optimizer step, numbers with all their digits.
[[nodiscard]] std::string loss_table(TrainedNetwork const& network, NetworkSettings const& settings);
/// The text of validation.csv: `step,epoch,loss`, one line per validation.
[[nodiscard]] std::string validation_table(TrainedNetwork const& network);

/// The picture of one sample: the first that validates, or the first of all. Complete on rank 0. Collective.
[[nodiscard]] app::MapPicture picture_of(RunResult const& result, RunSettings const& settings);

/// The memory of each rank for samples and batches, how much of it holds samples at the end, what was read from the
/// file, as it lies there, and how often a field of a sample was read or found in memory. Collective.
[[nodiscard]] nlohmann::ordered_json input_report(RunResult const& result);

/// What a network's inputs and outputs mean: means and scales by which `(value - mean) / scale` was computed, per level
/// of each input and target; of forecasts, per channel, and for tendencies likewise.
[[nodiscard]] nlohmann::ordered_json normalisation_report(RunResult const& result);

/// What was trained and how.
[[nodiscard]] nlohmann::ordered_json network_report(RunResult const& result, NetworkSettings const& settings);

/// How parameters were kept and updated, and what that sent: least, mean and most of any rank. Collective.
[[nodiscard]] nlohmann::ordered_json parallel_report(RunResult const& result, NetworkSettings const& settings);

/// Per target {`rmse`, `climatology_rmse`, `skill`, `units`, `levels`}; null without validation samples.
[[nodiscard]] nlohmann::ordered_json validation_report(RunResult const& result);

}  // namespace graticule::train
