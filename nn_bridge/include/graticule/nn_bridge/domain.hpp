// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/process_grid.hpp>

#include <memory>

namespace graticule::nn {

/// The ranks that share one sample, their grid over (latitude, longitude), and what lies beyond the edges of the globe.
///
/// It knows no sizes: how many rows and columns each rank holds is read from the tensors at a layer's first forward.
/// Copies share one state. Layers of one domain are made, and called, in the same order on all of its ranks.
class Domain {
 public:
  /// Collective. @throws `DomainShape` unless the grid has two axes and as many ranks as `comm`, `PoleNeedsPeriodicLongitude`
  Domain(Comm const& comm, ProcessGrid const& grid, Boundary const& boundary = Boundary::sphere(Edge::pole_face));

  [[nodiscard]] Comm const& comm() const noexcept;
  [[nodiscard]] ProcessGrid const& grid() const noexcept;
  [[nodiscard]] Boundary const& boundary() const noexcept;
  /// This rank's place in the grid.
  [[nodiscard]] int latitude_part() const noexcept;
  [[nodiscard]] int longitude_part() const noexcept;

  /// A number that names one layer on all ranks. Same call order on all ranks.
  [[nodiscard]] int next_ordinal() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace graticule::nn
