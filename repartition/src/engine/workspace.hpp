// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/node_link.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/pull.hpp>

#include "kernels/device_tasks.hpp"
#include "plan_context.hpp"
#include "posted_views.hpp"
#include "table/pull_table.hpp"

#include <mpi.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::detail {

class Stream;

/// Tasks of a call, kept for the next one with the same fields.
struct KeptTasks {
  /// The same for device fields, and where the messages lay when they were copied there.
  struct OnDevice {
    DeviceTasks tasks;
    std::vector<std::byte const*> packed;
    bool valid = false;
  };

  std::vector<StridedTask> tasks;
  std::byte* packed = nullptr;  ///< where the message lay when they were made
  bool valid = false;
  std::array<OnDevice, 4> device;  ///< several, because messages alternate between two places
  int last_device = 0;

  void changed() noexcept {
    valid = true;
    for (auto& copy : device) copy.valid = false;
  }
};

/// Length of the post of a rank that refuses a call.
constexpr std::uint64_t refused_post = ~std::uint64_t(0);

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
  std::byte* wire = nullptr;    ///< host memory that MPI or the peer reads or writes
  std::byte* packed = nullptr;  ///< what the kernels read or write; `wire` unless the fields lie on a device
  int first_request = 0;
  int num_requests = 0;
  int num_open = 0;          ///< requests or posts that have not arrived
  std::uint64_t number = 0;  ///< of the post
  bool in_place = false;     ///< the fields themselves are read, nothing is packed
  bool on_device =
      false;  ///< packed cells are in memory of the sender's device, where the receiver's kernels read them
  std::vector<Image> images;  ///< incoming, in place: the peer's views, in the order in which it posted them

  /// Outgoing through node-shared memory: two places, because the peer may still read the last message.
  std::array<messages::NodeBlock, 2> places;
  std::array<std::uint64_t, 2> last_number{};
  std::array<std::byte*, 2> device_places{};  ///< the same in memory of the device, where the peer reads that
  int place = 0;
  Buffer received;           ///< incoming: packed cells of a peer that has its fields elsewhere than this rank
  Buffer staged;             ///< incoming: the same in memory of the host, of fields that are read in place
  bool is_released = false;  ///< incoming: the peer has its memory back

  KeptTasks kept;  ///< to pack or to unpack it
};

/// What distinguishes the buffers of one kind of call from those of another.
struct CallShape {
  Direction direction = Direction::forward;
  MemorySpace space = MemorySpace::host;
  int device = 0;  ///< on which device fields lie
  bool node_shared = false;
  bool streamed = false;        ///< long messages in segments: see `Stream`
  bool refused = false;         ///< a call that this rank refuses: it has no fields, and messages of another length
  std::vector<int> kinds = {};  ///< per field
  std::vector<Index> cell_bytes = {};  ///< per field: element size times batch elements
  friend bool operator==(CallShape const&, CallShape const&) = default;
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

/// Buffers, requests and arguments of one call in flight. Reused when free, so that nothing is allocated later on.
struct Workspace {
  /// @param num_views of the fields on the sending side, all fields together
  Workspace(PlanContext const& plan, CallShape call_shape, int num_views);
  Workspace(Workspace const&) = delete;
  Workspace& operator=(Workspace const&) = delete;
  ~Workspace();

  CallShape shape;
  std::string const& plan_name;
  std::unique_ptr<Stream> stream;  ///< of a streamed call, which has no messages here
  bool busy = false;
  bool is_small = false;  ///< moves few bytes in host memory: not every call is timed
  MessageSet outgoing;
  MessageSet incoming;
  int num_messages_open = 0;      ///< incoming messages that `wait_some()` has not returned
  std::string failure;            ///< what is wrong with a message that has arrived
  char const* failed_rule = "";   ///< its name
  std::uint32_t fields_hash = 0;  ///< of dtypes, batch axes, kinds and parities
  std::uint64_t call = 0;         ///< of the plan, counted from 1
  DeviceQueue queue;
  std::vector<FieldView> sources;
  std::vector<FieldView> targets;         ///< field by field
  std::vector<std::size_t> first_target;  ///< of each field in `targets`
  std::vector<Parity> parities;
  bool known_apart = false;  ///< no memory that the call writes belongs to two of its fields
  std::vector<StridedTask> tasks;
  std::vector<std::byte const*> places_packed;  ///< of all messages of one way
  bool is_read = false;                         ///< work in the queue may still read what MPI writes to
  std::optional<SharedEvent> read;              ///< by work in the queue: what peers have packed on their devices
  KeptTasks pack_all;                           ///< of all messages, for device fields
  KeptTasks unpack_all;                         ///< the same
  KeptTasks local;
  KeptTasks additions;  ///< of an adjoint, in order; `message_of_addition` is -1 for local ones
  KeptTasks zeros;
  std::vector<int> message_of_addition;
  std::vector<Message*> unsent;        ///< messages that are packed together
  std::vector<Image> images;           ///< of the sending side, for messages that are read in place
  std::vector<PeerAddress> addresses;  ///< of their memory; empty when some field lies in private memory
  Comm comm;                           ///< whose ranks are waited for

  void start_receives();
  /// Tells the peers that this rank refuses the call, and starts to receive what they send in it.
  void start_refusal();
  /// Without blocking: drops what has come and is not wanted any more; true when nothing is under way.
  [[nodiscard]] bool has_ended();
  /// Of the call, for `OnDevice`: kernels are launched there, and MPI may look up device memory there. None on the
  /// host.
  [[nodiscard]] int current_device() const noexcept { return shape.space == MemorySpace::device ? shape.device : -1; }
  /// Takes the arguments of a call; tasks are kept where they have not changed.
  /// The last call had just these fields.
  [[nodiscard]] bool holds(std::span<PullField const> fields) const noexcept;
  void set_fields(std::span<PullField const> fields);
  /// Makes all tasks anew at the next use.
  void forget_tasks() noexcept;
  /// Place `p` of a message has been read by its peer, or was not used yet.
  [[nodiscard]] static bool is_free(Message const& message, int p) noexcept;
  /// True when each message has a place that its peer has read, or that was not used yet.
  [[nodiscard]] bool has_free_places() const noexcept;
  /// Chooses where outgoing message `message` is packed.
  void open_place(Message& message);
  /// The same for all, of device fields: all in their first place or all in their second, for which kernels are kept.
  void open_places();
  /// Lets messages of device fields, which kernels in the queue pack, go to the host where they must, and waits for
  /// that; the queues of peers on the node wait for the kernels themselves.
  void close_places();
  /// Waits for the queue.
  void fence();
  /// Sends a message that is packed.
  void send(Message& message);
  /// Posts `images`, which the peer reads in place.
  void send_in_place(Message& message);
  /// Blocks until at least one message has arrived whole; those are returned. Empty when none is open.
  [[nodiscard]] std::vector<int> const& wait_some();
  /// Lets the sender of a message have its memory back.
  void release(Message& message) const noexcept;
  /// Lets all senders have theirs back, after the work that is in the queue now; that of a call without a queue of its
  /// own has completed then.
  void release_all_after_queue();
  /// Without blocking: true when all incoming messages have arrived and all sends have ended.
  [[nodiscard]] bool test();
  void wait_sends();
  /// After a failure between start and wait: cancels what is posted and gives the workspace up; it is not leased again.
  void abandon() noexcept;
  /// Cancels the receives that are under way.
  void cancel_receives() noexcept;
  /// True while messages that were sent have not left.
  [[nodiscard]] bool is_sending();
  [[nodiscard]] Index buffer_bytes() const noexcept;
  /// The messages that are waited for, in words.
  [[nodiscard]] std::function<std::string()> const& description() const noexcept { return describe_; }

 private:
  void take_place(Message& message, int p);
  /// Later work in the queue runs after the peer's device has read place `p`; false where the peer's event cannot be
  /// opened.
  /// @pre the peer has given the place back
  [[nodiscard]] bool wait_for_reader(Message const& message, int p) const;
  /// Brings packed cells of device fields to host memory; in order of the queue.
  void stage_out(Message& message) const;
  void poll();
  void poll_requests();
  /// Makes an incoming request anew that MPI has freed.
  void renew_receive(std::size_t request);
  void note_arrival(std::size_t request, int code, MPI_Status const& status);
  void note_post(Message& message);
  /// Maps what a post is about; false where it cannot be mapped.
  [[nodiscard]] bool map_post(Message& message, messages::Post const& post);
  void fail(Message const& message, std::string const& sent);
  void note_refusal(Message& message);
  void arrived(Message const& message);
  /// Notes a failure unless the peer makes the same call.
  bool matches(Message const& message, Trailer const& trailer);
  [[nodiscard]] std::string describe() const;

  MPI_Comm handle_;  ///< of the plan's communicator, whose requests these are
  int tag_;
  std::vector<char> open_;   ///< by incoming request: started and not arrived
  std::vector<int> ended_;   ///< messages that have arrived whole
  std::vector<int> handed_;  ///< messages that the last `wait_some()` returned
  std::function<std::string()> describe_;
};

}  // namespace graticule::detail
