// SPDX-License-Identifier: BSD-3-Clause
#include "diagnostics.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace graticule::swe {

namespace {

template <class Visit>
void for_each_cell(Box const& box, Visit&& visit) {
  if (box.empty()) return;
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = box.lo(1); i < box.hi(1); ++i) visit(j, i);
}

}  // namespace

Diagnostics::Diagnostics(Solver& solver)
    : solver_(solver),
      mean_(solver.comm(), solver.layout(), 1, 0, solver.grid().cosines(), AxisSumScale::mean),
      values_(solver.owned()) {}

template <class Value>
double Diagnostics::mean(Value const& value) {
  for_each_cell(solver_.owned(), [&](Index j, Index i) { *values_.at(j, i) = value(j, i); });
  return mean_.apply(values_.view())[0];
}

Invariants Diagnostics::invariants() {
  solver_.exchange_state();
  auto const& grid = solver_.grid();
  auto const& s = solver_.state();
  double const g = grid.planet().gravity;
  Invariants result;
  result.mass = mean([&](Index j, Index i) { return *s.h.at(j, i); });
  result.energy = mean([&](Index j, Index i) {
    double const h = *s.h.at(j, i);
    double const ground = *solver_.surface().at(j, i);
    return h * kinetic_energy(grid, s, j, i) + 0.5 * g * ((h + ground) * (h + ground) - ground * ground);
  });
  if (solver_.scheme() == Scheme::fixed_wind) return result;
  // By the south-western corners of the cells; those on the pole have no area.
  result.enstrophy = mean([&](Index j, Index i) {
    if (j == 0) return 0.0;
    double const q = potential_vorticity(grid, s, j, i);
    return 0.5 * corner_depth(grid, s, j, i) * q * q * grid.face_cosine(j) / grid.cosine(j);
  });
  return result;
}

HeightErrors Diagnostics::errors(Cells const& exact) {
  auto const& h = solver_.state().h;
  std::array<double, 2> largest{0, 0};
  for_each_cell(solver_.owned(), [&](Index j, Index i) {
    largest[0] = std::max(largest[0], std::abs(*h.at(j, i) - *exact.at(j, i)));
    largest[1] = std::max(largest[1], std::abs(*exact.at(j, i)));
  });
  solver_.comm().max(largest);
  double const l1 = mean([&](Index j, Index i) { return std::abs(*h.at(j, i) - *exact.at(j, i)); });
  double const all1 = mean([&](Index j, Index i) { return std::abs(*exact.at(j, i)); });
  double const l2 = mean([&](Index j, Index i) {
    double const difference = *h.at(j, i) - *exact.at(j, i);
    return difference * difference;
  });
  double const all2 = mean([&](Index j, Index i) { return *exact.at(j, i) * *exact.at(j, i); });
  return {l1 / all1, std::sqrt(l2 / all2), largest[0] / largest[1]};
}

Diagnostics::Centred Diagnostics::centred() {
  auto const poles = solver_.exchange_state();
  auto const& grid = solver_.grid();
  auto const& s = solver_.state();
  auto const& box = solver_.owned();
  Centred result{Cells(box), Cells(box), Cells(box), Cells(box)};
  auto const at_corner = [&](Index j, Index i) {
    if (j == 0) return poles.south_vorticity;
    if (j == grid.num_rows()) return poles.north_vorticity;
    return vorticity(grid, s, j, i);
  };
  for_each_cell(box, [&](Index j, Index i) {
    double const north = j + 1 == grid.num_rows() ? 0 : *s.v.at(j + 1, i);
    *result.u.at(j, i) = 0.5 * (*s.u.at(j, i) + *s.u.at(j, i + 1));
    *result.v.at(j, i) = 0.5 * (*s.v.at(j, i) + north);
    *result.vorticity.at(j, i) =
        0.25 * (at_corner(j, i) + at_corner(j, i + 1) + at_corner(j + 1, i) + at_corner(j + 1, i + 1));
    *result.divergence.at(j, i) = divergence(grid, s, j, i);
  });
  return result;
}

}  // namespace graticule::swe
