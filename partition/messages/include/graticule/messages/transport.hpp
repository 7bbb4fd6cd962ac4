// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace graticule::messages {

/// Transport of messages to another rank.
enum class Transport : std::uint8_t {
  automatic,       ///< node-shared memory where available, point-to-point elsewhere
  point_to_point,  ///< persistent MPI messages
  node_shared,     ///< memory mapped by both ranks of a node: one copy less, no MPI call
};

/// `auto`, `p2p` or `node`.
[[nodiscard]] std::string to_string(Transport transport);

}  // namespace graticule::messages
