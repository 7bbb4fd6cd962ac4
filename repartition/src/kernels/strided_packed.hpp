// SPDX-License-Identifier: BSD-3-Clause
// Rows of transforms that pack floating-point numbers as short integers, or unpack them.
#pragma once

#include <graticule/repartition/detail/strided.hpp>

#include <optional>

namespace graticule::detail {

/// How dense rows are converted in one loop. Results are those of the general transform, bit for bit.
struct PackedRows {
  using Convert = void (*)(void* to, void const* from, Index count, PackedRows const& rows);

  double alpha = 1;
  double scale = 1;
  double offset = 0;
  double inverse_scale = 1;
  bool multiply = false;  ///< by the inverse scale, where the result is certain
  bool has_fill = false;
  Unfit* unfit = nullptr;  ///< where numbers that integers do not hold are noted
  double fill = 0;         ///< the stored value of missing cells; packing without one stores 0
  Convert convert = nullptr;
};

/// Nothing where the general transform is needed: for other types, strided rows, sums and updates of old values.
/// `convert` needs rows that share no memory.
[[nodiscard]] std::optional<PackedRows> packed_rows(StridedTask const& task);

}  // namespace graticule::detail
