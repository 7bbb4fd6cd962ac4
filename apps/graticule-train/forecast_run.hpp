// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "run.hpp"

namespace graticule::train {

/// `run_training` of a forecast. @pre `settings.forecast`
[[nodiscard]] RunResult run_forecast_training(Comm const& comm, RunSettings const& settings,
                                              RunObserver const& observer);

}  // namespace graticule::train
