// SPDX-License-Identifier: BSD-3-Clause
// How the values of a field change on their way: the type in messages, and the arithmetic on either side.
#pragma once

#include <graticule/repartition/detail/dtypes.hpp>
#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/update.hpp>

#include <optional>
#include <string>

namespace graticule::detail {

/// One side of a field.
struct StoredAs {
  DType dtype = DType::f64;
  std::optional<Packing> packing;
};

/// A field's way from one memory to another. Messages carry the narrower type where values only change their type, and
/// what is stored otherwise; so the result does not depend on the path that a cell takes.
struct Conversion {
  DType wire = DType::f64;
  Transform pack;
  Transform arrive;
  Transform direct;  ///< without a message
};

/// @throws `Conversion` between real and complex types, for complex factors of real fields, for packings of other types
///         than integers, and between types that hold other values unless a packing says how
[[nodiscard]] Conversion conversion(StoredAs const& from, StoredAs const& to, Update const& update);

/// The factors of the transposed map, for the inner product of the real and imaginary parts; adds unless it says how.
[[nodiscard]] Update adjoint_of(Update const& update);

/// Which numbers integers of a type do not hold: `1.5e+09 to ...`, for an error. @pre `unfit.any()`
[[nodiscard]] std::string text_of(Unfit const& unfit, DType dtype, Packed const& packed);

}  // namespace graticule::detail
