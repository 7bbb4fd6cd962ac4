// SPDX-License-Identifier: BSD-3-Clause
// Memory of this process that other processes of the node map: anonymous memory files, opened through /proc.
//
// No call is collective, nothing stays behind when a process is killed, and no limit of /dev/shm applies; MPI's shared
// windows have none of the three. Where the system has no memory files, `allocate` returns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace graticule::detail {

/// Names a memory file of a process of this node; the serial number tells it from an older one of the same number.
struct SegmentName {
  std::int64_t process = 0;
  std::int64_t file = -1;
  std::uint64_t serial = 0;
  friend bool operator==(SegmentName const&, SegmentName const&) = default;
};

/// A place in a segment: what a peer needs to find the same bytes.
struct NodeAddress {
  SegmentName segment;
  std::uint64_t offset = 0;
};

/// Bytes that peers can map, aligned to a page, their values unspecified.
struct NodeBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  NodeAddress address;
};

/// The bytes, or nothing where the system has no memory to share.
[[nodiscard]] std::optional<NodeBlock> allocate_node_block(std::size_t bytes);
/// Gives a block back. Peers that still read it read what was there or what comes after, never an unmapped page.
void free_node_block(NodeBlock const& block) noexcept;

/// Where `[data, data + bytes)` lies if it is in one block of this process.
[[nodiscard]] std::optional<NodeAddress> find_node_address(void const* data, std::size_t bytes) noexcept;

/// The peer's bytes in this process; null when its segment cannot be mapped. Mappings are kept for later calls.
[[nodiscard]] std::byte* map_node_address(NodeAddress const& address) noexcept;

}  // namespace graticule::detail
