// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::models {}

// What a checkpoint says of fields, grids, states and times has its names in the library.
namespace graticule::samples {
using namespace models;
}
