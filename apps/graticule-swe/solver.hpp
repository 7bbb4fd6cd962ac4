// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/comm.hpp>

#include "grid.hpp"
#include "polar_filter.hpp"
#include "tendencies.hpp"

#include <array>
#include <vector>

namespace graticule::swe {

/// Steps of the shallow-water equations on the ranks of a communicator.
///
/// Three stages per step (Shu and Osher 1988, strong stability preserving), each with one exchange of halos of h, u and
/// v in one message per peer, while interior cells are computed. The state after any number of steps has the same bits
/// for every layout.
class Solver {
 public:
  /// Collective. State and surface are 0. @throws `BadOption` (usage) unless `seconds` is positive
  Solver(Grid const& grid, Comm const& comm, Layout const& layout, Scheme scheme, double seconds);
  Solver(Solver const&) = delete;
  Solver& operator=(Solver const&) = delete;

  [[nodiscard]] Grid const& grid() const noexcept { return grid_; }
  [[nodiscard]] Comm const& comm() const noexcept { return comm_; }
  [[nodiscard]] Layout const& layout() const noexcept { return halo_.layout(); }
  [[nodiscard]] Box const& owned() const noexcept { return halo_.owned(); }
  [[nodiscard]] Scheme scheme() const noexcept { return scheme_; }
  [[nodiscard]] double step_seconds() const noexcept { return seconds_; }
  /// The length of the next steps. @pre positive
  void set_step_seconds(double seconds) noexcept { seconds_ = seconds; }

  /// Values on the owned box and its halo, of which owned cells count.
  [[nodiscard]] State& state() noexcept { return state_; }
  /// Height of the ground. Call `exchange_surface` after a change.
  [[nodiscard]] Cells& surface() noexcept { return surface_; }
  /// Fills the halo of the surface. Collective.
  void exchange_surface() { halo_.exchange(surface_.view()); }
  /// Fills the halo of the state, for diagnostics. Collective. @return potential vorticity of the poles
  Poles exchange_state();

  /// How this rank's halos reach its neighbors.
  [[nodiscard]] std::vector<PeerPath> paths() const { return halo_.paths(); }
  /// Messages to other ranks so far: halos and polar rows, by path.
  [[nodiscard]] std::array<PullStats, 2> stats() const { return {halo_.stats(), filter_.stats()}; }

  /// One step. Collective. Cost: three exchanges, with cut longitudes also three moves of polar rows there and back.
  void step();

 private:
  /// Tendencies of a state, filtered.
  void set_tendencies(State& state);
  [[nodiscard]] Poles poles(State& state);
  /// (1 - part) * a + part * (b + seconds * tendencies), on owned cells, into `result`. From the difference of both:
  /// factors whose sum is not exactly 1, such as 1/3 and 2/3, would change the mass at every step.
  void combine(State& a, double part, State& b, State& result);

  Grid grid_;
  Comm comm_;
  Scheme scheme_;
  double seconds_;
  HaloPlan halo_;
  PolarFilter filter_;
  AxisSumPlan south_, north_;  ///< means of the rows at the poles
  State state_, stage_, tendencies_;
  Cells surface_;
};

}  // namespace graticule::swe
