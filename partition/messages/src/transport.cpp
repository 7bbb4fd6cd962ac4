// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/transport_name.hpp>
#include <graticule/partition/detail/environment.hpp>
#include <graticule/partition/error.hpp>

#include <array>

namespace graticule::messages {

namespace {

constexpr std::array transports{Transport::automatic, Transport::point_to_point, Transport::node_shared};

}  // namespace

std::string to_string(Transport transport) {
  switch (transport) {
    case Transport::automatic: return "auto";
    case Transport::point_to_point: return "p2p";
    case Transport::node_shared: return "node";
  }
  return "?";
}

Transport transport_from(std::string_view name) {
  for (auto const transport : transports)
    if (name == to_string(transport)) return transport;
  throw Error(Fault::usage, "BadOption", "transport '" + std::string(name) + "'; valid are auto, p2p and node");
}

Transport transport_from_environment() {
  return transports[graticule::detail::choice_of_environment("GRATICULE_TRANSPORT", {"auto", "p2p", "node"})];
}

}  // namespace graticule::messages
