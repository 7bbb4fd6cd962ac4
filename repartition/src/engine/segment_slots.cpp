// SPDX-License-Identifier: BSD-3-Clause
#include "segment_slots.hpp"

#include "kernels/blocks.hpp"

#include <algorithm>
#include <string>

namespace graticule::detail {

SegmentSlots::~SegmentSlots() {
  if (shared) messages::free_node_block(*shared);
}

void SegmentSlots::resize(std::size_t count, std::size_t bytes, bool for_node, Place place) {
  bool const on_device = place.space == MemorySpace::device;
  bytes = aligned(std::max<std::size_t>(bytes, 1), slot_alignment);
  if (slots.size() >= count && slot_bytes >= bytes) return;
  release();
  slots.assign(count, {});
  slot_bytes = bytes;
  std::byte* memory = nullptr;
  if (for_node) {
    shared = messages::allocate_node_block(count * bytes);
    if (!shared)
      throw Error("OutOfMemory", std::to_string(count * bytes) + " bytes of node-shared memory could not be allocated");
    memory = shared->data;
  } else {
    wire = Buffer(count * bytes, on_device ? Buffer::Kind::pinned : Buffer::Kind::host);
    memory = wire.data();
  }
  if (on_device) device = Buffer(count * bytes, Buffer::Kind::device, place.device);
  for (std::size_t s = 0; s < count; ++s) {
    slots[s].wire = memory + s * bytes;
    slots[s].packed = on_device ? device.data() + s * bytes : slots[s].wire;
  }
}

void SegmentSlots::release() {
  if (shared) messages::free_node_block(*shared);
  shared.reset();
  wire = {};
  device = {};
  slots.clear();
  slot_bytes = 0;
}

}  // namespace graticule::detail
