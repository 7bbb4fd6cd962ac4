// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/transport.hpp>
#include <graticule/partition/indices.hpp>

#include <string>

namespace graticule {

using messages::to_string;
using messages::Transport;

/// The path to one peer of a plan, with the reason.
struct PeerPath {
  int peer = 0;
  Transport path = Transport::point_to_point;
  std::string reason;
  Index send_cells = 0;  ///< of a call with one field of each kind
  Index receive_cells = 0;
};

}  // namespace graticule
