// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/stats.hpp>

namespace graticule {

std::string to_string(PullStats const& stats) {
  auto const line = [](char const* path, PullStats::Sent const& sent) {
    return "  " + std::string(path) + ": " + std::to_string(sent.num_messages) + " messages, " +
           std::to_string(sent.bytes) + " bytes\n";
  };
  auto const ms = [](double seconds) { return std::to_string(1e3 * seconds) + " ms"; };
  return std::to_string(stats.num_calls) + " calls\n" + line("point-to-point", stats.point_to_point) +
         line("node-shared, packed", stats.node_packed) + line("node-shared, in place", stats.node_in_place) +
         "  local: " + std::to_string(stats.local_bytes) + " bytes\n  " + std::to_string(stats.num_workspaces) +
         " workspaces of " + std::to_string(stats.buffer_bytes) + " bytes\n  packing " + ms(stats.pack_seconds) +
         ", local " + ms(stats.local_seconds) + ", waiting " + ms(stats.wait_seconds) + ", unpacking " +
         ms(stats.unpack_seconds) + "\n" +
         (stats.long_copies.empty() ? std::string() : "  long copies by " + std::string(stats.long_copies) + "\n");
}

}  // namespace graticule
