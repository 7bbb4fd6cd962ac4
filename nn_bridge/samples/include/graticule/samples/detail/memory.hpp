// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

namespace graticule::samples {

/// Bytes of memory available to all processes of this node: that of the machine, or the limit of the job's control
/// group.
[[nodiscard]] Index node_memory_bytes();

/// A quarter of the node's memory, divided by its ranks: the network needs the larger part.
[[nodiscard]] Index default_memory_bytes(Comm const& comm);

}  // namespace graticule::samples
