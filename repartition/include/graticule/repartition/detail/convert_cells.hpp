// SPDX-License-Identifier: BSD-3-Clause
// Host fields of f32 as f64, and the reverse.
#pragma once

#include <graticule/repartition/field_view.hpp>

#include <cstddef>
#include <vector>

namespace graticule::detail {

/// Copies a host field of f32 or f64 to another one of the same extents, with any strides; values are rounded.
/// @throws `FieldMismatch`, `WrongType`
void convert_cells(FieldView const& from, FieldView const& to);

/// Dense host memory with the axes of another field.
class DenseField {
 public:
  DenseField(FieldView const& like, DType dtype);
  [[nodiscard]] FieldView const& view() const noexcept { return view_; }

 private:
  std::vector<std::byte> memory_;
  FieldView view_;
};

}  // namespace graticule::detail
