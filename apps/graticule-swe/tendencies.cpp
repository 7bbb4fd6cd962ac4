// SPDX-License-Identifier: BSD-3-Clause
// Compiled without fused operations that the compiler chooses: cells have the same bits in every loop.
#include "tendencies.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>

namespace graticule::swe {

double vorticity(Grid const& grid, State const& s, Index j, Index i) {
  double const east_west = (*s.v.at(j, i) - *s.v.at(j, i - 1)) / grid.dlambda();
  double const north_south = (*s.u.at(j, i) * grid.cosine(j) - *s.u.at(j - 1, i) * grid.cosine(j - 1)) / grid.dphi();
  return (east_west - north_south) / (grid.planet().radius * grid.face_cosine(j));
}

double corner_depth(Grid const& grid, State const& s, Index j, Index i) {
  double const south = *s.h.at(j - 1, i - 1) + *s.h.at(j - 1, i);
  double const north = *s.h.at(j, i - 1) + *s.h.at(j, i);
  double const c = grid.cosine(j - 1);
  double const d = grid.cosine(j);
  return (c * south + d * north) / (2 * (c + d));
}

double potential_vorticity(Grid const& grid, State const& s, Index j, Index i) {
  return (grid.coriolis(j, i) + vorticity(grid, s, j, i)) / corner_depth(grid, s, j, i);
}

double divergence(Grid const& grid, State const& s, Index j, Index i) {
  double const north = j + 1 == grid.num_rows() ? 0 : *s.v.at(j + 1, i) * grid.face_cosine(j + 1);
  double const south = j == 0 ? 0 : *s.v.at(j, i) * grid.face_cosine(j);
  double const u = (*s.u.at(j, i + 1) - *s.u.at(j, i)) / grid.dlambda();
  return (u + (north - south) / grid.dphi()) / (grid.planet().radius * grid.cosine(j));
}

double kinetic_energy(Grid const& grid, State const& s, Index j, Index i) {
  double const west = *s.u.at(j, i);
  double const east = *s.u.at(j, i + 1);
  double const south = *s.v.at(j, i);
  double const north = j + 1 == grid.num_rows() ? 0 : *s.v.at(j + 1, i);
  double const v2 = south * south * grid.face_cosine(j) + north * north * grid.face_cosine(j + 1);
  return 0.25 * (west * west + east * east) + 0.25 * v2 / grid.cosine(j);
}

namespace {

/// Rows of a piece of the box that one thread computes.
constexpr Index rows_at_once = 8;

/// What the tendencies of some rows of a box are made of.
class Piece {
 public:
  Piece(Grid const& grid, Scheme scheme, State const& state, Cells const& surface, Poles const& poles, Box const& box)
      : grid_(grid), scheme_(scheme), s_(state), surface_(surface), poles_(poles), box_(box) {
    Index const wide = scheme == Scheme::arakawa_lamb ? 1 : 0;
    Box const part({box.lo(0) - 1, box.lo(1) - 1 - wide}, {box.hi(0) + 1, box.hi(1) + 1 + wide});
    flux_u_ = Cells(part);
    flux_v_ = Cells(part);
    q_ = Cells(part);
    energy_ = Cells(part);
    set_fluxes(wide);
    if (scheme == Scheme::fixed_wind) return;
    set_vorticity(wide);
    set_energy();
  }

  void depth(Cells& out) const {
    double const a = grid_.planet().radius;
    double const dlambda = grid_.dlambda();
    double const dphi = grid_.dphi();
    for (Index j = box_.lo(0); j < box_.hi(0); ++j) {
      double* const d = out.at(j, 0);
      double const* const u = flux_u_.at(j, 0);
      double const* const south = flux_v_.at(j, 0);
      double const* const north = flux_v_.at(j + 1, 0);
      double const c = a * grid_.cosine(j);
      for (Index i = box_.lo(1); i < box_.hi(1); ++i)
        d[i] = -((u[i + 1] - u[i]) / dlambda + (north[i] - south[i]) / dphi) / c;
    }
  }

  void wind(Cells& du, Cells& dv) const {
    for (Index j = box_.lo(0); j < box_.hi(0); ++j) {
      if (scheme_ == Scheme::arakawa_lamb)
        eastward_both(j, du);
      else
        eastward(j, du);
      // v is 0 at the pole.
      if (j == 0)
        std::fill_n(dv.at(j, box_.lo(1)), box_.extent(1), 0.0);
      else if (scheme_ == Scheme::arakawa_lamb)
        northward_both(j, dv);
      else
        northward(j, dv);
    }
  }

 private:
  [[nodiscard]] Index first_row(Index margin) const { return std::max<Index>(box_.lo(0) - margin, 0); }
  [[nodiscard]] Index last_row(Index margin) const { return std::min(box_.hi(0) + margin, grid_.num_rows()); }

  // Loops over rows by pointers: through `at` the compiler would compute each place anew, because a stored value might
  // be a size. Column `i` of a row is `row[i]`.

  /// Mass fluxes through faces: u h, and v h cos(latitude), which is 0 at the poles.
  void set_fluxes(Index wide) {
    for (Index j = first_row(1); j < last_row(0); ++j) {
      double const* const u = s_.u.at(j, 0);
      double const* const h = s_.h.at(j, 0);
      double* const out = flux_u_.at(j, 0);
      for (Index i = box_.lo(1) - wide; i < box_.hi(1) + 1 + wide; ++i) out[i] = u[i] * (0.5 * (h[i - 1] + h[i]));
    }
    for (Index j = std::max<Index>(box_.lo(0) - wide, 1); j < std::min(box_.hi(0) + 1, grid_.num_rows()); ++j) {
      double const c = grid_.face_cosine(j);
      double const* const v = s_.v.at(j, 0);
      double const* const south = s_.h.at(j - 1, 0);
      double const* const north = s_.h.at(j, 0);
      double* const out = flux_v_.at(j, 0);
      for (Index i = box_.lo(1) - 1; i < box_.hi(1) + wide; ++i) out[i] = v[i] * (0.5 * (south[i] + north[i])) * c;
    }
  }

  void set_vorticity(Index wide) {
    Index const lo = box_.lo(1) - wide;
    Index const hi = box_.hi(1) + 1 + wide;
    for (Index j = first_row(wide); j < std::min(box_.hi(0) + 1, grid_.num_rows() + 1); ++j)
      if (j == 0)
        std::fill_n(q_.at(j, lo), hi - lo, poles_.south);
      else if (j == grid_.num_rows())
        std::fill_n(q_.at(j, lo), hi - lo, poles_.north);
      else
        set_vorticity_of_row(j, lo, hi);
  }

  /// `potential_vorticity` of corners [lo, hi), with its bits.
  void set_vorticity_of_row(Index j, Index lo, Index hi) {
    double* const q = q_.at(j, 0);
    for (Index i = lo; i < hi; ++i) q[i] = grid_.coriolis(j, i);
    double const* const v = s_.v.at(j, 0);
    double const* const u = s_.u.at(j, 0);
    double const* const u_south = s_.u.at(j - 1, 0);
    double const* const h = s_.h.at(j, 0);
    double const* const h_south = s_.h.at(j - 1, 0);
    double const dlambda = grid_.dlambda();
    double const dphi = grid_.dphi();
    double const c = grid_.cosine(j - 1);
    double const d = grid_.cosine(j);
    double const width = grid_.planet().radius * grid_.face_cosine(j);
    double const weights = 2 * (c + d);
    for (Index i = lo; i < hi; ++i) {
      double const rotation = ((v[i] - v[i - 1]) / dlambda - (u[i] * d - u_south[i] * c) / dphi) / width;
      double const depth = (c * (h_south[i - 1] + h_south[i]) + d * (h[i - 1] + h[i])) / weights;
      q[i] = (q[i] + rotation) / depth;
    }
  }

  /// Bernoulli function: `kinetic_energy` and gravity times the height of the surface.
  void set_energy() {
    double const g = grid_.planet().gravity;
    for (Index j = first_row(1); j < last_row(0); ++j) {
      bool const has_north = j + 1 < grid_.num_rows();
      double const* const h = s_.h.at(j, 0);
      double const* const ground = surface_.at(j, 0);
      double const* const u = s_.u.at(j, 0);
      double const* const south = s_.v.at(j, 0);
      double const* const north = s_.v.at(has_north ? j + 1 : j, 0);
      double const c = grid_.cosine(j);
      double const south_cosine = grid_.face_cosine(j);
      // No wind blows through the pole.
      double const north_cosine = has_north ? grid_.face_cosine(j + 1) : 0;
      double* const out = energy_.at(j, 0);
      for (Index i = box_.lo(1) - 1; i < box_.hi(1); ++i) {
        double const v2 = south[i] * south[i] * south_cosine + north[i] * north[i] * north_cosine;
        out[i] = g * (h[i] + ground[i]) + (0.25 * (u[i] * u[i] + u[i + 1] * u[i + 1]) + 0.25 * v2 / c);
      }
    }
  }

  [[nodiscard]] double slope_east(Index j, Index i) const {
    return (*energy_.at(j, i) - *energy_.at(j, i - 1)) / (grid_.planet().radius * grid_.cosine(j) * grid_.dlambda());
  }
  [[nodiscard]] double slope_north(Index j, Index i) const {
    return (*energy_.at(j, i) - *energy_.at(j - 1, i)) / (grid_.planet().radius * grid_.dphi());
  }

  void eastward(Index j, Cells& du) const {
    double const* const q = q_.at(j, 0);
    double const* const q_north = q_.at(j + 1, 0);
    double const* const south = flux_v_.at(j, 0);
    double const* const north = flux_v_.at(j + 1, 0);
    double const* const energy = energy_.at(j, 0);
    double const c = grid_.cosine(j);
    double const width = grid_.planet().radius * c * grid_.dlambda();
    double* const out = du.at(j, 0);
    for (Index i = box_.lo(1); i < box_.hi(1); ++i) {
      double const flux = 0.25 * ((south[i - 1] + south[i]) + (north[i - 1] + north[i]));
      out[i] = 0.5 * (q[i] + q_north[i]) * flux / c - (energy[i] - energy[i - 1]) / width;
    }
  }

  void northward(Index j, Cells& dv) const {
    double const* const q = q_.at(j, 0);
    double const* const south = flux_u_.at(j - 1, 0);
    double const* const north = flux_u_.at(j, 0);
    double const* const energy = energy_.at(j, 0);
    double const* const energy_south = energy_.at(j - 1, 0);
    double const height = grid_.planet().radius * grid_.dphi();
    double* const out = dv.at(j, 0);
    for (Index i = box_.lo(1); i < box_.hi(1); ++i) {
      double const flux = 0.25 * ((south[i] + south[i + 1]) + (north[i] + north[i + 1]));
      out[i] = -(0.5 * (q[i] + q[i + 1])) * flux - (energy[i] - energy_south[i]) / height;
    }
  }

  // The coefficients of Arakawa and Lamb 1981, equation 3.34. q is on the corners, u(j, i) between q(j, i) and
  // q(j + 1, i).
  [[nodiscard]] double q(Index j, Index i) const { return *q_.at(j, i); }
  [[nodiscard]] double alpha(Index j, Index i) const {
    return (2 * q(j + 1, i + 1) + q(j + 1, i) + 2 * q(j, i) + q(j, i + 1)) / 24;
  }
  [[nodiscard]] double beta(Index j, Index i) const {
    return (q(j + 1, i) + 2 * q(j + 1, i - 1) + q(j, i - 1) + 2 * q(j, i)) / 24;
  }
  [[nodiscard]] double gamma(Index j, Index i) const {
    return (2 * q(j + 1, i) + q(j + 1, i - 1) + 2 * q(j, i - 1) + q(j, i)) / 24;
  }
  [[nodiscard]] double delta(Index j, Index i) const {
    return (q(j + 1, i + 1) + 2 * q(j + 1, i) + q(j, i) + 2 * q(j, i + 1)) / 24;
  }
  /// Of cell (j, i), between corners i and i + 1.
  [[nodiscard]] double epsilon(Index j, Index i) const {
    return (q(j + 1, i + 1) + q(j + 1, i) - q(j, i) - q(j, i + 1)) / 24;
  }
  [[nodiscard]] double phi(Index j, Index i) const {
    return (-q(j + 1, i + 1) + q(j + 1, i) + q(j, i) - q(j, i + 1)) / 24;
  }

  void eastward_both(Index j, Cells& du) const {
    double const ratio = grid_.dphi() / grid_.dlambda();
    for (Index i = box_.lo(1); i < box_.hi(1); ++i) {
      double const v = alpha(j, i) * *flux_v_.at(j + 1, i) + beta(j, i) * *flux_v_.at(j + 1, i - 1) +
                       gamma(j, i) * *flux_v_.at(j, i - 1) + delta(j, i) * *flux_v_.at(j, i);
      double const u = epsilon(j, i - 1) * *flux_u_.at(j, i - 1) - epsilon(j, i) * *flux_u_.at(j, i + 1);
      *du.at(j, i) = (v + ratio * u) / grid_.cosine(j) - slope_east(j, i);
    }
  }

  void northward_both(Index j, Cells& dv) const {
    double const ratio = grid_.dlambda() / grid_.dphi();
    for (Index i = box_.lo(1); i < box_.hi(1); ++i) {
      double const u = gamma(j, i + 1) * *flux_u_.at(j, i + 1) + delta(j, i) * *flux_u_.at(j, i) +
                       alpha(j - 1, i) * *flux_u_.at(j - 1, i) + beta(j - 1, i + 1) * *flux_u_.at(j - 1, i + 1);
      double const v = phi(j, i) * *flux_v_.at(j + 1, i) - phi(j - 1, i) * *flux_v_.at(j - 1, i);
      *dv.at(j, i) = -(u + ratio * v) - slope_north(j, i);
    }
  }

  Grid const& grid_;
  Scheme scheme_;
  State const& s_;
  Cells const& surface_;
  Poles const& poles_;
  Box box_;
  Cells flux_u_, flux_v_, q_, energy_;
};

}  // namespace

void compute_tendencies(Grid const& grid, Scheme scheme, State const& state, Cells const& surface, Poles const& poles,
                        Box const& box, State& tendencies) {
  if (box.empty()) return;
  Index const num_pieces = (box.extent(0) + rows_at_once - 1) / rows_at_once;
  using Pieces = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>;
  Kokkos::parallel_for("swe", Pieces(0, long(num_pieces)), [&](long p) {
    Index const lo = box.lo(0) + p * rows_at_once;
    Index const hi = std::min(lo + rows_at_once, box.hi(0));
    Piece const piece(grid, scheme, state, surface, poles, Box({lo, box.lo(1)}, {hi, box.hi(1)}));
    piece.depth(tendencies.h);
    if (scheme != Scheme::fixed_wind) piece.wind(tendencies.u, tendencies.v);
  });
  Kokkos::fence();
}

}  // namespace graticule::swe
