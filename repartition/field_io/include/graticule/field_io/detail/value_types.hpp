// SPDX-License-Identifier: BSD-3-Clause
// The table of element types of files. A source with a switch over them includes it, so that a forgotten type does not
// compile.
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/partition/detail/enum_table.hpp>

#include <bit>
#include <cstdint>

namespace graticule {

namespace detail {

enum class StoredKind : std::uint8_t { signed_integer, unsigned_integer, real, text, other };

struct ValueTypeRow {
  char const* name = nullptr;
  int bytes = 0;  ///< of a number
  StoredKind kind = StoredKind::other;
  /// Bits of netCDF's default fill value: `NC_FILL_BYTE` and the others. f16 is no type of netCDF.
  std::uint64_t fill = 0;
};

}  // namespace detail

[[nodiscard]] constexpr detail::ValueTypeRow enum_row(ValueType type) noexcept {
  using enum detail::StoredKind;
  switch (type) {
    case ValueType::i8: return {"i8", 1, signed_integer, std::uint8_t(-127)};
    case ValueType::u8: return {"u8", 1, unsigned_integer, 255};
    case ValueType::i16: return {"i16", 2, signed_integer, std::uint16_t(-32767)};
    case ValueType::u16: return {"u16", 2, unsigned_integer, 65535};
    case ValueType::i32: return {"i32", 4, signed_integer, std::uint32_t(-2147483647)};
    case ValueType::u32: return {"u32", 4, unsigned_integer, 4294967295U};
    case ValueType::i64: return {"i64", 8, signed_integer, std::uint64_t(-9223372036854775806LL)};
    case ValueType::u64: return {"u64", 8, unsigned_integer, 18446744073709551614U};
    case ValueType::f16: return {"f16", 2, real, 0x7e00};
    case ValueType::f32: return {"f32", 4, real, std::bit_cast<std::uint32_t>(9.9692099683868690e+36F)};
    case ValueType::f64: return {"f64", 8, real, std::bit_cast<std::uint64_t>(9.9692099683868690e+36)};
    case ValueType::text: return {"text", 0, text};
    case ValueType::other: return {"other"};
  }
  return {};
}

/// Bytes of one value; 0 for `text` and `other`.
[[nodiscard]] int size_in_bytes(ValueType type) noexcept;

namespace detail {

/// The unsigned integer of as many bytes; of another type, the type.
[[nodiscard]] constexpr ValueType unsigned_of(ValueType type) noexcept {
  auto const row = enum_row(type);
  if (row.kind != StoredKind::signed_integer) return type;
  for (ValueType const other : enum_values<ValueType>)
    if (enum_row(other).kind == StoredKind::unsigned_integer && enum_row(other).bytes == row.bytes) return other;
  return type;
}

}  // namespace detail

}  // namespace graticule
