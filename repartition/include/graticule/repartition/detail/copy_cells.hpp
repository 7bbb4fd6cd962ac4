// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/field_view.hpp>

namespace graticule {

/// Copies all elements of one host field to another of the same type and extents, with any strides. Local, one thread.
/// @throws `FieldMismatch` for other types, extents or memory; @pre they share no element
void copy_cells(FieldView const& from, FieldView const& to);

}  // namespace graticule
