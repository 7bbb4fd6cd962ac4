// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "trained_network.hpp"

#include <string>

namespace graticule::train {

/// All settings that the losses of a training depend on, one option per line, for comparison with a checkpoint. Not in
/// it: ranks, teams and cuts, which change the losses by rounding only; the names of files, which may move; and how
/// long the training goes on where its steps do not depend on that.
[[nodiscard]] std::string settings_text(NetworkSettings const& settings);
/// Of the data of a regression.
[[nodiscard]] std::string data_text(TrainingData const& data);
[[nodiscard]] inline std::string settings_text(NetworkSettings const& settings, TrainingData const& data) {
  return settings_text(settings) + data_text(data);
}

/// @param file is named in the error
/// @throws `StateMismatch` (usage), with the first line that differs
void require_same_training(std::string const& file, std::string const& saved, std::string const& current);

}  // namespace graticule::train
