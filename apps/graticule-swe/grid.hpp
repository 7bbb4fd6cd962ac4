// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/plan.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/field_view.hpp>

#include <array>
#include <vector>

/// The shallow-water equations on the sphere, on a C-grid (Arakawa and Lamb 1977) of latitudes and longitudes.
namespace graticule::swe {

/// Constants of the test set of Williamson et al. 1992, J. Comput. Phys. 102, 211; SI units.
struct Planet {
  double radius = 6.37122e6;
  double rotation = 7.292e-5;
  double gravity = 9.80616;
  double tilt = 0;  ///< radians from the poles of the grid to those of the rotation, towards longitude 180 degrees
};

/// Where values are: rows of cells from south to north, none on a pole.
///
/// Cell (j, i) has its centre at `latitude(j)`, `longitude(i)`: h. u(j, i) lies on its western face, v(j, i) on its
/// southern one, vorticity (j, i) on its south-western corner. Faces 0 and `num_rows` are the poles, where v is 0.
class Grid {
 public:
  Grid(Index num_rows, Index num_columns, Planet const& planet = {});

  [[nodiscard]] Index num_rows() const noexcept { return num_rows_; }
  [[nodiscard]] Index num_columns() const noexcept { return num_columns_; }
  [[nodiscard]] Planet const& planet() const noexcept { return planet_; }
  /// Spacings in radians.
  [[nodiscard]] double dphi() const noexcept { return dphi_; }
  [[nodiscard]] double dlambda() const noexcept { return dlambda_; }
  /// Radians, of centres and of southern faces; of centres and of western faces.
  [[nodiscard]] double latitude(Index j) const noexcept;
  [[nodiscard]] double face_latitude(Index j) const noexcept;
  [[nodiscard]] double longitude(Index i) const noexcept { return double(i) * dlambda_; }
  [[nodiscard]] double face_longitude(Index i) const noexcept { return (double(i) - 0.5) * dlambda_; }
  /// Cosines of the latitudes; of faces 0 to `num_rows`, 0 at the poles.
  [[nodiscard]] double cosine(Index j) const noexcept { return cosine_[std::size_t(j)]; }
  [[nodiscard]] double face_cosine(Index j) const noexcept { return face_cosine_[std::size_t(j)]; }
  [[nodiscard]] std::vector<double> const& cosines() const noexcept { return cosine_; }
  /// Coriolis parameter of the south-western corner of a cell (1/s); the same along the row unless the rotation is
  /// tilted.
  [[nodiscard]] double coriolis(Index j, Index i) const noexcept {
    return coriolis_[std::size_t(j)] - tilted_[std::size_t(j)] * face_longitude_cosine_[std::size_t(i + 2)];
  }

 private:
  Index num_rows_;
  Index num_columns_;
  Planet planet_;
  double dphi_;
  double dlambda_;
  std::vector<double> cosine_;
  std::vector<double> face_cosine_;
  std::vector<double> coriolis_;               ///< by rows of corners
  std::vector<double> tilted_;                 ///< of which the cosine of the longitude is a factor
  std::vector<double> face_longitude_cosine_;  ///< from column -2 on
};

/// Values on a box of cells, zero at first.
class Cells {
 public:
  Cells() = default;
  explicit Cells(Box const& box)
      : box_(box), row_(box.empty() ? 0 : box.extent(1)), values_(box.empty() ? 0 : std::size_t(box.num_cells())) {}

  [[nodiscard]] Box const& box() const noexcept { return box_; }
  /// Column `i` of row `j`; the row's other columns follow.
  [[nodiscard]] double* at(Index j, Index i) noexcept { return values_.data() + place(j, i); }
  [[nodiscard]] double const* at(Index j, Index i) const noexcept { return values_.data() + place(j, i); }
  [[nodiscard]] FieldView view() { return field_view(values_.data(), box_.extents(), 2); }
  [[nodiscard]] FieldView part(Box const& box) { return view().part(box_, box); }
  [[nodiscard]] std::vector<double>& values() noexcept { return values_; }

 private:
  [[nodiscard]] Index place(Index j, Index i) const noexcept { return (j - box_.lo(0)) * row_ + i - box_.lo(1); }

  Box box_ = Box({0, 0}, {0, 0});
  Index row_ = 0;
  std::vector<double> values_;
};

/// Depth of the fluid (m), eastward and northward wind (m/s); or their tendencies.
struct State {
  Cells h, u, v;

  State() = default;
  explicit State(Box const& box) : h(box), u(box), v(box) {}
  [[nodiscard]] std::array<Cells*, 3> fields() noexcept { return {&h, &u, &v}; }
};

}  // namespace graticule::swe
