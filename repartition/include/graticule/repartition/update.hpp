// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <complex>
#include <cstdint>
#include <optional>

namespace graticule {

/// Operation on a value during its movement.
enum class Operation : std::uint8_t { identity, conjugate };

/// Combination of moved values with the target memory: `y = alpha * op(x) + beta * y`.
///
/// Computed in double and rounded once to the written type; with `beta` 0 the old `y` is not read, so a NaN in it is
/// overwritten. Real fields take real factors, and integers must hold the results (`Conversion`).
/// Example: `{.alpha = 0.5, .beta = 1}` adds half of the moved values.
struct Update {
  std::complex<double> alpha = 1;
  std::optional<std::complex<double>> beta = {};  ///< default: 0, and 1 for adjoints, which add
  Operation operation = Operation::identity;
  friend bool operator==(Update const&, Update const&) = default;
};

/// Integers for real numbers as in CF files: `value = stored * scale + offset`. A number beyond their range, NaN
/// without `missing`, and a number that is rounded to `missing` are errors (`Conversion`).
struct Packing {
  double scale = 1;
  double offset = 0;
  std::optional<Index> missing = {};  ///< stored for missing values; NaN in floating-point memory
  friend bool operator==(Packing const&, Packing const&) = default;
};

}  // namespace graticule
