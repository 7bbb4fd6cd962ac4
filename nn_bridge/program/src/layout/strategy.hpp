// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "rules.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::program::detail {

/// Cuts of a node's result for which a tensor that is cut so need not move, or nearly so.
[[nodiscard]] std::vector<Cut> cuts_after(NodeRule const& rule, std::size_t tensor, Cut const& cut);

/// Cuts of a node's result into equal shares, one per axis that may be cut.
[[nodiscard]] std::vector<Cut> fresh_cuts(NodeRule const& rule, std::int64_t num_ranks);

/// What the node needs of each tensor (`to`, or `axis` and `rows`) so that its result is cut so; nothing where its rule
/// does not allow the cut.
[[nodiscard]] std::optional<std::vector<Transfer>> needs(NodeRule const& rule, Cut const& cut);

/// Fills in the bytes and messages of fetching what the transfer needs from where it is.
void count(Transfer& transfer, Shape const& shape, std::int64_t item_bytes, std::int64_t num_ranks);

}  // namespace graticule::program::detail
