// SPDX-License-Identifier: BSD-3-Clause
// The cells of a variable and the elements of a field that a `FileSelection` ties together.
#pragma once

#include <graticule/field_io/selection.hpp>

#include "hdf5/hyperslab.hpp"

#include <cstddef>
#include <string>

namespace graticule::detail {

/// In normal form: steps are positive, a reversed axis has a negative stride, axes are those of the variable.
struct ViewPart {
  Slab slab;
  /// The chosen cells, to be cut into pieces: in the variable's own coordinates along axes of step 1, so that cuts meet
  /// chunks, else counted from 0.
  Box cells;
  std::byte* first = nullptr;  ///< element of the slab's first cell
  Indices strides;             ///< elements between chosen neighbors
  DType dtype = DType::f64;

  /// Elements lie as the cells do in the file, without gaps.
  [[nodiscard]] bool is_dense() const;
  /// Between a dense block of the piece's cells, in the order of the file, and the field.
  void scatter(Box const& piece, void const* dense) const;
  void gather(Box const& piece, void* dense) const;
};

/// @param described for messages: the variable with its extents
/// @throws `OutOfRange`, `BadSelection`, `ShapeMismatch`, `WrongType`, `Unsupported`
[[nodiscard]] ViewPart view_part(std::string const& described, Indices const& extents, FileSelection const& selection,
                                 FieldView const& field);

/// Extents of chunks along `part.cells`.
[[nodiscard]] Indices chunk_for(ViewPart const& part, Indices const& chunk);

}  // namespace graticule::detail
