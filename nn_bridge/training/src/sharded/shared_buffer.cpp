// SPDX-License-Identifier: BSD-3-Clause
#include "shared_buffer.hpp"

#include <graticule/partition/detail/patience.hpp>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

namespace graticule::training::detail {

std::vector<std::shared_ptr<SharedBuffer>> SharedBuffer::make(Comm const& team, torch::Device const& device,
                                                              std::vector<Size> const& sizes) {
  if (!graticule::detail::has_device() || team.num_ranks() == 1 || team.num_node_ranks() != team.num_ranks()) return {};
  std::array<Index, 1> without{device.is_cpu() ? 1 : 0};
  team.max(without);
  if (without[0] != 0) return {};
  std::vector<std::shared_ptr<SharedBuffer>> shared_buffers;
  std::vector<graticule::detail::DevicePlace::Wanted> wanted;
  for (auto const& [bytes, host_bytes] : sizes) {
    shared_buffers.emplace_back(new SharedBuffer(team, device));
    wanted.push_back({std::max<std::size_t>(bytes, 1),
                      [stream = &shared_buffers.back()->stream_] { return stream->queue(); }, host_bytes});
  }
  auto places = graticule::detail::DevicePlace::make(team, wanted);
  if (places.empty()) return {};
  for (std::size_t i = 0; i < shared_buffers.size(); ++i) shared_buffers[i]->place_ = std::move(places[i]);
  return shared_buffers;
}

SharedBuffer::~SharedBuffer() {
  if (!place_) return;
  using Clock = std::chrono::steady_clock;
  // One of several, which end one after the other.
  constexpr double longest_wait = 1;
  auto const end = Clock::now() + std::chrono::duration<double>(longest_wait);
  try {
    while (!is_free() && is_read_ && !is_given_up_ && Clock::now() < end && !team_.failed_peer())
      std::this_thread::yield();
    // Whoever has used the memory as a tensor may have done so in any stream.
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  } catch (...) {
    is_free_ = false;
  }
  if (!is_free_) graticule::detail::keep_for_good(std::move(place_));
}

void SharedBuffer::await_free(std::string const& whose, messages::Stall stall) {
  messages::wait_until(
      team_, [this] { return is_free(); },
      [&] {
        return "rank " + std::to_string(team_.rank()) + " waits for the other ranks to read what it has given of " +
               whose;
      },
      stall);
  stream_.precede_current();
}

torch::Tensor SharedBuffer::values(int rank, std::size_t at, Index numel, torch::ScalarType type) const {
  return nn::detail::tensor_over(place_->values(rank) + at, numel, type, device_);
}

void SharedBuffer::show() {
  stream_.follow_current();
  is_free_ = is_read_ = false;
  place_->give(Index(place_->bytes()));
}

}  // namespace graticule::training::detail
