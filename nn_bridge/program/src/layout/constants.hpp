// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>

namespace graticule::program::detail {

/// Computes constants in the parts that are used: a local operator, a view or a product of weights alone (a conversion
/// of a table, a scaled weight), whose result every later node needs in one and the same cut, runs on that cut of its
/// weights. Whole stay: a weight under other axes, which takes no memory, and views in a graph with operators in place.
///
/// Example: Legendre tables that are converted to complex numbers and used per order: each rank converts its orders.
/// Example: queries of a transformer that are a parameter, the same for all cells: each rank expands and projects those
/// of its cells.
/// Changes placements and transfers of those nodes and of the nodes that use them; nothing is received for it.
/// Cost: linear in the nodes and their tensors.
void cut_constants(Plan& plan, Sizes const& sizes);

}  // namespace graticule::program::detail
