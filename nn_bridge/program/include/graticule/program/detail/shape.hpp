// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace graticule::program {

/// Extents of a tensor, outermost axis first; row-major.
using Shape = std::vector<std::int64_t>;

/// Product of the extents.
[[nodiscard]] std::int64_t num_elements(Shape const& shape);

}  // namespace graticule::program
