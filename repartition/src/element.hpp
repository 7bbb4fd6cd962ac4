// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of one field element, callable on host and device.
#pragma once

#include <graticule/repartition/detail/strided.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace graticule::detail {

/// Complex number of plain parts: `std::complex` cannot be used in device code.
template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T real;
  T imag;
};

/// Bits of an IEEE binary16 number.
struct Half {
  std::uint16_t bits;
};

/// Bits of a bfloat16 number: the upper half of an IEEE binary32.
struct BFloat16 {
  std::uint16_t bits;
};

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

KOKKOS_INLINE_FUNCTION float to_float(BFloat16 value) { return float_of_bits(std::uint32_t(value.bits) << 16U); }

/// Round to nearest even; NaN stays NaN.
KOKKOS_INLINE_FUNCTION BFloat16 to_bfloat16(float value) {
  std::uint32_t const bits = bits_of_float(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {std::uint16_t((bits >> 16U) | 0x40U)};
  return {std::uint16_t((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U)};
}

KOKKOS_INLINE_FUNCTION float to_float(Half value) {
  std::uint32_t const sign = std::uint32_t(value.bits & 0x8000U) << 16U;
  std::uint32_t const magnitude = value.bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return float_of_bits(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13U);
  // Scaling by 2^112 moves the exponent bias from 15 to 127 and makes subnormals exact as well.
  float const scaled = float_of_bits(magnitude << 13U) * 0x1p112F;
  return float_of_bits(sign | bits_of_float(scaled));
}

/// Round to nearest even; overflow becomes infinity, NaN stays NaN.
KOKKOS_INLINE_FUNCTION Half to_half(float value) {
  std::uint32_t const bits = bits_of_float(value);
  auto const sign = std::uint16_t(bits >> 16U & 0x8000U);
  std::uint32_t const magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return {std::uint16_t(sign | 0x7e00U)};
  if (magnitude >= 0x477ff000U) return {std::uint16_t(sign | 0x7c00U)};
  if (magnitude < 0x38800000U) {
    // Below the normal range: adding 2^-1 leaves the value in units of 2^-24 in the low bits, rounded by the sum.
    float const shifted = float_of_bits(magnitude) + 0.5F;
    return {std::uint16_t(sign | (bits_of_float(shifted) - 0x3f000000U))};
  }
  std::uint32_t const rounded = magnitude + 0xfffU + (magnitude >> 13U & 1U);
  return {std::uint16_t(sign | (rounded - 0x38000000U) >> 13U)};
}

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
  to = to_half(sum);
}

template <StridedOp op>
KOKKOS_INLINE_FUNCTION void combine(BFloat16& to, BFloat16 from) {
  float sum = to_float(to);
  combine<op>(sum, to_float(from));
  to = to_bfloat16(sum);
}

/// `value` as a float whose last bit is odd unless it is exact: rounding that to fewer bits equals rounding `value`.
KOKKOS_INLINE_FUNCTION float round_to_odd(double value) {
  auto const nearest = float(value);
  auto const back = double(nearest);
  std::uint32_t bits = bits_of_float(nearest);
  bool const too_large = value < 0 ? back < value : back > value;
  bool const inexact = back != value;
  bits -= too_large ? 1U : 0U;
  bits |= inexact ? 1U : 0U;
  return float_of_bits(bits);
}

/// To the nearest integer, ties to even, saturated; NaN gives 0.
template <class T>
KOKKOS_INLINE_FUNCTION T round_to_integer(double value) {
  if constexpr (sizeof(T) < 8) {
    constexpr double low = double(std::numeric_limits<T>::min());
    constexpr double high = double(std::numeric_limits<T>::max());
    // Adding a number whose last bit counts 1 rounds, in the mode of all arithmetic.
    constexpr double shift = 0x1.8p52;
    double result = value == value ? value : 0.0;
    result = result < low ? low : result;
    result = result > high ? high : result;
    return T(std::int32_t(result + shift - shift));
  } else {
    if (!(value == value)) return 0;
    if (value >= 0x1p63) return std::numeric_limits<T>::max();
    if (value < -0x1p63) return std::numeric_limits<T>::min();
    double const shift = value < 0 ? -0x1p52 : 0x1p52;
    bool const has_fraction = value > -0x1p52 && value < 0x1p52;
    return T(has_fraction ? value + shift - shift : value);
  }
}

template <class T>
inline constexpr bool is_complex_element = false;
template <class T>
inline constexpr bool is_complex_element<Complex<T>> = true;

KOKKOS_INLINE_FUNCTION bool is_complex(DType dtype) { return dtype == DType::c64 || dtype == DType::c128; }

/// The nearest element, rounded once; integers saturate.
template <class T>
KOKKOS_INLINE_FUNCTION T from_double(double value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(round_to_odd(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(round_to_odd(value));
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

/// Calls `action(static_cast<T*>(nullptr))` with the element type of `dtype`.
template <class Action>
KOKKOS_INLINE_FUNCTION void with_type(DType dtype, Action const& action) {
  switch (dtype) {
    case DType::u8: return action(static_cast<std::uint8_t*>(nullptr));
    case DType::i8: return action(static_cast<std::int8_t*>(nullptr));
    case DType::i16: return action(static_cast<std::int16_t*>(nullptr));
    case DType::i32: return action(static_cast<std::int32_t*>(nullptr));
    case DType::i64: return action(static_cast<std::int64_t*>(nullptr));
    case DType::f16: return action(static_cast<Half*>(nullptr));
    case DType::bf16: return action(static_cast<BFloat16*>(nullptr));
    case DType::f32: return action(static_cast<float*>(nullptr));
    case DType::f64: return action(static_cast<double*>(nullptr));
    case DType::c64: return action(static_cast<Complex<float>*>(nullptr));
    case DType::c128: return action(static_cast<Complex<double>*>(nullptr));
  }
}

}  // namespace graticule::detail
