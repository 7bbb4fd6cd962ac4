// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/device_mpi.hpp>
#include <graticule/repartition/detail/device_place.hpp>

#include <array>
#include <exception>
#include <utility>

namespace graticule::detail {

/// What a rank tells the others of a place.
struct DevicePlace::Offer {
  DeviceAddress memory;
  EventAddress given;
  EventAddress added;
  std::uint64_t bytes = 0;  ///< 0: it has none
};

DevicePlace::DevicePlace(std::unique_ptr<messages::NodePlace> posts, std::size_t bytes, DeviceQueue queue)
    : posts_(std::move(posts)), bytes_(bytes), queue_(std::move(queue)), device_(device_of(queue_)) {
  memory_ = Buffer(bytes_, Buffer::Kind::device, device_);
  has_given_ = SharedEvent::make(device_);
  has_added_ = SharedEvent::make(device_);
}

DevicePlace::~DevicePlace() {
  OnDevice const scope(device_);
  try {
    fence(queue_);
  } catch (...) {
    // The device has failed, and says so in the next call.
    return;
  }
  // Kernels of this queue alone have used it.
  for (auto const& address : mapped_) unmap_device_memory(address, device_);
}

DevicePlace::Offer DevicePlace::offer() {
  auto const memory = address_of_device_memory(memory_.data());
  if (!memory || !has_given_ || !has_added_) return {};
  return {*memory, has_given_->address(), has_added_->address(), bytes_};
}

bool DevicePlace::add_rank(Offer const& offer, bool is_own) {
  if (offer.bytes == 0 || offer.bytes != bytes_) return false;
  places_.push_back(is_own ? memory_.data() : map_device_memory(offer.memory, device_));
  if (is_own) return true;
  if (!places_.back()) return false;
  mapped_.push_back(offer.memory);
  given_.push_back(offer.given);
  added_.push_back(offer.added);
  // Opens them. Nothing is waited for but what an earlier owner has recorded.
  return wait_for_event(queue_, offer.given) && wait_for_event(queue_, offer.added);
}

void DevicePlace::wait_for(std::vector<EventAddress> const& events) const {
  for (auto const& event : events)
    if (!wait_for_event(queue_, event)) throw Error("OutOfMemory", "an event of another rank cannot be opened");
}

void DevicePlace::give(Index num_values) {
  OnDevice const scope(device_);
  has_given_->record(queue_);
  posts_->give(num_values);
}

bool DevicePlace::all_given() {
  if (!posts_->all_given()) return false;
  OnDevice const scope(device_);
  wait_for(given_);
  return true;
}

void DevicePlace::tell_added() {
  OnDevice const scope(device_);
  has_added_->record(queue_);
  posts_->tell_added();
}

bool DevicePlace::all_added() {
  if (!posts_->all_added()) return false;
  OnDevice const scope(device_);
  wait_for(added_);
  return true;
}

std::vector<std::unique_ptr<DevicePlace>> DevicePlace::make(Comm const& team, std::vector<Wanted> const& wanted) {
  if (!has_device()) return {};
  int const num_ranks = team.num_ranks();
  std::vector<std::size_t> host_bytes;
  for (auto const& one : wanted) host_bytes.push_back(one.host_bytes);
  auto posts = messages::NodePlace::make(team, host_bytes);
  if (posts.empty() || !peers_read_device_memory(team, [&](int peer) { return peer != team.rank(); })) return {};
  std::vector<std::unique_ptr<DevicePlace>> places(wanted.size());
  std::vector<Offer> mine(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    try {
      auto queue = wanted[i].queue();
      if (!queue.instance()) continue;
      OnDevice const scope(device_of(queue));
      places[i].reset(new DevicePlace(std::move(posts[i]), wanted[i].bytes, std::move(queue)));
      mine[i] = places[i]->offer();
    } catch (std::exception const&) {
      // No queue, or no memory is left: the other ranks find no offer.
      mine[i] = {};
    }
  }
  std::vector<Offer> offers(mine.size() * std::size_t(num_ranks));
  team.gather_to_all(mine.data(), Index(mine.size() * sizeof(Offer)), offers.data());
  std::array<Index, 1> num_refused{0};
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) {
      ++num_refused[0];
      continue;
    }
    try {
      OnDevice const scope(places[i]->device_);
      for (int rank = 0; rank < num_ranks; ++rank)
        if (!places[i]->add_rank(offers[std::size_t(rank) * places.size() + i], rank == team.rank())) ++num_refused[0];
    } catch (std::exception const&) {
      ++num_refused[0];
    }
  }
  team.sum(num_refused);
  if (num_refused[0] > 0) return {};
  return places;
}

}  // namespace graticule::detail
