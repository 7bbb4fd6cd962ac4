// SPDX-License-Identifier: BSD-3-Clause
// Between values as they lie in a file and elements of a field, of any type.
#pragma once

#include <graticule/repartition/field_view.hpp>

#include "values.hpp"

namespace graticule::detail {

/// Stored values are the field's elements bit by bit, but for missing ones of f32 and f64, which `unpack_elements`
/// marks where they lie.
[[nodiscard]] bool is_same(Unpacking const& unpacking, DType dtype);
[[nodiscard]] bool is_same(PackingPlan const& plan, DType dtype);

/// Turns `count` stored values into elements: as `unpack` for floating-point numbers, rounded once to the nearest, to
/// even on ties. @throws `Conversion` for a number that an integer type does not hold, and for a missing one
void unpack_elements(Unpacking const& unpacking, void const* stored, std::size_t count, DType dtype, void* elements);

/// Turns `count` elements into stored values, as `pack`. @throws `Conversion`
void pack_elements(PackingPlan const& plan, DType dtype, void const* elements, std::size_t count, void* stored);

}  // namespace graticule::detail
