// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <cstdint>

namespace graticule::detail {

/// The bytes between the first and the last that a view holds: `[lo, hi)`; equal where it holds none.
struct AddressRange {
  std::uintptr_t lo = 0;
  std::uintptr_t hi = 0;
};
[[nodiscard]] AddressRange address_range(FieldView const& view) noexcept;

/// True when a byte belongs to elements of both views, by their addresses, whatever their types and strides.
///
/// Exact: interleaved channels, halves of rows, and blocks of one array share nothing. Views whose strides are so
/// entangled that 100,000 steps do not decide count as sharing; no pair with nested strides comes near that.
/// Example: 3 elements 16 bytes apart from address 0 and 3 from address 8 on, 8 bytes each, share nothing.
[[nodiscard]] bool share_memory(FieldView const& a, FieldView const& b);

}  // namespace graticule::detail
