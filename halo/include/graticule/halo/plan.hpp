// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/repartition/pull.hpp>

#include <span>
#include <vector>

namespace graticule {

/// Which ghost cells an exchange fills: those beyond a face only, or those beyond edges and corners too.
enum class Corners : std::uint8_t { skip, fill };

/// One field of an exchange: memory that covers the plan's local box, and how it behaves at a pole.
struct HaloField {
  FieldView view;
  Parity parity = Parity::even;
};

/// Fills the halo of fields from the owned cells of all ranks and from the boundary rules.
///
/// Holds geometry only: one plan serves every field on its layout, any number of batch axes, any dtype and memory space;
/// several exchanges may be in flight. Halos may be deeper than a neighbor's box; corners come straight from their
/// owners, so an exchange is one round of messages. A rank that owns nothing has no halo and takes part.
/// Example: one axis, 8 cells, 2 ranks, width {1, 1}, periodic: rank 0 owns [0, 4), its local box is [-1, 5);
/// cell -1 receives global cell 7 and cell 4 receives global cell 4 from rank 1.
class HaloPlan {
 public:
  /// Collective. @param widths halo cells per axis and side, none negative
  /// @throws `BadWidth`, `AxesMismatch`, what `boundary_map` throws, `PlanDisagreement` when ranks differ
  HaloPlan(Comm const& comm, Layout const& layout, std::vector<Width> const& widths, Boundary const& boundary,
           Corners corners = Corners::fill);

  /// This rank's part of the global box, and the same grown by the widths: what the fields cover.
  [[nodiscard]] Box const& owned() const noexcept { return owned_; }
  [[nodiscard]] Box const& local() const noexcept { return local_; }

  /// Reads owned cells, writes ghost cells. Owned cells may be read, not written, until `wait()`; ghosts not at all.
  Pending start(std::span<HaloField const> fields) const;
  void exchange(std::span<HaloField const> fields) const { start(fields).wait(); }
  /// Adds to each owned cell what its ghost copies hold, on all ranks, in a fixed order, and zeroes the ghosts.
  Pending start_adjoint(std::span<HaloField const> fields) const;
  void exchange_adjoint(std::span<HaloField const> fields) const { start_adjoint(fields).wait(); }

  /// The same for a single field of even parity.
  Pending start(FieldView const& field) const;
  void exchange(FieldView const& field) const { start(field).wait(); }
  Pending start_adjoint(FieldView const& field) const;
  void exchange_adjoint(FieldView const& field) const { start_adjoint(field).wait(); }

  [[nodiscard]] PullCounts counts() const noexcept { return plan_.counts(); }
  [[nodiscard]] int num_workspaces() const noexcept { return plan_.num_workspaces(); }

 private:
  Box owned_;
  Box local_;
  PullPlan plan_;
};

/// The parts of `local` outside `owned`, one box for each direction that has cells. @pre `local` contains `owned`
[[nodiscard]] std::vector<Box> halo_boxes(Box const& owned, Box const& local, Corners corners);

}  // namespace graticule
