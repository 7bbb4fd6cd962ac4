// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>

namespace graticule::program::detail {

/// Computes constants in the parts that are used: a local operator on weights alone (a conversion of a table, a scaled
/// weight), whose result every later node needs in one and the same cut, runs on that cut of its weights.
///
/// Example: Legendre tables that are converted to complex numbers and used per order: each rank converts its orders.
/// Changes placements and transfers of those nodes and of the nodes that use them; nothing is received for it.
/// Cost: linear in the nodes and their tensors.
void cut_constants(Plan& plan, Sizes const& sizes);

}  // namespace graticule::program::detail
