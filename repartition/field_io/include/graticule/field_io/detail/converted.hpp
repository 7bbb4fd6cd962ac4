// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>

#include <string_view>

namespace graticule {

/// As `Checkpoint::read`, and converts between f32 and f64 where the field was saved as the other one: a run continues
/// in another precision. Needs memory of the size of the cells. Host fields. Collective; ranks may have different
/// types. Example: `read_converted(checkpoint, "q", layout, field_view(single.data(), {rows, columns}, 2));`
/// @throws as `Checkpoint::read`, `WrongType` for other types
void read_converted(Checkpoint const& checkpoint, std::string_view name, Layout const& layout, FieldView const& view);
/// The same of the whole field, on every rank.
void read_converted(Checkpoint const& checkpoint, std::string_view name, FieldView const& view);

}  // namespace graticule
