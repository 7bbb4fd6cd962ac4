// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/process_grid.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
class RecordedCalls;
struct LiveDomains;
}  // namespace detail

/// How often layers compare their calls among the ranks.
enum class CallChecks : std::uint8_t {
  every_call,      ///< one small all-reduce per call: any disagreement is one named error on all ranks
  new_structures,  ///< only where this rank's tensor is new; other disagreements may hang. For correct programs
};

/// The ranks that share one sample, their process grid over (latitude, longitude), and the boundary rules of the globe.
///
/// A domain holds no sizes: a layer's first forward reads the rows and columns of each rank from the tensors. Copies
/// share one state. Layers of one domain must be constructed, and called, in the same order on all of its ranks.
class Domain {
 public:
  /// This process alone, for layers that are made before the ranks are known: `shard` moves them to the model's domain.
  /// All such domains share one state. @pre MPI is initialised
  Domain();
  /// Collective. @throws `BadProcessGrid` unless the grid has two axes and as many ranks as `comm`,
  /// `BadBoundary`
  Domain(Comm const& comm, ProcessGrid const& grid, Boundary const& boundary = Boundary::sphere(Edge::pole_face));

  [[nodiscard]] Comm const& comm() const noexcept;
  [[nodiscard]] ProcessGrid const& grid() const noexcept;
  [[nodiscard]] Boundary const& boundary() const noexcept;
  /// Made by `Domain()`.
  [[nodiscard]] bool is_default() const noexcept;
  /// This rank's coordinates in the grid.
  [[nodiscard]] int latitude_part() const noexcept;
  [[nodiscard]] int longitude_part() const noexcept;

  /// Rows and columns over `grid()`.
  [[nodiscard]] Sharding sharding() const;

  /// @pre the same on all ranks, between the same calls
  void set_call_checks(CallChecks checks) noexcept;
  [[nodiscard]] CallChecks call_checks() const noexcept;

  /// Number of masks that the domain's random layers (`Dropout`, ...) have drawn; their only state.
  [[nodiscard]] std::int64_t num_draws() const noexcept;
  /// Sets it, as when a checkpoint is loaded. @pre the same on all ranks, between the same calls
  void set_num_draws(std::int64_t number) const noexcept;

  /// The differentiable calls whose graph still exists.
  [[nodiscard]] detail::RecordedCalls& recorded_calls() const noexcept;

  /// Splits the domain's communicator: ranks with equal `color` form a new one, in the order of the domain's ranks. It
  /// is listed in `comms()` until the domain's own communicator is renewed. Collective.
  [[nodiscard]] Comm split(int color) const;
  /// All communicators of the domain: its own first.
  [[nodiscard]] std::vector<Comm> comms() const;

  /// A number that identifies one layer on all ranks. Requires the same call order on all ranks.
  [[nodiscard]] int next_ordinal() const noexcept;

 private:
  friend struct detail::LiveDomains;
  struct State;
  explicit Domain(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  /// Renewing the communicator discards the record of earlier calls.
  State& renewed() const noexcept;

  std::shared_ptr<State> state_;
};

namespace detail {
/// The domains of this process that are still in use, in order of construction.
[[nodiscard]] std::vector<Domain> live_domains();
}  // namespace detail

}  // namespace graticule::nn
