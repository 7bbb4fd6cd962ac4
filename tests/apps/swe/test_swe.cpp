// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts.hpp>

#include "diagnostics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace graticule::swe {
namespace {

constexpr double degrees = std::numbers::pi / 180;

/// A solver of a case on some ranks, by default all in bands of rows.
struct Model {
  Model(Comm const& comm, CaseOptions const& options, Index rows, Index columns, double seconds,
        Scheme scheme = Scheme::enstrophy)
      : Model(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, {rows, columns}), options, seconds, scheme) {}
  Model(Comm const& comm, Layout const& layout, CaseOptions const& options, double seconds, Scheme scheme)
      : grid(layout.extent(0), layout.extent(1), planet_of(options)),
        solver(grid, comm, layout, forced_scheme(options.name).value_or(scheme), seconds),
        diagnostics(solver) {
    set_initial_state(solver, options);
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) solver.step();
  }

  Grid grid;
  Solver solver;
  Diagnostics diagnostics;
};

double l2_after(Comm const& comm, CaseOptions const& options, Index rows, double seconds, Scheme scheme) {
  double const step = 12800 / double(rows);
  Model model(comm, options, rows, 2 * rows, step, scheme);
  model.run(int(std::lround(seconds / step)));
  return model.diagnostics.errors(*exact_depth(model.solver, options, seconds)).l2;
}

TEST(Swe, converges_with_order_two_also_over_the_poles) {
  auto const comm = Comm::world();
  for (auto const scheme : {Scheme::enstrophy, Scheme::arakawa_lamb})
    for (double const angle : {45.0, 90.0}) {
      CaseOptions const options{.name = "2", .angle = angle * degrees};
      double const coarse = l2_after(comm, options, 16, 43200, scheme);
      double const fine = l2_after(comm, options, 32, 43200, scheme);
      EXPECT_LT(fine, 2e-3) << angle;
      EXPECT_GT(coarse / fine, 3) << angle << ": " << coarse << " " << fine;
    }
}

/// Heights of the surface after two days at some cells of a grid of 32 x 64: rows `first`, `first + stride` and so on,
/// columns 0, `stride` and so on. From a spectral model of another program, in triangular truncation at degree 106:
///   tests/apps/swe/swe_reference run --case 6 out.npz; tests/apps/swe/swe_reference sample out.npz --day 2 --stride 4
/// On day 2 a damping of 2 h gives the same heights as 24 h.
struct Reference {
  char const* name;
  Index stride;
  Index num_columns;               ///< of the table
  double enstrophy, arakawa_lamb;  ///< bounds of the differences, a tenth above what they are
  std::vector<double> heights;
};

std::vector<Reference> references() {
  return {
      {"5", 8, 8, 1.13e-3, 1.24e-3, {5169.80, 5168.47, 5169.25, 5170.19, 5169.69, 5166.02, 5163.86, 5169.14,
                                     5847.29, 5843.68, 5848.09, 5851.75, 5855.09, 5854.49, 5834.12, 5840.42,
                                     5780.56, 5781.65, 5781.26, 5787.14, 5797.05, 5814.70, 5768.86, 5821.48,
                                     5105.98, 5103.69, 5105.09, 5109.06, 5114.86, 5115.90, 5101.03, 5106.95}},
      {"6", 4, 4, 2.27e-3, 4.86e-3, {8200.71,  8214.50,  8194.12,  8180.28, 8910.97,  9256.49,  8829.74,  8476.24,
                                     9586.76,  10249.01, 9593.44,  8734.48, 10372.02, 10531.96, 10410.53, 9995.39,
                                     10218.18, 10502.65, 10260.19, 9709.95, 9401.17,  10073.49, 9378.89,  8570.82,
                                     8731.55,  8943.49,  8658.58,  8443.81, 8095.79,  8097.74,  8094.86,  8092.92}}};
}

/// Normalised l2 of the height at the cells of the reference.
double difference_from(Comm const& comm, Reference const& reference, Scheme scheme) {
  Model model(comm, {.name = reference.name}, 32, 64, 400, scheme);
  model.run(432);
  std::array<double, 2> sums{};
  for (std::size_t n = 0; n < reference.heights.size(); ++n) {
    Index const j = reference.stride / 2 + Index(n) / reference.num_columns * reference.stride;
    Index const i = Index(n) % reference.num_columns * reference.stride;
    if (!model.solver.owned().contains({j, i})) continue;
    double const height = *model.solver.state().h.at(j, i) + *model.solver.surface().at(j, i);
    double const truth = reference.heights[n];
    sums[0] += model.grid.cosine(j) * (height - truth) * (height - truth);
    sums[1] += model.grid.cosine(j) * truth * truth;
  }
  comm.sum(sums);
  return std::sqrt(sums[0] / sums[1]);
}

TEST(Swe, follows_a_spectral_model_over_a_mountain_and_in_a_rossby_haurwitz_wave) {
  auto const comm = Comm::world();
  for (auto const& reference : references())
    for (auto const scheme : {Scheme::enstrophy, Scheme::arakawa_lamb}) {
      double const difference = difference_from(comm, reference, scheme);
      EXPECT_LT(difference, scheme == Scheme::enstrophy ? reference.enstrophy : reference.arakawa_lamb)
          << "case " << reference.name;
      // Not the same numbers from the same program.
      EXPECT_GT(difference, 1e-4) << "case " << reference.name;
    }
}

/// Of the bell's centre of mass after two days, from where it should be, in radians.
double drift_of_bell(Comm const& comm, double angle) {
  CaseOptions const options{.name = "1", .angle = angle};
  Model model(comm, options, 32, 64, 1200, Scheme::fixed_wind);
  model.run(144);
  auto const exact = *exact_depth(model.solver, options, 2 * 86400);
  std::array<double, 6> sums{};
  auto const& box = model.solver.owned();
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = box.lo(1); i < box.hi(1); ++i) {
      double const phi = model.grid.latitude(j);
      double const lambda = model.grid.longitude(i);
      std::array<double, 3> const place{std::cos(phi) * std::cos(lambda), std::cos(phi) * std::sin(lambda),
                                        std::sin(phi)};
      for (std::size_t a = 0; a < 3; ++a) {
        sums[a] += std::cos(phi) * place[a] * *model.solver.state().h.at(j, i);
        sums[3 + a] += std::cos(phi) * place[a] * *exact.at(j, i);
      }
    }
  comm.sum(sums);
  double dot = 0;
  double found = 0;
  double truth = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    dot += sums[a] * sums[3 + a];
    found += sums[a] * sums[a];
    truth += sums[3 + a] * sums[3 + a];
  }
  return std::acos(std::min(1.0, dot / std::sqrt(found * truth)));
}

TEST(Swe, carries_a_bell_along_every_path) {
  auto const comm = Comm::world();
  // It moves by 60 degrees.
  for (double const angle : {0.0, 60.0, 90.0}) EXPECT_LT(drift_of_bell(comm, angle * degrees), 2 * degrees) << angle;
}

/// Normalised l2 of the bell of angle 0 after a distance in radians, by the exact solution of centred differences of
/// second order: on each row wave k moves by sin(k dlambda) / dlambda instead of k.
double l2_by_dispersion(Grid const& grid, Cells const& start, Cells const& exact, double distance) {
  Index const n = grid.num_columns();
  std::array<double, 2> sums{};
  for (Index j = 0; j < grid.num_rows(); ++j) {
    std::vector<double> moved(std::size_t(n), 0.0);
    for (Index k = 0; k <= n / 2; ++k) {
      double re = 0;
      double im = 0;
      for (Index i = 0; i < n; ++i) {
        re += *start.at(j, i) * std::cos(double(k * i) * grid.dlambda());
        im += *start.at(j, i) * std::sin(double(k * i) * grid.dlambda());
      }
      double const factor = (k == 0 || 2 * k == n ? 1.0 : 2.0) / double(n);
      double const phase = std::sin(double(k) * grid.dlambda()) / grid.dlambda() * distance;
      for (Index i = 0; i < n; ++i) {
        double const at = double(k * i) * grid.dlambda() - phase;
        moved[std::size_t(i)] += factor * (re * std::cos(at) + im * std::sin(at));
      }
    }
    for (Index i = 0; i < n; ++i) {
      double const truth = *exact.at(j, i);
      sums[0] += grid.cosine(j) * std::pow(moved[std::size_t(i)] - truth, 2);
      sums[1] += grid.cosine(j) * truth * truth;
    }
  }
  return std::sqrt(sums[0] / sums[1]);
}

TEST(Swe, loses_of_a_bell_what_the_dispersion_of_centred_fluxes_takes) {
  auto const comm = Comm::world();
  CaseOptions const options{.name = "1"};
  double const seconds = 2 * 86400;
  Model model(comm, options, 32, 64, 1200, Scheme::fixed_wind);
  Model const whole(Comm(MPI_COMM_SELF), options, 32, 64, 1200, Scheme::fixed_wind);
  auto const exact = *exact_depth(whole.solver, options, seconds);
  double const expected = l2_by_dispersion(whole.grid, *exact_depth(whole.solver, options, 0), exact,
                                           2 * std::numbers::pi * seconds / (12 * 86400));

  model.run(144);

  EXPECT_GT(expected, 0.3);
  EXPECT_NEAR(model.diagnostics.errors(*exact_depth(model.solver, options, seconds)).l2 / expected, 1, 2e-3);
}

TEST(Swe, keeps_the_mass_to_the_last_digits_over_many_steps) {
  auto const comm = Comm::world();
  Model model(comm, {.name = "6"}, 16, 32, 400);
  double const first = model.diagnostics.invariants().mass;
  model.run(2000);
  // Factors of a step whose sum is 1 - 5.6e-17 would lose 1.1e-13.
  EXPECT_NEAR(model.diagnostics.invariants().mass / first, 1, 3e-14);
}

TEST(Swe, conserves_mass_and_nearly_energy_and_enstrophy) {
  auto const comm = Comm::world();
  for (auto const* name : {"5", "6", "galewsky", "random"}) {
    Model sadourny(comm, {.name = name}, 16, 32, 400);
    Model both(comm, {.name = name}, 16, 32, 400, Scheme::arakawa_lamb);
    auto const first = sadourny.diagnostics.invariants();
    sadourny.run(40);
    both.run(40);
    auto const last = sadourny.diagnostics.invariants();
    auto const other = both.diagnostics.invariants();
    EXPECT_NEAR(last.mass / first.mass, 1, 1e-13) << name;
    EXPECT_NEAR(other.mass / first.mass, 1, 1e-13) << name;
    EXPECT_NEAR(last.energy / first.energy, 1, 1e-3) << name;
    EXPECT_NEAR(other.energy / first.energy, 1, 1e-5) << name;
    EXPECT_NEAR(last.enstrophy / first.enstrophy, 1, 2e-2) << name;
  }
}

/// Random sizes of at least one cell that sum to `extent`.
Cuts cuts_of(std::mt19937& random, Index extent, int parts) {
  std::vector<double> weights;
  for (Index i = 0; i < extent; ++i) weights.push_back(0.1 + double(random() % 100));
  return weighted_cuts(weights, parts);
}

TEST(Swe, has_the_same_bits_on_every_layout) {
  auto const comm = Comm::world();
  Comm const alone(MPI_COMM_SELF);
  std::mt19937 random(3);
  for (int rows = 1; rows <= comm.num_ranks(); ++rows) {
    if (comm.num_ranks() % rows != 0) continue;
    ProcessGrid const processes{rows, comm.num_ranks() / rows};
    for (auto const scheme : {Scheme::enstrophy, Scheme::arakawa_lamb})
      for (auto const* name : {"1", "2", "5", "random"}) {
        CaseOptions const options{.name = name, .angle = 0.7};
        Index const num_rows = 18;
        Index const num_columns = 26;
        Layout const layout(processes, {cuts_of(random, num_rows, processes.extent(0)),
                                        cuts_of(random, num_columns, processes.extent(1))});
        Model parts(comm, layout, options, 400, scheme);
        Model whole(alone, options, num_rows, num_columns, 400, scheme);
        parts.run(5);
        whole.run(5);
        auto const& box = parts.solver.owned();
        for (std::size_t f = 0; f < 3; ++f)
          for (Index j = box.lo(0); j < box.hi(0); ++j)
            for (Index i = box.lo(1); i < box.hi(1); ++i)
              ASSERT_EQ(*parts.solver.state().fields()[f]->at(j, i), *whole.solver.state().fields()[f]->at(j, i))
                  << "case " << name << ", field " << f << ", cell " << j << " " << i << ", " << rows
                  << " rows of ranks";
        auto const here = parts.diagnostics.invariants();
        auto const there = whole.diagnostics.invariants();
        EXPECT_EQ(here.mass, there.mass);
        EXPECT_EQ(here.energy, there.energy);
        EXPECT_EQ(here.enstrophy, there.enstrophy);
      }
  }
}

TEST(Swe, filters_polar_rows_alone) {
  auto const comm = Comm::world();
  Grid const grid(24, 48);
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, {24, 48});
  PolarFilter filter(grid, comm, layout);
  State s(layout.owned(comm.rank()));
  auto const& box = s.h.box();
  auto const wave = [&](Index k, Index i) { return 1 + std::cos(double(k * i) * grid.dlambda()); };
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = 0; i < 48; ++i) *s.h.at(j, i) = *s.u.at(j, i) = *s.v.at(j, i) = wave(20, i);
  filter.apply(s);
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = 0; i < 48; ++i) {
      double const factor = std::min(1.0, grid.cosine(j) / 0.5 / std::sin(10 * grid.dlambda()));
      EXPECT_NEAR(*s.h.at(j, i), 1 + factor * (wave(20, i) - 1), 1e-13) << j;
      EXPECT_NEAR(*s.u.at(j, i), 1 + factor * (wave(20, i) - 1), 1e-13) << j;
      double const at_face = std::min(1.0, grid.face_cosine(j) / 0.5 / std::sin(10 * grid.dlambda()));
      EXPECT_NEAR(*s.v.at(j, i), j == 0 ? wave(20, i) : 1 + at_face * (wave(20, i) - 1), 1e-13) << j;
    }
}

}  // namespace
}  // namespace graticule::swe
