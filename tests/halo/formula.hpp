// SPDX-License-Identifier: BSD-3-Clause
// What an exchange and its adjoint make of a field, cell by cell; every rank computes all ranks' parts.
#pragma once

#include <graticule/halo/plan.hpp>

#include "reference.hpp"
#include "test_field.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace graticule::test {

/// One kind of field on a layout; both the same on all ranks.
struct Formula {
  Layout layout;
  HaloKind kind;

  [[nodiscard]] Indices extents() const { return layout.global().extents(); }
  /// With the last face of axes with values on all faces, where the last cell is this rank's.
  [[nodiscard]] Box owned(int rank) const {
    Box box = layout.owned(rank);
    for (int a = 0; a < box.ndim(); ++a)
      if (kind.boundary.axes[std::size_t(a)].stagger == Stagger::all_faces && box.hi(a) == layout.extent(a) &&
          !box.empty())
        box.set(a, box.lo(a), box.hi(a) + 1);
    return box;
  }
  [[nodiscard]] Box local(int rank) const {
    return grown(owned(rank), kind.memory.empty() ? kind.widths : kind.memory);
  }

  /// True for a cell of the local box that an exchange writes.
  [[nodiscard]] bool fills(Indices const& cell, int rank) const {
    Box const owned = this->owned(rank);
    if (!grown(owned, kind.widths).contains(cell)) return false;
    Indices direction;
    for (int a = 0; a < cell.size(); ++a)
      direction.push_back(cell[a] < owned.lo(a) ? -1 : cell[a] < owned.hi(a) ? 0 : 1);
    auto const& listed = kind.directions;
    bool const wanted = listed.empty() || std::count(listed.begin(), listed.end(), direction) > 0;
    return wanted && is_filled(cell, owned, kind.corners, extents(), kind.boundary);
  }

  [[nodiscard]] Image image(Indices const& cell) const { return image_of(cell, extents(), kind.boundary); }
};

inline std::string describe(Formula const& f) {
  std::string text = to_string(f.layout) + ", " + describe(f.kind.boundary) + ", widths";
  for (auto const& width : f.kind.widths) text += " " + std::to_string(width.lower) + "/" + std::to_string(width.upper);
  text += f.kind.corners == Corners::fill ? "" : ", no corners";
  for (auto const& direction : f.kind.directions) text += " " + to_string(direction);
  return text;
}

/// A number that names the cell and the batch element; exact in single precision.
inline double number(Indices const& batch, Indices const& cell) {
  Index result = 1;
  for (auto const* list : {&batch, &cell})
    for (Index i : *list) result = result * 11 + i;
  return double(result);
}

inline double sign_of(Image const& image, Parity parity) {
  return (image.odd_folds && parity == Parity::odd) != image.negated ? -1 : 1;
}

/// Owned cells hold their number, all else is not a number.
template <class T>
TestField<T> field_to_exchange(HaloPlan const& plan, Indices const& batch, MemoryShape const& shape, int kind = 0) {
  TestField<T> field(plan.local(kind), batch, shape, std::numeric_limits<T>::quiet_NaN());
  field.set(plan.owned(kind), [](auto const& b, auto const& cell) { return T(number(b, cell)); });
  return field;
}

template <class T>
TestField<T> exchanged_by_formula(TestField<T> field, Formula const& f, int rank, Parity parity) {
  auto const before = field;
  field.set(field.cover(), [&](auto const& b, auto const& cell) {
    auto const image = f.image(cell);
    if (!f.fills(cell, rank) || image.kind == Image::Kind::nothing) return before.at(b, cell);
    if (image.kind == Image::Kind::constant) return T(image.constant);
    return T(sign_of(image, parity) * number(b, image.cell));
  });
  return field;
}

/// What the adjoint starts from: small integers that differ from rank to rank.
inline double cotangent(int rank, Indices const& batch, Indices const& cell) {
  return double(bits_of<std::int16_t>(batch, cell, std::uint64_t(rank) + 77));
}

inline TestField<double> field_of_cotangents(HaloPlan const& plan, int rank, Indices const& batch,
                                             MemoryShape const& shape, int kind = 0) {
  TestField<double> field(plan.local(kind), batch, shape, 0.5);
  field.set(plan.local(kind), [&](auto const& b, auto const& cell) { return cotangent(rank, b, cell); });
  return field;
}

/// The transposed map term by term: every rank computes the ghosts of all ranks.
inline TestField<double> adjoint_by_formula(TestField<double> field, Formula const& f, Comm const& comm,
                                            Parity parity) {
  Box const owned = f.owned(comm.rank());
  for (int r = 0; r < comm.num_ranks(); ++r)
    for_each_cell(f.local(r), [&](Indices const& cell) {
      auto const image = f.image(cell);
      if (!f.fills(cell, r)) return;
      for_each_cell(field.batch(), [&](Indices const& b) {
        if (image.kind == Image::Kind::cell && owned.contains(image.cell))
          field.at(b, image.cell) += sign_of(image, parity) * cotangent(r, b, cell);
        if (image.kind != Image::Kind::nothing && r == comm.rank()) field.at(b, cell) = 0;
      });
    });
  return field;
}

inline std::vector<Width> random_widths(Random& random, Indices const& extents) {
  std::vector<Width> widths;
  for (int a = 0; a < extents.size(); ++a) {
    Index const widest = draw(random, 0, 3) == 0 ? 2 * extents[a] + 1 : 2;
    widths.push_back({draw(random, 0, widest), draw(random, 0, widest)});
  }
  return widths;
}

}  // namespace graticule::test
