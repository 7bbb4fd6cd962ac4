// SPDX-License-Identifier: BSD-3-Clause
#include "posted_views.hpp"

#include <algorithm>
#include <new>
#include <string>

namespace graticule::detail {

std::optional<PeerAddress> shared_address(FieldView const& view) {
  Index lowest = 0;
  Index highest = 0;
  for (int m = 0; m < view.ndim(); ++m) {
    if (view.extents[m] <= 0) return PeerAddress{};
    (view.strides[m] < 0 ? lowest : highest) += (view.extents[m] - 1) * view.strides[m];
  }
  if (view.space == MemorySpace::device) {
    auto const address = address_of_device_memory(view.data);
    return address ? std::optional(PeerAddress{{}, *address, {}, {}, 1}) : std::nullopt;
  }
  Index const bytes = size_of(view.dtype);
  auto address = messages::find_node_address(static_cast<std::byte const*>(view.data) + lowest * bytes,
                                             std::size_t((highest - lowest + 1) * bytes));
  if (!address) return std::nullopt;
  address->offset += std::uint64_t(-lowest * bytes);
  return PeerAddress{*address, {}, {}, {}, 0};
}

void PostedFields::find_addresses() {
  auto const now = messages::node_memory_changes();
  if (now != 0 && found_at_ == now) return;
  bool const on_host = std::none_of(images.begin(), images.end(),
                                    [](Image const& image) { return image.view.space == MemorySpace::device; });
  found_at_ = on_host ? now : 0;
  addresses.clear();
  for (auto const& image : images) {
    auto const address = shared_address(image.view);
    if (!address) return addresses.clear();
    addresses.push_back(*address);
  }
}

void write_views(std::byte* where, std::span<Image const> images, std::span<PeerAddress const> addresses) {
  auto* const views = reinterpret_cast<PostedView*>(where);
  for (std::size_t i = 0; i < images.size(); ++i) {
    auto const& image = images[i];
    auto& posted = *new (views + i)
                       PostedView{addresses[i], image.view.dtype, image.view.ndim(), image.cover_lo.size(), {}, {}, {}};
    std::copy(image.view.strides.begin(), image.view.strides.end(), posted.strides.begin());
    std::copy(image.view.grid_axes.begin(), image.view.grid_axes.end(), posted.grid_axes.begin());
    std::copy(image.cover_lo.begin(), image.cover_lo.end(), posted.cover_lo.begin());
  }
}

bool read_view(PostedView const& posted, int device, Image& image) {
  image.view.dtype = posted.dtype;
  image.view.extents = Indices::filled(posted.ndim, 0);
  image.view.strides = Indices(std::span(posted.strides.data(), std::size_t(posted.ndim)));
  image.view.grid_axes = Indices(std::span(posted.grid_axes.data(), std::size_t(posted.num_grid_axes)));
  image.cover_lo = Indices(std::span(posted.cover_lo.data(), std::size_t(posted.num_grid_axes)));
  if (posted.data.on_device) {
    image.view.space = MemorySpace::device;
    image.view.data = map_device_memory(posted.data.device, device);
    return image.view.data != nullptr;
  }
  bool const empty = posted.data.node.segment.file < 0;
  image.view.space = MemorySpace::host;
  image.view.data = empty ? nullptr : messages::map_node_address(posted.data.node);
  return empty || image.view.data != nullptr;
}

Error not_mapped(int peer, MemorySpace space, int device) {
  auto const text = "memory of rank " + std::to_string(peer) + " can no longer be mapped";
  int const tried = device_of({});
  if (space == MemorySpace::host || device == tried) return Error("OutOfMemory", text);
  return Error("Unsupported", text + " for device " + std::to_string(device) +
                                  "; whether ranks can was tried for device " + std::to_string(tried) +
                                  ", on which Kokkos was started (GRATICULE_GPU_IPC=0 does without)");
}

}  // namespace graticule::detail
