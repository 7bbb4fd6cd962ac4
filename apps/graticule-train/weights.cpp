// SPDX-License-Identifier: BSD-3-Clause
#include "weights.hpp"

#include <graticule/nn_bridge/loss.hpp>

namespace graticule::train {

std::vector<double> row_weights(Grid const& grid) { return nn::latitude_weights(grid.latitudes); }

}  // namespace graticule::train
