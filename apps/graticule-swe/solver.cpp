// SPDX-License-Identifier: BSD-3-Clause
#include "solver.hpp"

#include <graticule/partition/error.hpp>

#include <Kokkos_Core.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace graticule::swe {

namespace {

/// Longitude is periodic, the poles are closed: no wind blows through them.
Boundary closed_poles() {
  Boundary boundary = Boundary::sphere(Edge::pole_face);
  boundary.axes[0] = AxisBoundary{Edge::constant, Edge::constant};
  return boundary;
}

std::vector<Width> widths(Scheme scheme) {
  Index const n = reach(scheme);
  return {{n, n}, {n, n}};
}

AxisSumOptions row(Grid const& grid, Index j) {
  return {.scale = AxisSumScale::mean, .region = Box({j, 0}, {j + 1, grid.num_columns()})};
}

}  // namespace

Solver::Solver(Grid const& grid, Comm const& comm, Layout const& layout, Scheme scheme, double seconds)
    : grid_(grid),
      comm_(comm),
      scheme_(scheme),
      seconds_(seconds),
      halo_(comm, layout, widths(scheme), closed_poles()),
      filter_(grid_, comm, layout),
      south_(comm, layout, 1, row(grid_, 0)),
      north_(comm, layout, 1, row(grid_, grid_.num_rows() - 1)),
      state_(halo_.local()),
      stage_(halo_.local()),
      tendencies_(halo_.owned()),
      surface_(halo_.local()) {
  if (!(seconds > 0))
    throw Error(Fault::usage, "BadOption", "the time step must be positive, got " + std::to_string(seconds) + " s");
}

Poles Solver::poles(State& state) {
  double const radius = grid_.planet().radius;
  // Potential and relative vorticity.
  auto const cap = [&](AxisSumPlan const& ring, Index j, double sign) {
    auto const& sums = ring.sums();
    std::array<double, 2> values{0, 1};
    std::array<Index, 2> const one{sums.empty() ? 0 : sums.extent(0), sums.empty() ? 0 : 1};
    auto const of = [&](std::size_t n) { return field_view(&values[n], Indices{one[0], one[1]}, 2); };
    std::array const fields{AxisSumField{state.u.part(halo_.owned()), of(0)},
                            AxisSumField{state.h.part(halo_.owned()), of(1)}};
    ring.apply(fields);
    // Circulation along the row by the area of the cap; the sum is the mean times the number of cells.
    double const cosine = grid_.cosine(j);
    double const sine = std::sin(std::abs(grid_.latitude(j)));
    double const vorticity = sign * values[0] * cosine / (radius * (1 - sine));
    double const coriolis = sign * 2 * grid_.planet().rotation * std::cos(grid_.planet().tilt);
    return std::pair((coriolis + vorticity) / values[1], vorticity);
  };
  auto const south = cap(south_, 0, -1);
  auto const north = cap(north_, grid_.num_rows() - 1, 1);
  Poles result{south.first, north.first, south.second, north.second};
  if (reach(scheme_) == 1) return result;
  // Ranks that own the second row need them, too.
  constexpr double none = -std::numeric_limits<double>::infinity();
  std::array<double, 2> both{south_.sums().empty() ? none : result.south, north_.sums().empty() ? none : result.north};
  comm_.max(both);
  result.south = both[0];
  result.north = both[1];
  return result;
}

Poles Solver::exchange_state() {
  halo_.exchange(state_.h.view(), state_.u.view(), state_.v.view());
  return poles(state_);
}

void Solver::set_tendencies(State& state) {
  auto pending = halo_.start(state.h.view(), state.u.view(), state.v.view());
  auto const at_poles = poles(state);
  compute_tendencies(grid_, scheme_, state, surface_, at_poles, halo_.interior(), tendencies_);
  pending.wait();
  for (auto const& box : halo_.border())
    compute_tendencies(grid_, scheme_, state, surface_, at_poles, box, tendencies_);
  filter_.apply(tendencies_);
}

void Solver::combine(State& a, double part, State& b, State& result) {
  auto const& box = halo_.owned();
  if (box.empty()) return;
  std::size_t const num_fields = scheme_ == Scheme::fixed_wind ? 1 : 3;
  using Rows = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>;
  Kokkos::parallel_for("combine", Rows(long(box.lo(0)), long(box.hi(0))), [&](long j) {
    double const factor = part;
    double const seconds = seconds_;
    for (std::size_t f = 0; f < num_fields; ++f) {
      double const* const x = a.fields()[f]->at(j, box.lo(1));
      double const* const y = b.fields()[f]->at(j, box.lo(1));
      double const* const d = tendencies_.fields()[f]->at(j, box.lo(1));
      double* const out = result.fields()[f]->at(j, box.lo(1));
      for (Index i = 0; i < box.extent(1); ++i) out[i] = x[i] + factor * ((y[i] - x[i]) + seconds * d[i]);
    }
  });
  Kokkos::fence();
}

void Solver::step() {
  // The fixed wind is needed in the second state, too.
  if (scheme_ == Scheme::fixed_wind) {
    stage_.u = state_.u;
    stage_.v = state_.v;
  }
  set_tendencies(state_);
  combine(state_, 1, state_, stage_);
  set_tendencies(stage_);
  combine(state_, 0.25, stage_, stage_);
  set_tendencies(stage_);
  combine(state_, 2.0 / 3, stage_, state_);
}

}  // namespace graticule::swe
