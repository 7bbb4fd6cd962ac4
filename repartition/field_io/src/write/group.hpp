// SPDX-License-Identifier: BSD-3-Clause
// Groups of ranks of which one writes for all.
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>

#include "hdf5/hyperslab.hpp"

#include <cstddef>
#include <vector>

namespace graticule::detail {

/// The cells that a rank brings to a collective write.
struct Supply {
  Box cells;  ///< in coordinates of the variable along axes of step 1
  Slab slab;  ///< where they lie in the variable
  Indices chunk;
  Index most_cells = 1;  ///< in one turn
};

/// The cells of one round of writing.
struct Turn {
  Box cells;
  Slab slab;
  int member = -1;  ///< the only one that brings cells; -1: all whose cells lie there
};

/// The rank that writes for this one: those of a node are cut into runs of about equal length.
[[nodiscard]] int writer_of(Comm const& comm, int writers_per_node);

/// Cuts a supply into turns, without a group.
[[nodiscard]] std::vector<Turn> turns_of(Supply const& supply, int member);

/// The ranks that one rank of their node writes for; it is the group's rank 0.
///
/// Members send their cells turn by turn. Where their boxes together make up one box, turns are cut from that, so that
/// chunks are written once; else each member's cells are written by themselves.
class WriterGroup {
 public:
  /// Cuts the ranks of each node into `writers_per_node` groups, or into one per rank where there are fewer.
  /// Collective.
  WriterGroup(Comm const& comm, int writers_per_node);

  [[nodiscard]] bool writes() const noexcept { return group_.rank() == 0; }
  /// On a writer, all writers.
  [[nodiscard]] Comm const& peers() const noexcept { return peers_; }

  /// What the group writes, the same on its members. Collective in the group.
  [[nodiscard]] std::vector<Turn> turns(Supply const& mine);
  /// The cells that this member brings.
  [[nodiscard]] Box share(Turn const& turn) const { return share(turn, group_.rank()); }
  /// Brings the cells of a turn together. Collective in the group.
  /// @param mine dense bytes of this member's share; `nullptr` where it failed: others wait for it, so it sends
  ///        anything
  /// @return on the writer, the dense bytes of the turn until the next call; nothing elsewhere
  [[nodiscard]] void const* gather(Turn const& turn, Index value_bytes, void const* mine);

 private:
  [[nodiscard]] Box share(Turn const& turn, int member) const;

  Comm group_;
  Comm peers_;
  int tag_ = 0;
  std::vector<Box> boxes_;  ///< of the members, in the present write
  std::vector<std::byte> whole_;
  std::vector<std::byte> part_;
};

}  // namespace graticule::detail
