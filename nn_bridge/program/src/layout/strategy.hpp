// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "rules.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::program::detail {

/// Cuts of a node's result for which a tensor with this cut moves little or not at all.
[[nodiscard]] std::vector<Cut> cuts_after(NodeRule const& rule, std::size_t tensor, Cut const& cut);

/// Cuts of a node's result into equal shares, one per axis that may be cut.
[[nodiscard]] std::vector<Cut> fresh_cuts(NodeRule const& rule, std::int64_t num_ranks);

/// What the node needs of each tensor (`to`, or `axis` and `rows`) for a result with this cut; nothing if its rule does
/// not allow it.
[[nodiscard]] std::optional<std::vector<Transfer>> needs(NodeRule const& rule, Cut const& cut);

/// Fills in the bytes and messages of the transfer.
void count(Transfer& transfer, Shape const& shape, std::int64_t item_bytes, std::int64_t num_ranks);

}  // namespace graticule::program::detail
