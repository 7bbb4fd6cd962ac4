// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/repartition/detail/pull.hpp>

#include <vector>

namespace graticule::detail {

/// Cells that move from a box of the source to a box of one target; `maps` as in `Piece`.
struct Transfer {
  int kind = 0;
  int target = 0;
  bool odd_folds = false;
  bool negated = false;
  AxisMaps maps{};
  Box to;    ///< in needed coordinates, inside the target
  Box from;  ///< in source coordinates, inside one owned box
};

/// Cells of a target that come from a constant.
struct Filling {
  int kind = 0;
  int target = 0;
  double value = 0;
  Box to;
};

/// All transfers between this rank and one other, by kind: one message.
///
/// Transfers `[first_of_kind[k], first_of_kind[k + 1])` move `num_cells[k]` cells of a field of kind `k`;
/// `first_cell[t]` counts the cells of the same kind before transfer `t`.
struct PeerTransfers {
  int peer = 0;
  std::vector<Transfer> transfers;
  std::vector<Index> first_cell;
  std::vector<int> first_of_kind;
  std::vector<Index> num_cells;
};

/// What one rank receives, sends, copies and fills; both ends of a message list its transfers in the same order.
struct PullTable {
  std::vector<PeerTransfers> receives;
  std::vector<PeerTransfers> sends;
  std::vector<Transfer> local;
  std::vector<Filling> fillings;

  [[nodiscard]] std::size_t num_transfers() const noexcept {
    auto result = local.size() + fillings.size();
    for (auto const* side : {&receives, &sends})
      for (auto const& peer : *side) result += peer.transfers.size();
    return result;
  }
};

/// Finds the owners of all needed cells and sends them the requests. Collective; @throws `OutOfRange` on all ranks.
/// Cost: one message to each peer that owns needed cells, and one non-blocking barrier.
[[nodiscard]] PullTable make_pull_table(Comm const& comm, PullDescription const& description);

}  // namespace graticule::detail
