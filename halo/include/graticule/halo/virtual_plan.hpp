// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/detail/index_map.hpp>
#include <graticule/repartition/stats.hpp>

#include <vector>

namespace graticule {

/// Plans halo exchanges for any rank of any number of ranks, without MPI: cost studies, tests, choice of a partition.
///
/// Both ends of each message are computed: the received cells from the boundary rules, the sent cells from their
/// inverse.
/// Example: one axis, 8 cells, 4 ranks, width {1, 1}, periodic: `plan(0)` has the peers 1 and 3, with one cell in each
/// direction.
class VirtualHalo {
 public:
  /// The messages of one rank, as in a `HaloPlan` of the same layout on that rank.
  struct Plan {
    /// Traffic between the rank and one peer: at most one message in each direction.
    struct Peer {
      int peer = 0;
      Index send_cells = 0;
      Index receive_cells = 0;
      Index send_runs = 0;     ///< runs of cells along the last axis that packing copies
      Index receive_runs = 0;  ///< the same for unpacking
      friend bool operator==(Peer const&, Peer const&) = default;
    };

    Box owned;
    Box local;
    std::vector<Peer> peers;  ///< by increasing rank, without the rank itself
    Index local_cells = 0;    ///< ghost cells that the rank itself owns
    Index local_runs = 0;     ///< runs of these cells along the last axis
    Index filled_cells = 0;   ///< ghost cells that hold a constant

    [[nodiscard]] PullCounts counts() const noexcept;
  };

  /// One kind of fields. @throws `BadHaloWidth` (for `WidthsOf::this_rank` too: the widths of other ranks are not
  /// known), `AxesMismatch`, `Unsupported` for a layout with holes and for components on faces that meet, and what a
  /// `Boundary` lists
  VirtualHalo(Layout layout, HaloKind kind);

  [[nodiscard]] Layout const& layout() const noexcept { return layout_; }
  [[nodiscard]] HaloKind const& kind() const noexcept { return kind_; }

  /// Cost: time and memory depend on the rank's own transfers; for layouts of cuts they do not depend on the number of
  /// ranks.
  [[nodiscard]] Plan plan(int rank) const;

 private:
  Layout layout_;
  HaloKind kind_;
  Layout cells_;  ///< who owns which cells of the fields
  IndexMap map_;
  std::vector<Piece> pieces_;  ///< of the global box grown by the widths
};

}  // namespace graticule
