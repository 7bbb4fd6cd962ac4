// SPDX-License-Identifier: BSD-3-Clause
// Fields that peers on the node read in place: where their memory lies, in words that both sides understand.
#pragma once

#include <graticule/messages/detail/node_arena.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/field_view.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace graticule::detail {

/// Where a field lies for peers on the node.
struct PeerAddress {
  messages::NodeAddress node;  ///< of no segment without elements, and on a device
  DeviceAddress device;
  EventAddress written;  ///< of no process where the memory holds its values already
  EventAddress read;     ///< by the peer, which writes this; of no process where it has read before it gives back
  std::int32_t on_device = 0;
};

/// Packed cells in memory of a device, when they are there, and when the peer, which writes this, has read them.
struct PostedCells {
  DeviceAddress address;
  EventAddress packed;
  EventAddress read;  ///< of no process where the peer has read them before it gives them back
};

/// Length of the post of a rank that refuses a call.
inline constexpr std::uint64_t refused_post = ~std::uint64_t(0);

/// Instead of a number of posted views: one `PostedCells`.
inline constexpr std::uint32_t packed_on_device = ~std::uint32_t(0);

/// A field in the sender's memory that a peer reads in place.
struct PostedView {
  PeerAddress data;
  DType dtype = DType::f64;
  std::int32_t ndim = 0;
  std::int32_t num_grid_axes = 0;
  std::array<std::int64_t, max_ndim> strides{};
  std::array<std::int64_t, max_ndim> grid_axes{};
  std::array<std::int64_t, max_ndim> cover_lo{};
};

/// A field that is read: the caller's own, or one in the memory of a peer. It covers the cells from `cover_lo` on.
struct Image {
  FieldView view;
  Indices cover_lo;
  friend bool operator==(Image const&, Image const&) = default;
};

/// Where the memory of `view` lies for peers on this node, if it lies in one piece of node-shared memory, or in memory
/// of a device that they can map. For a view without elements, an address of no segment.
[[nodiscard]] std::optional<PeerAddress> shared_address(FieldView const& view);

/// Fields of a call that peers on the node may read in place.
struct PostedFields {
  std::vector<Image> images;
  std::vector<PeerAddress> addresses;  ///< of their memory; empty when some field lies in private memory

  void clear() noexcept {
    images.clear();
    addresses.clear();
    found_at_ = 0;
  }
  /// Where the memory of `images` lies now.
  void find_addresses();

 private:
  std::uint64_t found_at_ = 0;  ///< `node_memory_changes()` then, of fields on the host; else 0
};

/// Writes one `PostedView` for each image. @pre `where` has room for them, aligned to 8 bytes
void write_views(std::byte* where, std::span<Image const> images, std::span<PeerAddress const> addresses);

/// The view in this process, for kernels of `device` where it lies on one: all but its extents. False when it cannot be
/// mapped.
[[nodiscard]] bool read_view(PostedView const& posted, int device, Image& image);

/// What a rank throws that cannot map memory of `peer`, for `device` where its own fields lie on one.
[[nodiscard]] Error not_mapped(int peer, MemorySpace space, int device);

}  // namespace graticule::detail
