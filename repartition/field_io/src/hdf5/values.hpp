// SPDX-License-Identifier: BSD-3-Clause
// From values as they lie in a file to values in memory and back.
#pragma once

#include <graticule/field_io/contents.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace graticule::detail {

/// True when the variable lies in the file in the other byte order than this machine's.
[[nodiscard]] bool swaps_bytes(Variable const& variable);

/// The stored value of a cell that was never written, in this machine's byte order: the first `_FillValue` that the
/// type holds, else netCDF's default. For cells beyond a variable's `stored_extents`.
/// @pre `variable.value_bytes > 0`
[[nodiscard]] std::vector<std::byte> unwritten_value(Variable const& variable);
/// The same `num_cells` times, in the byte order of the file.
void fill_unwritten(Variable const& variable, Index num_cells, void* target);
/// netCDF's `_FillValue` where a variable has none, as an attribute; NaN of f16, which netCDF lacks.
/// @pre `type` is a number
[[nodiscard]] Attribute default_fill(ValueType type);

/// How a variable's stored values become numbers by the CF conventions.
struct Unpacking {
  ValueType type = ValueType::other;
  bool swaps_bytes = false;
  bool scales = false;
  double scale = 1;
  double offset = 0;
  /// Stored values that mean "missing", as bits of the stored type in this machine's byte order, sorted.
  std::vector<std::uint64_t> missing;
  /// Unpacked values outside of these are missing too: `valid_min`, `valid_max`, `valid_range`.
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();

  [[nodiscard]] bool has_limits() const noexcept { return std::isfinite(lower) || std::isfinite(upper); }
  /// No stored value but NaN is missing.
  [[nodiscard]] bool has_all() const noexcept { return missing.empty() && !has_limits(); }
};

/// Without `_FillValue`, netCDF's default fill value is missing in floating-point variables and in packed integers of
/// more than one byte. Other integers may be codes or masks, all of whose values count.
/// @throws `UnreadableVariable` (input) for a scale that is not a finite number or is 0, for an offset that is not
///         finite, and for a missing value that is text
[[nodiscard]] Unpacking unpacking_of(FileContents const& contents, Variable const& variable);

/// True when stored values are the memory's type bit by bit, so that they can be read in place.
template <class Value>
[[nodiscard]] bool reads_in_place(Unpacking const& unpacking);

/// Turns `num_values` stored values into numbers: double arithmetic, rounded once. `stored` may be `values` itself.
template <class Value>
void unpack(Unpacking const& unpacking, void const* stored, std::span<Value> values);

/// The same for integers, which must hold the numbers exactly. @return the first value that they do not hold, or that
/// is missing; `values.size()` when there is none
template <class Integer>
[[nodiscard]] std::size_t unpack_exactly(Unpacking const& unpacking, void const* stored, std::span<Integer> values);

/// The nearest number of half precision, as its bits; the even one of two.
[[nodiscard]] std::uint16_t half_bits(double value);

/// Reverses the bytes of each of `count` values of `value_bytes` bytes: 1, 2, 4 or 8.
void swap_bytes(void* values, Index value_bytes, std::size_t count);

/// How numbers become a variable's stored values.
struct PackingPlan {
  ValueType type = ValueType::f32;
  bool scales = false;
  double scale = 1;
  double offset = 0;
  std::optional<double> fill;
};

/// Turns numbers into stored values, in this machine's byte order: the nearest one for integers. NaN becomes the fill
/// value, if there is one. 64-bit integers do not go through double unless they are scaled. @throws `Conversion` for a
/// number that the type does not hold
template <class Value>
void pack(PackingPlan const& plan, std::span<Value const> values, void* stored);

}  // namespace graticule::detail
