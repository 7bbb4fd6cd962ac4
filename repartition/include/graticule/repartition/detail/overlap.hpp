// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <cstdint>

namespace graticule::detail {

/// The byte range of a view: `[lo, hi)`; both are equal for an empty view.
struct AddressRange {
  std::uintptr_t lo = 0;
  std::uintptr_t hi = 0;
};
[[nodiscard]] AddressRange address_range(FieldView const& view) noexcept;

/// True when the views share a byte, by the addresses of their elements, for any types and strides.
///
/// Exact: interleaved channels, halves of rows, and blocks of one array do not overlap. Views with strides for which
/// 100,000 steps give no answer count as overlapping; no pair with nested strides comes near that.
/// Example: 3 elements of 8 bytes, 16 bytes apart from address 0, and 3 such elements from address 8 do not overlap.
[[nodiscard]] bool share_memory(FieldView const& a, FieldView const& b);

/// True when two elements of the view share memory: what is written through it would depend on the order.
///
/// As exact as `share_memory`. Example: 4 x 3 elements with strides {2, 1} share the last of each row with the next.
[[nodiscard]] bool shares_own_memory(FieldView const& view);

}  // namespace graticule::detail
