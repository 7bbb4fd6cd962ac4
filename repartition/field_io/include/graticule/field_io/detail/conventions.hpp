// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace graticule {

/// netCDF's default fill value of a variable of integers that are neither packed nor of one byte, and that declares no
/// `_FillValue`: such cells are values when they are read, as codes and masks must be, but probably were never written.
/// Example: -32767 for i16 without `_FillValue`, `scale_factor` and `add_offset`.
[[nodiscard]] std::optional<double> probable_fill(Variable const& variable);

/// The same in digits, of which `double` does not hold all: 18446744073709551614 for u64. Empty when there is none.
[[nodiscard]] std::string probable_fill_text(Variable const& variable);

/// `valid_min = -1000, valid_max = 1000`: the limits beyond which values count as missing; empty when there are none.
[[nodiscard]] std::string limits_text(Variable const& variable);

/// Whether `scale_factor` and `add_offset`, if any, are numbers that values can be packed and unpacked with.
/// @throws `UnreadableVariable` (input) with the file, the variable, the attribute and its value
void require_packing(FileContents const& contents, Variable const& variable);

/// Degrees in one unit of a dimension's coordinate: 57.3 for a latitude or longitude in radians, else 1.
/// @throws `BadCoordinates` (input) for a latitude or longitude in units other than degrees and radians
[[nodiscard]] double degrees_per_unit(FileContents const& contents, std::string_view dimension);

/// Whether two texts are one unit: `m s-1`, `m/s` and `m s**-1`; `K` and `kelvin`; `hPa`, `mbar` and `millibars`. Units
/// of one kind but another size, as `hPa` and `Pa`, differ.
[[nodiscard]] bool same_units(std::string_view a, std::string_view b);

/// Pascals in one unit of pressure: 100 for `hPa` and `millibars`. Nothing for other units.
[[nodiscard]] std::optional<double> pascals_per_unit(std::string_view units);

}  // namespace graticule
