// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace graticule {

/// How a message to another rank travels.
enum class Transport : std::uint8_t {
  automatic,       ///< node-shared memory where there is some, point-to-point elsewhere
  point_to_point,  ///< persistent MPI messages
  node_shared,     ///< memory that both ranks of a node map: one copy less, no MPI call
};

[[nodiscard]] std::string to_string(Transport transport);

/// `auto`, `p2p` or `node`. @throws `BadTransport`
[[nodiscard]] Transport transport_from(std::string_view name);

/// What the environment variable `GRATICULE_TRANSPORT` asks for; `automatic` where it is not set. @throws `BadTransport`
[[nodiscard]] Transport transport_from_environment();

/// The path to one peer of a plan, and why it was taken.
struct PeerPath {
  int peer = 0;
  Transport path = Transport::point_to_point;
  std::string reason;
  Index send_cells = 0;  ///< of a call with one field of each kind
  Index receive_cells = 0;
};

}  // namespace graticule
