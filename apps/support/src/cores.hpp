// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

namespace graticule::app {

/// Threads for this rank when nobody says otherwise: the cores that it may run on, divided among the ranks of the node
/// that may run on the same ones. Collective.
/// Example: 4 ranks free on 64 cores get 16 each; 4 ranks bound to 8 cores of their own get 8 each.
[[nodiscard]] int cores_per_rank(Comm const& comm);

}  // namespace graticule::app
