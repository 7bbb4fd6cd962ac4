// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/node_arena.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::detail {

/// A piece of a message in memory that MPI or the peer reads.
struct SegmentSlot {
  std::byte* wire = nullptr;
  std::byte* packed = nullptr;  ///< where kernels write it: `wire`, unless the fields lie on a device
  mutable MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;  ///< of its last post
  std::size_t bytes = 0;     ///< received
};

/// Follows the cells of a segment that MPI carries.
struct SegmentTrailer {
  std::uint32_t fields = 0;
  std::uint32_t call = 0;
  std::uint32_t segments_after = 0;
  std::uint32_t refused = 0;
};

/// Marks the length of a post that holds all segments of a message; the rest is how far they lie apart.
inline constexpr std::uint64_t holds_all = std::uint64_t(1) << 63U;

/// Segments lie apart in memory by whole cache lines.
inline constexpr std::size_t slot_alignment = 64;

/// Slots of one message and their memory.
struct SegmentSlots {
  std::vector<SegmentSlot> slots;
  std::size_t slot_bytes = 0;
  Buffer wire;
  Buffer device;
  std::optional<messages::NodeBlock> shared;

  /// Where the fields lie.
  struct Place {
    MemorySpace space;
    int device;
  };

  SegmentSlots() = default;
  SegmentSlots(SegmentSlots const&) = delete;
  SegmentSlots& operator=(SegmentSlots const&) = delete;
  ~SegmentSlots();
  /// Makes room for `count` slots of `bytes`; keeps what is large enough. @pre no slot is in use
  void resize(std::size_t count, std::size_t bytes, bool for_node, Place place);
  /// Gives the memory back. @pre no slot is in use
  void release();
  [[nodiscard]] Index total_bytes() const noexcept { return Index(slots.size() * slot_bytes); }
};

}  // namespace graticule::detail
