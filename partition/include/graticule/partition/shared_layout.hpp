// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

#include <optional>
#include <span>

namespace graticule {

/// The same boxes on other ranks: rank `ranks[r]` owns what rank `r` of `layout` owns.
///
/// A tensor product remains one. Example: rows on ranks 0, 1, 2, with `ranks` 5, 3, 4: rank 5 owns the first rows.
/// @throws `BadProcessGrid` for fewer `ranks` than the layout has, and for ranks that repeat or are negative
[[nodiscard]] Layout on_ranks(Layout const& layout, std::span<int const> ranks);

/// A layout in the rank numbers of a part of a larger communicator.
struct PartLayout {
  Layout layout;  ///< in the ranks of `comm`
  Comm comm;      ///< the part; any communicator of ranks of the larger one
};

/// Gives all ranks of `parent` a layout that only the ranks of a part of it know, in the rank numbers of `parent`.
///
/// So a `RepartitionPlan` on `parent` moves fields between two programs or teams that each know only their own layout.
/// The parts may be disjoint, overlap, be equal, and leave ranks out:
/// ```
/// Layout const from = shared_layout(parent, is_model ? std::optional(PartLayout{mine, model}) : std::nullopt);
/// Layout const to = shared_layout(parent, is_analysis ? std::optional(PartLayout{mine, analysis}) : std::nullopt);
/// RepartitionPlan const plan(parent, from, to);
/// ```
/// Collective on `parent`, not on the part: it is enough that one rank passes the layout; all ranks that pass it must
/// agree.
/// @throws on all ranks `BadLayout` when no rank passes one, `ArgumentDisagreement` when two differ, `BadLayout` for a
///         part with ranks outside `parent`, `BadProcessGrid` for a layout of more ranks than its part
/// Cost: three all-reduces of one integer and a broadcast: the parts of each axis, and the ranks where they are not the
///       first ones of `parent` in order; for a list of boxes, the boxes with cells.
[[nodiscard]] Layout shared_layout(Comm const& parent, std::optional<PartLayout> const& mine);

}  // namespace graticule
