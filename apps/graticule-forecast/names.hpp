// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::forecasting {}
namespace graticule::models {}

// Forecasts, and what a checkpoint says of them, have their names in the driver; names of `samples` are qualified.
namespace graticule::forecast {
using namespace forecasting;
using namespace models;
}  // namespace graticule::forecast
