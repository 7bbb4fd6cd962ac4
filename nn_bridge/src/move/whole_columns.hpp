// SPDX-License-Identifier: BSD-3-Clause
// Layouts of layers that need whole parallels, on all ranks of a domain.
#pragma once

#include <graticule/partition/layout.hpp>

#include "tensor_move.hpp"

#include <memory>

namespace graticule::nn::detail {

/// Rows over all ranks: each band of rows is divided among the ranks that cut its columns, so that most cells move
/// little.
/// @param fields rows and columns over a grid of all ranks
[[nodiscard]] Layout whole_columns(Layout const& fields);

/// `fields` to `whole_columns(fields)`; null where the columns are whole already. Collective.
[[nodiscard]] std::shared_ptr<TensorMove const> move_to_whole_columns(Comm const& comm, Layout const& fields);

/// All rows, and columns over `columns`, part p on rank p.
[[nodiscard]] Layout cut_columns(Index num_rows, Cuts const& columns);

/// Cuts of `extent` cells in proportion to `cuts`; identical for equal extents.
[[nodiscard]] Cuts scaled_cuts(Cuts const& cuts, Index extent);

}  // namespace graticule::nn::detail
