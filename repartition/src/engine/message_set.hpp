// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/node_link.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include "call.hpp"
#include "kernels/device_tasks.hpp"
#include "kernels/small_copies.hpp"
#include "posted_views.hpp"

#include <mpi.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace graticule::detail {

/// Tasks of a call, kept for the next one with the same fields.
struct KeptTasks {
  /// The same for device fields, and where the messages lay when they were copied there.
  struct OnDevice {
    DeviceTasks tasks;
    std::vector<std::byte const*> packed;
    bool valid = false;
  };

  std::vector<StridedTask> tasks;
  SmallCopies small;            ///< the same, where all are small copies in host memory
  std::byte* packed = nullptr;  ///< where the message lay when they were made
  bool valid = false;
  std::array<OnDevice, 4> device;  ///< several, because messages alternate between two places
  int last_device = 0;

  void changed() noexcept {
    valid = true;
    small.clear();
    for (auto& copy : device) copy.valid = false;
  }
};

/// Follows the packed cells in host memory: what both sides of a message must agree on.
struct Trailer {
  std::uint32_t fields = 0;
  std::uint32_t call = 0;
};

/// One message of a call, and its requests (several when it exceeds what one MPI call takes).
struct Message {
  PeerTransfers const* peer = nullptr;
  messages::NodeLink* link = nullptr;  ///< through node-shared memory; null: point-to-point
  std::size_t bytes = 0;               ///< packed
  std::size_t trailer_bytes = 0;
  messages::NodeReader reader;  ///< of its posts
  std::byte* wire = nullptr;    ///< host memory that MPI or the peer reads or writes
  std::byte* packed = nullptr;  ///< what the kernels read or write; `wire` unless the fields lie on a device
  int first_request = 0;
  int num_requests = 0;
  int num_open = 0;            ///< requests or posts that have not arrived
  std::uint64_t number = 0;    ///< of the post
  bool sent_in_place = false;  ///< outgoing: the fields themselves are read, nothing is packed
  bool on_device =
      false;  ///< packed cells are in memory of the sender's device, where the receiver's kernels read them

  /// Where an outgoing message through node-shared memory may lie.
  struct Place {
    messages::NodeBlock memory;
    std::uint64_t last_number = 0;  ///< of the last post in it; 0: none
    std::byte* device = nullptr;    ///< the same in memory of the device, where the peer reads that
  };
  std::array<Place, 2> places;  ///< two, because the peer may still read the last message
  int place = 0;
  Buffer received;           ///< incoming: packed cells of a peer that has its fields elsewhere than this rank
  Buffer staged;             ///< incoming: the same in memory of the host, of fields that are read in place
  bool is_released = false;  ///< incoming: the peer has its memory back

  /// What depends on the fields of the call.
  struct OfFields {
    KeptTasks kept;             ///< to pack or to unpack it
    bool in_place = false;      ///< incoming: the peer's fields themselves are read
    std::vector<Image> images;  ///< then: the peer's views, in the order in which it posted them
  };
  std::vector<OfFields> of_fields{1};  ///< by place among the fields that the call knows
  int used = 0;                        ///< the place of those of the call that is made now

  [[nodiscard]] OfFields& now() noexcept { return of_fields[std::size_t(used)]; }
  [[nodiscard]] OfFields const& now() const noexcept { return of_fields[std::size_t(used)]; }
  [[nodiscard]] KeptTasks& kept() noexcept { return now().kept; }
};

/// Messages and persistent requests of one way of a call.
struct MessageSet {
  Buffer wire;
  Buffer device;
  std::optional<DeviceAddress> device_address;  ///< of `device` for peers on the node
  std::vector<SharedEvent> packed;              ///< for each place: the messages are there
  messages::NodeBlock shared;
  std::vector<Message> messages;
  std::vector<MPI_Request> requests;
  std::vector<int> message_of_request;
  std::vector<int> bytes_of_request;

  /// Bytes in a message before the cells of transfer `t` of field `f`.
  [[nodiscard]] static std::size_t offset(CallShape const& shape, Message const& message, int field, int transfer);
};

enum class Way : std::uint8_t { out, in };

/// All messages of one way of calls of `shape`, with their memory and requests. @param num_views of the fields on the
/// sending side, all fields together
void make_messages(MessageSet& set, PlanContext const& plan, CallShape const& shape, int num_views, Way way);
/// Makes a request of `message` that sends or receives `bytes`.
[[nodiscard]] MPI_Request make_request(MPI_Comm comm, int tag, Way way, Message const& message,
                                       std::span<std::byte> bytes);
/// Longest piece of a message in one MPI call, whose counts are `int`.
inline constexpr std::size_t max_request_bytes = std::size_t(1) << 30U;
/// Length of the message of a rank that refuses a call. All others, with trailer or without, are a multiple of 8 long.
inline constexpr std::size_t refusal_bytes = 4;

}  // namespace graticule::detail
