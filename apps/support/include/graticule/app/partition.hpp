// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include <span>
#include <string>

namespace graticule::app {

/// Division of ranks and rows, as on the command line.
struct PartitionChoice {
  std::string partition = "auto";  ///< `auto`, or ranks over latitude and longitude such as `4x1`
  std::string cuts = "balanced";   ///< `balanced`, `area`, or rows per part such as `61,60,60,60`
};

/// Divides the grid among `num_ranks` ranks.
///
/// `auto` takes latitude bands as long as each has `min_band_rows` rows: their halos are whole rows, contiguous in
/// memory and in the file; beyond that the smallest number of longitude parts that keeps them so tall. `area` cuts
/// bands of equal area, `balanced` bands of equal numbers of rows; longitude is always cut evenly. A list names the
/// rows of each band, and after an `x` the columns of each part: `121,120x240,240`.
/// @param row_weights area of each row
/// @throws `BadOption`, `BadCuts` (usage)
[[nodiscard]] Layout choose_layout(PartitionChoice const& choice, int num_ranks, std::span<double const> row_weights,
                                   Index num_columns);

inline constexpr Index min_band_rows = 8;

}  // namespace graticule::app
