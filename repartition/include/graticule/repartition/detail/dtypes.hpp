// SPDX-License-Identifier: BSD-3-Clause
// The table of element types.
#pragma once

#include <graticule/partition/detail/enum_table.hpp>
#include <graticule/repartition/field_view.hpp>

#include <Kokkos_Macros.hpp>

#include <cstdint>
#include <type_traits>

namespace graticule {

namespace detail {

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

template <class T>
inline constexpr bool is_complex_element = false;
template <class T>
inline constexpr bool is_complex_element<Complex<T>> = true;

enum class NumberKind : std::uint8_t { unsigned_integer, signed_integer, ieee, bfloat, complex };

template <class T>
inline constexpr NumberKind number_kind = std::is_unsigned_v<T>         ? NumberKind::unsigned_integer
                                          : std::is_integral_v<T>       ? NumberKind::signed_integer
                                          : std::is_same_v<T, BFloat16> ? NumberKind::bfloat
                                          : is_complex_element<T>       ? NumberKind::complex
                                                                        : NumberKind::ieee;

struct DTypeRow {
  char const* name = nullptr;
  int bytes = 0;
  NumberKind kind = NumberKind::ieee;
};

template <class T>
[[nodiscard]] constexpr DTypeRow dtype_row(char const* name) noexcept {
  return {name, int(sizeof(T)), number_kind<T>};
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

}  // namespace detail

[[nodiscard]] constexpr detail::DTypeRow enum_row(DType dtype) noexcept {
  using namespace detail;
  switch (dtype) {
    case DType::u8: return dtype_row<std::uint8_t>("u8");
    case DType::i8: return dtype_row<std::int8_t>("i8");
    case DType::i16: return dtype_row<std::int16_t>("i16");
    case DType::i32: return dtype_row<std::int32_t>("i32");
    case DType::i64: return dtype_row<std::int64_t>("i64");
    case DType::f16: return dtype_row<Half>("f16");
    case DType::bf16: return dtype_row<BFloat16>("bf16");
    case DType::f32: return dtype_row<float>("f32");
    case DType::f64: return dtype_row<double>("f64");
    case DType::c64: return dtype_row<Complex<float>>("c64");
    case DType::c128: return dtype_row<Complex<double>>("c128");
  }
  return {};
}

namespace detail {

KOKKOS_INLINE_FUNCTION bool is_complex(DType dtype) {
  bool result = false;
  with_type(dtype, [&]<class T>(T*) { result = is_complex_element<T>; });
  return result;
}

[[nodiscard]] constexpr bool is_integer(DType dtype) noexcept {
  auto const kind = enum_row(dtype).kind;
  return kind == NumberKind::unsigned_integer || kind == NumberKind::signed_integer;
}

}  // namespace detail

}  // namespace graticule
