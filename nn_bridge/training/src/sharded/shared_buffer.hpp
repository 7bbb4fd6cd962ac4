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

/// Device memory of this rank that the other ranks of its node read, one content after the other.
///
/// Each rank waits until its buffer is free, fills it and shows it. When all ranks have shown theirs, each reads what
/// it needs from all buffers and reports that it has. Queues wait for queues; hosts wait only for posts of other hosts.
class SharedBuffer {
 public:
  struct Size {
    std::size_t bytes;
    std::size_t host_bytes = 0;
  };
  /// Empty on all ranks if one of them has no device or cannot read the memory of another: see `DevicePlace::make`.
  /// Collective. @param device of this rank's parameters @param sizes the same on all ranks
  [[nodiscard]] static std::vector<std::shared_ptr<SharedBuffer>> make(Comm const& team, torch::Device const& device,
                                                                       std::vector<Size> const& sizes);
  SharedBuffer(SharedBuffer const&) = delete;
  SharedBuffer& operator=(SharedBuffer const&) = delete;
  /// Waits some seconds for its readers, unless it was given up. If a reader does not come, the memory is not freed.
  ~SharedBuffer();
  /// Readers may never come: the destructor does not wait for them.
  void give_up() noexcept { is_given_up_ = true; }

  /// Blocks until all hosts have reported that they read the last content. Later work in the current stream runs after
  /// these reads. @throws `StalledExchange`, `PeerFailed`
  void await_free(std::string const& whose, messages::Stall stall);
  /// Elements from byte `at` on, in the buffer of a rank.
  [[nodiscard]] torch::Tensor values(int rank, std::size_t at, Index numel, torch::ScalarType type) const;
  [[nodiscard]] std::byte* host_values(int rank) const { return place_->host_values(rank); }
  /// Shows what the current stream has written so far, and `host_values`.
  void show();
  /// Calls `use` once all hosts have shown their buffers, in a stream that runs after the present work of the current
  /// one, and reports it to the others. False while a host has not shown its buffer.
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
  /// Later work in the current stream runs after the reads.
  void precede_current() const { stream_.precede_current(); }
  /// Memory that was allocated for the reads is used again only after the present work of the current stream.
  void follow_current() const { stream_.follow_current(); }

 private:
  SharedBuffer(Comm team, torch::Device const& device) : team_(std::move(team)), device_(device), stream_(device) {}
  [[nodiscard]] bool is_free() { return is_free_ = is_free_ || (is_read_ && place_->all_added()); }

  Comm team_;
  torch::Device device_;
  nn::detail::MessageStream stream_;
  std::unique_ptr<graticule::detail::DevicePlace> place_;
  bool is_free_ = true;  ///< nobody reads it
  bool is_read_ = true;  ///< this rank has read the last content
  bool is_given_up_ = false;
};

}  // namespace graticule::training::detail
