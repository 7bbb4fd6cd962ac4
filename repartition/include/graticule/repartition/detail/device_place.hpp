// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/node_place.hpp>
#include <graticule/messages/detail/sum_place.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::detail {

/// Places in memory of devices of one node, which kernels of all ranks read and write.
///
/// Hosts tell each other what they have put into their queues, and queues wait for queues: no host waits for a device.
/// Values are given after the work that is in this rank's queue; what is put there after `all_given()` reads all
/// values, and after `all_added()` the sum.
class DevicePlace final : public messages::SumPlace {
 public:
  /// Waits for the queue. @pre no work of other queues uses the memory
  ~DevicePlace() override;

  [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
  /// For kernels of this rank's device.
  [[nodiscard]] std::byte* values(int rank) const noexcept override { return places_[std::size_t(rank)]; }
  /// Memory of hosts that is given with the values, for what hosts tell each other.
  [[nodiscard]] std::byte* host_values(int rank) const noexcept { return posts_->values(rank); }
  void give(Index num_values) override;
  [[nodiscard]] bool all_given() override;
  [[nodiscard]] std::vector<int> missing() const override { return posts_->missing(); }
  void tell_added() override;
  [[nodiscard]] bool all_added() override;
  [[nodiscard]] bool is_free_after_failures() const noexcept override { return false; }

  /// Where a sum of some bytes is, and the queue of its kernels.
  struct Wanted {
    std::size_t bytes;  ///< the same on all ranks
    /// Called once devices are known to be there; what it throws counts as none.
    std::function<DeviceQueue()> queue;
    std::size_t host_bytes = 0;  ///< the same on all ranks
  };
  /// A place for each of some sums, on each rank; none where some rank cannot use device memory of all others: another
  /// node, back ends without handles for it, `GRATICULE_GPU_IPC=0`, `GRATICULE_TRANSPORT=p2p`, queues that LibTorch
  /// does not hand out. Collective. @throws `BadOption` on all ranks
  /// Cost: that of `NodePlace::make` and `peers_read_device_memory`, and a gather of 256 bytes a place.
  [[nodiscard]] static std::vector<std::unique_ptr<DevicePlace>> make(Comm const& team,
                                                                      std::vector<Wanted> const& wanted);

 private:
  struct Offer;

  DevicePlace(std::unique_ptr<messages::NodePlace> posts, std::size_t bytes, DeviceQueue queue);
  [[nodiscard]] Offer offer();
  /// False where the memory or the events of a rank cannot be opened, here and not when its values are wanted.
  [[nodiscard]] bool add_rank(Offer const& offer, bool is_own);
  void wait_for(std::vector<EventAddress> const& events) const;

  std::unique_ptr<messages::NodePlace> posts_;  ///< of hosts, with what they tell each other
  std::size_t bytes_;
  DeviceQueue queue_;
  int device_;
  Buffer memory_;
  std::optional<SharedEvent> has_given_;
  std::optional<SharedEvent> has_added_;
  std::vector<std::byte*> places_;  ///< by rank
  std::vector<DeviceAddress> mapped_;
  std::vector<EventAddress> given_;  ///< of the other ranks
  std::vector<EventAddress> added_;
};

}  // namespace graticule::detail
