// SPDX-License-Identifier: BSD-3-Clause
// What a transform does with one element, callable on host and device.
#pragma once

#include "element.hpp"

namespace graticule::detail {

using Wide = Complex<double>;

KOKKOS_INLINE_FUNCTION double not_a_number() {
  std::uint64_t const bits = 0x7ff8'0000'0000'0000U;
  double value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// The stored value of missing cells as their type holds it.
KOKKOS_INLINE_FUNCTION double rounded_fill(Packed const& packed, DType dtype) {
  double result = packed.fill;
  with_type(dtype, [&]<class T>(T*) {
    if constexpr (!is_complex_element<T>) result = to_double(from_double<T>(packed.fill));
  });
  return result;
}

KOKKOS_INLINE_FUNCTION Wide load_element(DType dtype, void const* first, Index offset) {
  Wide result{0, 0};
  with_type(dtype, [&]<class T>(T*) {
    T const value = static_cast<T const*>(first)[offset];
    if constexpr (is_complex_element<T>)
      result = {double(value.real), double(value.imag)};
    else
      result.real = to_double(value);
  });
  return result;
}

KOKKOS_INLINE_FUNCTION void store_element(DType dtype, void* first, Index offset, Wide value) {
  with_type(dtype, [&]<class T>(T*) {
    T& cell = static_cast<T*>(first)[offset];
    if constexpr (is_complex_element<T>)
      cell = {decltype(cell.real)(value.real), decltype(cell.imag)(value.imag)};
    else
      cell = from_double<T>(value.real);
  });
}

KOKKOS_INLINE_FUNCTION double unpacked(Packed const& packed, double fill, double stored) {
  if (packed.has_fill && stored == fill) return not_a_number();
  if (packed.scale == 1 && packed.offset == 0) return stored;  // keeps the sign of 0
  return stored * packed.scale + packed.offset;
}

KOKKOS_INLINE_FUNCTION double packed_as(Packed const& packed, double value) {
  double const stored = packed.scale == 1 && packed.offset == 0 ? value : (value - packed.offset) / packed.scale;
  return stored == stored || !packed.has_fill ? stored : packed.fill;
}

/// A real factor takes no part of one component into the other: infinities stay where they are.
KOKKOS_INLINE_FUNCTION Wide times(double const (&factor)[2], Wide value) {
  if (factor[1] == 0) return {factor[0] * value.real, factor[0] * value.imag};
  return {factor[0] * value.real - factor[1] * value.imag, factor[0] * value.imag + factor[1] * value.real};
}

}  // namespace graticule::detail
