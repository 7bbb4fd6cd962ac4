// SPDX-License-Identifier: BSD-3-Clause
// How a variable that a user describes lies in the file.
#pragma once

#include <graticule/field_io/writer.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/values.hpp"

#include <vector>

namespace graticule::detail {

/// Extents of a variable's axes, and which of them may grow.
struct Shape {
  Indices extents;
  std::vector<bool> unlimited;

  [[nodiscard]] bool grows() const noexcept;
};

/// The type in the file: little-endian everywhere, so that the bytes do not depend on the machine.
/// @throws `WrongType`
[[nodiscard]] h5::Type file_type(ValueType type, Index text_bytes);
/// The same type in this machine's byte order.
[[nodiscard]] h5::Type memory_type(ValueType type, Index text_bytes);

/// Ready for netCDF-4, and for files whose bytes do not depend on the time of day.
[[nodiscard]] h5::Properties creation_list();

/// How values become stored ones. @throws `BadOption` when it is given twice or is not a number
[[nodiscard]] PackingPlan packing_plan_of(VariableSpec const& spec);

/// Chunks as they will be; none for a variable in one piece. @throws `BadOption`
[[nodiscard]] Indices chunk_of(VariableSpec const& spec, Shape const& shape);

/// Chunks of a variable that is given none: one cell along unlimited dimensions, else whole up to 4 MiB.
/// @pre at least one axis
[[nodiscard]] Indices default_chunk(VariableSpec const& spec, Shape const& shape);

/// Its level is one of zlib. @throws `BadOption`
void require_deflate(VariableSpec const& spec);

/// @throws `BadOption` for filters without chunks
void set_storage(h5::Properties const& creation, VariableSpec const& spec, Indices const& chunk);
/// HDF5's own fill value, equal to `_FillValue` as netCDF needs it.
void set_fill(h5::Properties const& creation, VariableSpec const& spec);
/// All attributes, `_FillValue` in the variable's own type.
void write_attributes(hid_t dataset, VariableSpec const& spec);

}  // namespace graticule::detail
