// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::models {}
namespace graticule::samples {}

// Samples, and what a checkpoint says of fields, grids and channels, have their names in the driver; names of
// `forecasting` are qualified.
namespace graticule::train {
using namespace models;
using namespace samples;
}  // namespace graticule::train
