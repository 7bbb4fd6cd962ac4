// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/transport_name.hpp>
#include <graticule/partition/error.hpp>

#include <cstdlib>

namespace graticule::messages {

std::string to_string(Transport transport) {
  switch (transport) {
    case Transport::automatic: return "auto";
    case Transport::point_to_point: return "p2p";
    case Transport::node_shared: return "node";
  }
  return "?";
}

Transport transport_from(std::string_view name) {
  for (auto const transport : {Transport::automatic, Transport::point_to_point, Transport::node_shared})
    if (name == to_string(transport)) return transport;
  throw Error(Fault::usage, "BadOption", "transport '" + std::string(name) + "'; valid are auto, p2p and node");
}

Transport transport_from_environment() {
  char const* const value = std::getenv("GRATICULE_TRANSPORT");
  return value && *value ? transport_from(value) : Transport::automatic;
}

}  // namespace graticule::messages
