// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "run.hpp"

#include <filesystem>

namespace graticule::train {

/// Writes `u_truth`, `u_prediction` and `u_difference` (prediction - truth) of every target u, with the coordinates of
/// the input file: latitude and longitude last, samples before. Missing cells hold the fill value. Collective.
/// @throws `OutputError`
void write_predictions(RunResult const& result, RunSettings const& settings, std::filesystem::path const& path);

}  // namespace graticule::train
