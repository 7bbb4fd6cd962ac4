// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/strided.hpp>

#include "pull_table.hpp"

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

namespace graticule::detail {

enum class Direction : std::uint8_t { forward, adjoint };

/// Packed cells of one direction: memory that MPI reads or writes, and, for device fields, its image on the device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, MemorySpace space);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  /// For MPI; host memory.
  [[nodiscard]] std::byte* wire() const noexcept { return wire_; }
  /// For the packing kernels; the same memory as `wire()` for host fields.
  [[nodiscard]] std::byte* packed() const noexcept { return device_ ? device_ : wire_; }
  void to_wire(std::size_t offset, std::size_t bytes) const;
  void from_wire(std::size_t offset, std::size_t bytes) const;

 private:
  std::byte* wire_ = nullptr;
  std::byte* device_ = nullptr;
};

/// Where one message lies in a buffer, and its requests (several when it exceeds what one MPI call takes).
struct Message {
  PeerTransfers const* peer = nullptr;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  int first_request = 0;
  int num_requests = 0;
  int num_open = 0;
};

/// What distinguishes the buffers of one kind of call from those of another.
struct CallShape {
  Direction direction = Direction::forward;
  MemorySpace space = MemorySpace::host;
  std::vector<int> kinds;         ///< per field
  std::vector<Index> cell_bytes;  ///< per field: element size times batch elements
  friend bool operator==(CallShape const&, CallShape const&) = default;
};

/// Messages and persistent requests of one way of a call.
struct MessageSet {
  Buffer buffer;
  std::vector<Message> messages;
  std::vector<MPI_Request> requests;
  std::vector<int> message_of_request;
  std::vector<int> bytes_of_request;

  /// Byte offset in the buffer of transfer `t` of field `f` of message `m`.
  [[nodiscard]] std::size_t offset(CallShape const& shape, Message const& message, int field, int transfer) const;
};

/// Buffers, requests and arguments of one call in flight. Reused when free, so that nothing is allocated later on.
struct Workspace {
  Workspace(Comm const& comm, int tag, PullTable const& table, CallShape call_shape);
  Workspace(Workspace const&) = delete;
  Workspace& operator=(Workspace const&) = delete;
  ~Workspace();

  CallShape shape;
  bool busy = false;
  MessageSet outgoing;
  MessageSet incoming;
  int num_messages_open = 0;  ///< incoming messages that `wait_some()` has not returned
  std::string failure;        ///< what is wrong with a message that has arrived
  std::vector<FieldView> sources;
  std::vector<FieldView> targets;         ///< field by field
  std::vector<std::size_t> first_target;  ///< of each field in `targets`
  std::vector<Parity> parities;
  std::vector<StridedTask> tasks;
  bool oversubscribed = false;  ///< more ranks than cores on this node: waiting yields the core

  void start_receives();
  void start_send(int message);
  /// Blocks until at least one message has arrived whole; those are returned. Empty when none is open.
  [[nodiscard]] std::vector<int> const& wait_some();
  /// Without blocking: true when all incoming messages have arrived and all sends have ended.
  [[nodiscard]] bool test();
  void wait_sends();
  /// After a failure between start and wait: cancels what is posted and gives the workspace up; it is not leased again.
  void abandon() noexcept;

 private:
  void poll_receives();
  void note_arrival(std::size_t request, int code, MPI_Status const& status);
  std::vector<char> open_;   ///< by incoming request: started and not arrived
  std::vector<int> ended_;   ///< messages that have arrived whole
  std::vector<int> handed_;  ///< messages that the last `wait_some()` returned
};

}  // namespace graticule::detail
