// SPDX-License-Identifier: BSD-3-Clause
// Memory of this process that other processes of the node can map: anonymous memory files, opened through /proc.
//
// No call is collective, no file remains when a process is killed, and no limit of /dev/shm applies; none of the three
// is true of MPI's shared windows. Where the system has no memory files, `allocate` returns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace graticule::messages {

/// Identifies a memory file of a process of this node; the serial number distinguishes it from an older file with the
/// same number.
struct SegmentName {
  std::int64_t process = 0;
  std::int64_t file = -1;
  std::uint64_t serial = 0;
  friend bool operator==(SegmentName const&, SegmentName const&) = default;
};

/// A position in a segment, by which a peer finds the same bytes.
struct NodeAddress {
  SegmentName segment;
  std::uint64_t offset = 0;
};

/// Bytes that peers can map, aligned to a page, with unspecified values.
struct NodeBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  NodeAddress address;
};

/// The bytes, or nothing where the system cannot share memory.
[[nodiscard]] std::optional<NodeBlock> allocate_node_block(std::size_t bytes);
/// Frees a block. Peers that still read it see its old or new contents, never an unmapped page.
void free_node_block(NodeBlock const& block) noexcept;

/// Position of `[data, data + bytes)` if it lies in one block of this process.
[[nodiscard]] std::optional<NodeAddress> find_node_address(void const* data, std::size_t bytes) noexcept;

/// The peer's bytes in this process; null when its segment cannot be mapped. Mappings are kept for later calls.
[[nodiscard]] std::byte* map_node_address(NodeAddress const& address) noexcept;

/// A number that changes whenever results of the two functions above may be out of date: blocks were allocated or
/// freed, or mappings were given up.
[[nodiscard]] std::uint64_t node_memory_changes() noexcept;

/// `map_node_address` for addresses that mostly lie in one segment: that one is looked up once.
class NodeReader {
 public:
  [[nodiscard]] std::byte* map(NodeAddress const& address) noexcept {
    if (first_ == nullptr || changes_ != node_memory_changes() || segment_ != address.segment) {
      auto* const found = map_node_address(address);
      if (found == nullptr) return nullptr;
      changes_ = node_memory_changes();
      segment_ = address.segment;
      first_ = found - address.offset;
    }
    return first_ + address.offset;
  }

 private:
  SegmentName segment_;
  std::byte* first_ = nullptr;
  std::uint64_t changes_ = 0;
};

}  // namespace graticule::messages
