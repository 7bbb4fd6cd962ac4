// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule {

/// Strides of dense memory whose last axis is contiguous.
[[nodiscard]] Indices row_major_strides(Indices const& extents);

}  // namespace graticule
