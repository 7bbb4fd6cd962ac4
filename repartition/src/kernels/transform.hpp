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

/// What stands for `value`, before it is rounded; NaN for missing ones.
KOKKOS_INLINE_FUNCTION double scaled(Packed const& packed, double value) {
  return packed.scale == 1 && packed.offset == 0 ? value : (value - packed.offset) / packed.scale;
}

KOKKOS_INLINE_FUNCTION double filled(Packed const& packed, double stored) {
  return stored == stored || !packed.has_fill ? stored : packed.fill;
}

/// The range of numbers that are rounded to a value of `T`: `low <= x < high`, as ties go to even integers.
template <class T>
struct RoundedRange {
  static constexpr double low = sizeof(T) == 8 ? -0x1p63 : double(std::numeric_limits<T>::min()) - 0.5;
  static constexpr double high = sizeof(T) == 8 ? 0x1p63 : double(std::numeric_limits<T>::max()) + 0.5;
};

/// Notes why `T` does not hold `stored`, which comes from `scaled`. @param fill as `T` holds it
template <class T>
KOKKOS_INLINE_FUNCTION void note_unfit(Unfit& unfit, bool has_fill, double fill, double stored) {
  if (!(stored == stored)) {
    if (!has_fill) Kokkos::atomic_or(&unfit.not_a_number, 1);
  } else if (!(stored >= RoundedRange<T>::low && stored < RoundedRange<T>::high)) {
    Kokkos::atomic_or(&unfit.beyond, 1);
  } else if (has_fill && double(round_to_integer<T>(stored)) == fill) {
    Kokkos::atomic_or(&unfit.missing, 1);
  }
}

/// A real factor takes no part of one component into the other: infinities stay where they are.
KOKKOS_INLINE_FUNCTION Wide times(double const (&factor)[2], Wide value) {
  if (factor[1] == 0) return {factor[0] * value.real, factor[0] * value.imag};
  return {factor[0] * value.real - factor[1] * value.imag, factor[0] * value.imag + factor[1] * value.real};
}

}  // namespace graticule::detail
