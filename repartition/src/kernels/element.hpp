// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of one field element, callable on host and device.
#pragma once

#include <graticule/repartition/detail/dtypes.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace graticule::detail {

KOKKOS_INLINE_FUNCTION float float_of_bits(std::uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

KOKKOS_INLINE_FUNCTION std::uint32_t bits_of_float(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

KOKKOS_INLINE_FUNCTION double double_of_bits(std::uint64_t bits) {
  double value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

KOKKOS_INLINE_FUNCTION std::uint64_t bits_of_double(double value) {
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// 2^exponent of a normal number.
KOKKOS_INLINE_FUNCTION double power_of_two(int exponent) {
  return double_of_bits(std::uint64_t(1023 + exponent) << 52U);
}

KOKKOS_INLINE_FUNCTION float to_float(BFloat16 value) { return float_of_bits(std::uint32_t(value.bits) << 16U); }

// The conversions below choose among results instead of branching, so that loops over them are vectorised; magnitudes
// are signed for the same reason.

KOKKOS_INLINE_FUNCTION float to_float(Half value) {
  auto const sign = std::uint32_t(value.bits & 0x8000U) << 16U;
  auto const magnitude = std::int32_t(value.bits & 0x7fffU);
  // Scaling by 2^112 moves the exponent bias from 15 to 127 and makes subnormals exact as well.
  std::uint32_t const scaled = bits_of_float(float_of_bits(std::uint32_t(magnitude) << 13U) * 0x1p112F);
  std::uint32_t const special = 0x7f800000U | std::uint32_t(magnitude) << 13U;
  return float_of_bits(sign | (magnitude >= 0x7c00 ? special : scaled));
}

/// Bits of the nearest 16-bit number, ties to even, in one rounding; overflow becomes infinity, NaN stays NaN.
template <int fraction_bits, int bias>
KOKKOS_INLINE_FUNCTION std::uint16_t narrowed(double value) {
  std::uint64_t const bits = bits_of_double(value);
  auto const sign = std::int32_t(bits >> 48U) & 0x8000;
  // Exponent and 20 bits of fraction, the last of which says whether anything follows.
  bool const more = std::int32_t(bits) != 0;
  std::int32_t const magnitude = (std::int32_t(bits >> 32U) & 0x7fffffff) | (more ? 1 : 0);
  constexpr int shift = 20 - fraction_bits;
  constexpr std::int32_t rebias = (1023 - bias) << 20;
  constexpr std::int32_t infinity = (2 * bias + 1) << fraction_bits;
  std::int32_t const half_up = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
  std::int32_t const normal = (magnitude - rebias + half_up) >> shift;
  // Below the normal range: the sum with a number whose last bit counts one unit rounds to units.
  double const shifted = double_of_bits(bits & 0x7fff'ffff'ffff'ffffU) + power_of_two(53 - bias - fraction_bits);
  auto const subnormal = std::int32_t(bits_of_double(shifted));
  std::int32_t result = normal < infinity ? normal : infinity;
  result = magnitude < rebias + (1 << 20) ? subnormal : result;
  result = magnitude > 0x7ff00000 ? infinity | 1 << (fraction_bits - 1) : result;
  return std::uint16_t(sign | result);
}

KOKKOS_INLINE_FUNCTION Half to_half(double value) { return {narrowed<10, 15>(value)}; }
KOKKOS_INLINE_FUNCTION BFloat16 to_bfloat16(double value) { return {narrowed<7, 127>(value)}; }

template <StridedOp op, class T>
KOKKOS_INLINE_FUNCTION void combine(T& to, T from) {
  if constexpr (op == StridedOp::negate)
    to = T(-from);
  else if constexpr (op == StridedOp::add)
    to = T(to + from);
  else if constexpr (op == StridedOp::subtract)
    to = T(to - from);
}

template <StridedOp op, class T>
KOKKOS_INLINE_FUNCTION void combine(Complex<T>& to, Complex<T> from) {
  combine<op>(to.real, from.real);
  combine<op>(to.imag, from.imag);
}

template <StridedOp op>
KOKKOS_INLINE_FUNCTION void combine(Half& to, Half from) {
  float sum = to_float(to);
  combine<op>(sum, to_float(from));
  to = to_half(double(sum));
}

template <StridedOp op>
KOKKOS_INLINE_FUNCTION void combine(BFloat16& to, BFloat16 from) {
  float sum = to_float(to);
  combine<op>(sum, to_float(from));
  to = to_bfloat16(double(sum));
}

template <class T>
inline constexpr bool is_short_integer = std::is_integral_v<T> && sizeof(T) < 8;

/// Into the range of a short integer; NaN gives 0.
template <class T>
KOKKOS_INLINE_FUNCTION double saturated(double value) {
  constexpr double low = double(std::numeric_limits<T>::min());
  constexpr double high = double(std::numeric_limits<T>::max());
  double const raised = value > low ? value : low;
  double const capped = raised < high ? raised : high;
  return value == value ? capped : 0.0;
}

/// To the nearest, ties to even, of a number in range: the sum with a number whose last bit counts 1 has the integer in
/// its last bits.
template <class T>
KOKKOS_INLINE_FUNCTION T rounded(double value) {
  return T(std::int32_t(bits_of_double(value + 0x1.8p52)));
}

/// To the nearest integer, ties to even, saturated; NaN gives 0.
template <class T>
KOKKOS_INLINE_FUNCTION T round_to_integer(double value) {
  if constexpr (is_short_integer<T>) {
    return rounded<T>(saturated<T>(value));
  } else {
    if (!(value == value)) return 0;
    if (value >= 0x1p63) return std::numeric_limits<T>::max();
    if (value < -0x1p63) return std::numeric_limits<T>::min();
    double const shift = value < 0 ? -0x1p52 : 0x1p52;
    bool const has_fraction = value > -0x1p52 && value < 0x1p52;
    return T(has_fraction ? value + shift - shift : value);
  }
}

/// The nearest element, rounded once; integers saturate.
template <class T>
KOKKOS_INLINE_FUNCTION T from_double(double value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else if constexpr (std::is_same_v<T, Complex<float>>)
    return {float(value), 0.0F};
  else if constexpr (std::is_same_v<T, Complex<double>>)
    return {value, 0.0};
  else if constexpr (std::is_integral_v<T>)
    return round_to_integer<T>(value);
  else
    return T(value);
}

/// The number that a real element holds.
template <class T>
KOKKOS_INLINE_FUNCTION double to_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return double(to_float(value));
  else
    return double(value);
}

}  // namespace graticule::detail
