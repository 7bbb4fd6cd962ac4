// SPDX-License-Identifier: BSD-3-Clause
// Cells of a dataset and the caller's memory that holds them; their checksum.
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/field_view.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace graticule::detail {

/// A box of a dataset in the caller's memory. Axes are those of the dataset.
struct FieldCells {
  Box box;                    ///< empty where this rank has none
  std::byte* data = nullptr;  ///< first cell of `box`
  Indices strides;            ///< in elements
  DType dtype = DType::f64;
  MemorySpace space = MemorySpace::host;
};

/// The cells `cells` of a view that covers `local`, both in grid coordinates. Memory axis `m` of the view is axis
/// `axes[m]` of a dataset of `extents`. @throws `FieldMismatch`
[[nodiscard]] FieldCells field_cells(FieldView const& view, Indices const& axes, Indices const& extents,
                                     Box const& cells, Box const& local);

/// Extents of the dataset that holds a view's field. @throws `FieldMismatch` for a view of other axes than the layout's
[[nodiscard]] Indices whole_extents(FieldView const& view, Box const& global);

/// Moves pieces between the caller's memory and dense host memory; the caller's own where it is dense already.
class CellStaging {
 public:
  explicit CellStaging(FieldCells const& cells) : cells_(&cells) {}

  /// The piece's cells, dense. Valid until the next call.
  [[nodiscard]] std::byte const* pack(Box const& piece);
  /// Room for the piece's cells; `unpack` then brings them to their place.
  [[nodiscard]] std::byte* room(Box const& piece);
  void unpack(Box const& piece);

 private:
  [[nodiscard]] std::byte* place(Box const& piece) const;
  [[nodiscard]] bool is_dense(Box const& piece) const;
  [[nodiscard]] std::byte* host(Box const& piece);
  [[nodiscard]] std::byte* device(Box const& piece);

  FieldCells const* cells_;
  std::unique_ptr<std::byte[]> host_;
  std::size_t host_bytes_ = 0;
  Buffer device_;
  std::size_t device_bytes_ = 0;
};

/// Calls `visit(first, count)` for the runs of `box` in a row-major dataset of `extents`, in order: `count` cells from
/// the cell of index `first` on.
template <class Visit>
void for_each_run(Indices const& extents, Box const& box, Visit&& visit) {
  if (box.empty()) return;
  // Trailing axes that the box holds whole lie in one run.
  int inner = box.ndim();
  Index count = 1;
  while (inner > 0 && box.extent(inner - 1) == extents[inner - 1]) count *= box.extent(--inner);
  if (inner > 0) count *= box.extent(--inner);
  auto const strides = row_major_strides(extents);
  auto cell = box.lo();
  while (true) {
    Index first = 0;
    for (int axis = 0; axis < box.ndim(); ++axis) first += cell[axis] * strides[axis];
    visit(first, count);
    int axis = inner - 1;
    while (axis >= 0 && ++cell[axis] == box.hi(axis)) {
      cell[axis] = box.lo(axis);
      --axis;
    }
    if (axis < 0) return;
  }
}

/// Sum over the cells of `box` of a 64-bit mix of a cell's place in a dataset of `extents` and its bits, modulo 2^64.
///
/// The sums of disjoint boxes add up to the sum of the whole, so it does not depend on who holds which cells. A change
/// of one cell always changes it; other damage goes unseen with a chance of 2^-64.
[[nodiscard]] std::uint64_t cell_checksum(DType dtype, Indices const& extents, Box const& box, std::byte const* dense);

}  // namespace graticule::detail
