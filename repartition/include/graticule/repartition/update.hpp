// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <complex>
#include <cstdint>
#include <optional>

namespace graticule {

/// What happens to a value on its way.
enum class Operation : std::uint8_t { identity, conjugate };

/// How moved values enter the memory that is written: `y = alpha * op(x) + beta * y`.
///
/// Computed in double and rounded once to the written type; with `beta` 0 the old `y` is not read, so that a NaN in it
/// is gone. Real fields take real factors (`Conversion`).
/// Example: `{.alpha = 0.5, .beta = 1}` adds half of what moves.
struct Update {
  std::complex<double> alpha = 1;
  std::optional<std::complex<double>> beta = {};  ///< without: 0, and 1 for adjoints, which add
  Operation operation = Operation::identity;
  friend bool operator==(Update const&, Update const&) = default;
};

/// Integers that stand for numbers: `value = stored * scale + offset`, as `scale_factor` and `add_offset` of CF files.
struct IntegerPacking {
  double scale = 1;
  double offset = 0;
  std::optional<Index> missing = {};  ///< stored where there is no value; NaN in memory of a floating-point type
  friend bool operator==(IntegerPacking const&, IntegerPacking const&) = default;
};

}  // namespace graticule
