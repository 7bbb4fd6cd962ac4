// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "grid.hpp"

#include <vector>

namespace graticule::train {

/// Area of each row as a part of the sphere: `nn::latitude_weights`, in a header without LibTorch.
[[nodiscard]] std::vector<double> row_weights(Grid const& grid);

}  // namespace graticule::train
