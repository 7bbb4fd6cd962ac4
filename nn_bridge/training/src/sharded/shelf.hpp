// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/lanes.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/repartition/detail/device_place.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// Memory of a device in which the other ranks of a node read what this one has put there, one thing after the other.
///
/// Each rank waits until its shelf is free, fills and shows it; when all have, each reads what it needs on all shelves,
/// and says so. Queues wait for queues; hosts for posts of hosts alone.
class Shelf {
 public:
  struct Size {
    std::size_t bytes;
    std::size_t host_bytes = 0;
  };
  /// None on all ranks where some rank has no device, or cannot read those of the others: see `DevicePlace::make`.
  /// Collective. @param device of this rank's parameters @param sizes the same on all ranks
  [[nodiscard]] static std::vector<std::shared_ptr<Shelf>> make(Comm const& team, torch::Device const& device,
                                                                std::vector<Size> const& sizes);
  Shelf(Shelf const&) = delete;
  Shelf& operator=(Shelf const&) = delete;
  /// Waits for readers for a while, unless it was given up; the memory stays where some do not come.
  ~Shelf();
  /// Readers may never come: there is no use in waiting for them.
  void give_up() noexcept { is_given_up_ = true; }

  /// Blocks until all hosts have said that they read what was last shown; what is put into the current stream then runs
  /// after that. @throws `StalledExchange`, `PeerFailed`
  void await_free(std::string const& whose, messages::Stall stall);
  /// Elements from byte `at` on, on the shelf of a rank.
  [[nodiscard]] torch::Tensor values(int rank, std::size_t at, Index numel, torch::ScalarType type) const;
  [[nodiscard]] std::byte* host_values(int rank) const { return place_->host_values(rank); }
  /// What the current stream has put there until now, and what lies in `host_values`.
  void show();
  /// Calls `use` once, when all hosts have shown theirs, in a stream that runs after what the current one has now, and
  /// tells the others. False where some have not.
  template <class Use>
  bool read(Use const& use) {
    if (is_read_) return true;
    if (!place_->all_given()) return false;
    stream_.follow_current();
    {
      auto const current = stream_.use();
      use();
    }
    place_->tell_added();
    is_read_ = true;
    return true;
  }
  /// What is put into the current stream from now on runs after what was read.
  void precede_current() const { stream_.precede_current(); }
  /// Memory that was taken while reading is used again only after what is in the current stream now.
  void follow_current() const { stream_.follow_current(); }

 private:
  Shelf(Comm team, torch::Device const& device) : team_(std::move(team)), device_(device), stream_(device) {}
  [[nodiscard]] bool is_free() { return is_free_ = is_free_ || (is_read_ && place_->all_added()); }

  Comm team_;
  torch::Device device_;
  nn::detail::MessageStream stream_;
  std::unique_ptr<graticule::detail::DevicePlace> place_;
  bool is_free_ = true;  ///< nobody reads it
  bool is_read_ = true;  ///< by this rank: what was last shown
  bool is_given_up_ = false;
};

}  // namespace graticule::training::detail
