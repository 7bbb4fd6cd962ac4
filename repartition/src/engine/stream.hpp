// SPDX-License-Identifier: BSD-3-Clause
// Long messages in segments: while one is read by the peer the next is packed, and buffers stay small whatever is
// moved.
#pragma once

#include "kernels/blocks.hpp"
#include "kernels/cells.hpp"
#include "kernels/conversion.hpp"
#include "plan_context.hpp"
#include "segment_path.hpp"
#include "workspace.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace graticule::detail {

/// One field of a streamed call.
struct StreamField {
  int kind = 0;
  Image source;
  std::vector<Image> targets;
  Parity parity = Parity::even;
  Conversion conversion;
  std::complex<double> before = 1;  ///< factor of what the owned cells hold, applied before anything is added to them
  bool rounds = false;              ///< numbers become integers, which may not hold them
};

/// A piece of a message in memory that MPI or the peer reads.
struct StreamSlot {
  std::byte* wire = nullptr;
  std::byte* packed = nullptr;  ///< where kernels write it: `wire`, unless the fields lie on a device
  mutable MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;  ///< of its last post
  std::size_t bytes = 0;     ///< received
};

/// Slots of one message and their memory.
struct StreamSlots {
  std::vector<StreamSlot> slots;
  std::size_t slot_bytes = 0;
  Buffer wire;
  Buffer device;
  std::optional<messages::NodeBlock> shared;

  /// Where the fields lie.
  struct Place {
    MemorySpace space;
    int device;
  };

  StreamSlots() = default;
  StreamSlots(StreamSlots const&) = delete;
  StreamSlots& operator=(StreamSlots const&) = delete;
  ~StreamSlots();
  /// Makes room for `count` slots of `bytes`; keeps what is large enough. @pre no slot is in use
  void resize(std::size_t count, std::size_t bytes, bool for_node, Place place);
  /// Gives the memory back. @pre no slot is in use
  void release();
  [[nodiscard]] Index total_bytes() const noexcept;
};

/// How values of a field are converted. @param before becomes the factor of what owned cells hold before anything is
/// added
[[nodiscard]] Conversion conversion_of(PlanContext const& plan, PullField const& field, Direction direction,
                                       std::complex<double>& before);
/// Numbers become integers, which may not hold them: then all ranks agree on how the call ends.
[[nodiscard]] bool rounds(PlanContext const& plan, PullField const& field, Direction direction) noexcept;
void set_stream_field(PlanContext const& plan, StreamField& result, PullField const& field, Direction direction);

/// How much of a call is packed before `start` returns.
enum class Posting : std::uint8_t { window, all };

/// One call of a plan whose messages travel in segments. Reused for later calls of the same kind.
class Stream {
 public:
  Stream(PlanContext const& plan, Direction direction, MemorySpace space, int device, bool node_shared);
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  ~Stream() = default;

  /// Fields of the next call, to be filled in before `begin`.
  [[nodiscard]] std::vector<StreamField>& fields() noexcept { return fields_; }
  /// Begins a call; nothing is done yet.
  void begin(Posting posting, std::uint32_t fields_hash, std::uint64_t call, DeviceQueue const& queue);
  /// Begins a call that this rank refuses: notifies the peers, and discards what they send.
  void begin_refusal(std::uint64_t call);
  [[nodiscard]] bool opened() const noexcept { return opened_; }
  /// Makes room for messages.
  void open();
  /// Packs and posts all that there is room for. @pre the messages of earlier calls are posted
  void post(PullStats& stats);
  [[nodiscard]] bool all_posted() const noexcept;
  /// One round over all messages and a bit of local work. @return false when there was nothing to do
  bool advance(PullStats& stats);
  [[nodiscard]] bool done() const;
  /// True when peers have taken all that was sent, so that the buffers may be used again. With `Posting::all` a call
  /// ends before that, as MPI's would: peers may be busy elsewhere.
  [[nodiscard]] bool has_free_buffers() const;
  /// Later work in the queue runs after peers' devices have read the fields. @pre `done()`
  void wait_for_readers();
  /// What is wrong with what arrived; empty when nothing is.
  [[nodiscard]] std::string const& failure() const noexcept { return failure_; }
  [[nodiscard]] char const* failed_rule() const noexcept { return failed_rule_; }
  /// Some field has `rounds`.
  [[nodiscard]] bool rounds() const noexcept;
  /// Numbers of a field that its integers do not hold. Waits for the work in the queue. @pre `done()`, `rounds()`
  [[nodiscard]] Unfit unfit(int field);
  [[nodiscard]] Index buffer_bytes() const noexcept;
  /// Gives buffers back. @pre `done()`
  void release_buffers();
  /// What is waited for, in words.
  [[nodiscard]] std::string describe() const;

 private:
  struct Outgoing {
    PeerTransfers const* peer = nullptr;
    messages::NodeLink* link = nullptr;
    BlockCursor cursor;
    std::size_t segments_left = 0;
    StreamSlots slots;
    std::size_t next_slot = 0;
    bool in_place = false;               ///< the peer reads the fields themselves
    bool cut = false;                    ///< the peer refuses the call: the rest is not sent
    std::array<std::byte, 16> end = {};  ///< what tells it that nothing follows
    mutable MPI_Request end_request = MPI_REQUEST_NULL;
    std::uint64_t number = 0;    ///< of the post that holds all of the message
    std::byte* views = nullptr;  ///< of the fields, where they are read in place
  };
  struct Incoming {
    PeerTransfers const* peer = nullptr;
    messages::NodeLink* link = nullptr;
    BlockCursor cursor;
    std::size_t segments_left = 0;
    std::size_t bytes = 0;  ///< of the message
    bool known = false;     ///< its first segment has come: the peer makes the same call, or has failed
    bool failed = false;    ///< the peer makes another call: what it sends is thrown away

    std::uint64_t number = 0;  ///< of the post that is read or awaited; 0: none
    bool reading = false;
    std::byte* content = nullptr;
    std::size_t bytes_posted = 0;
    bool holds_all = false;          ///< all segments are in the post, `bytes_posted` apart
    std::size_t segments_after = 0;  ///< of the message, after the post
    bool in_place = false;
    std::vector<Image> images;  ///< in place: the peer's views

    StreamSlots slots;
    std::vector<std::size_t> arriving;  ///< slots that MPI fills, oldest first
    std::size_t next_slot = 0;
    std::size_t segments_unmatched = 0;
  };

  void make_room();
  void make_room_for_refusal();
  void scale_before();
  bool look(Incoming& in);
  bool open_gate(PullStats& stats);
  void find_images();
  bool push(Outgoing& out, PullStats& stats);
  void pack(Outgoing& out, StreamSlot const& slot, std::size_t bytes);
  void post_packed(Outgoing& out, StreamSlot& slot, std::size_t bytes);
  /// Lets peers know when the work that is in the queue now, of which they read the results, has completed.
  void record_produced();
  /// Gives the fields of a post back that this rank's device reads in place.
  void give_back(Incoming const& in);
  void pack_all(Outgoing& out, PullStats& stats);
  void publish(Outgoing& out, std::uint64_t number, StreamSlot const& slot, std::size_t bytes, std::size_t num_views);
  bool take_back_late(PullStats& stats);
  void post_refusal(Outgoing& out, StreamSlot& slot);
  void post_end(Outgoing& out);
  [[nodiscard]] std::uint64_t publish_end(Outgoing& out);
  void write_end(std::byte* to) const;
  void note_refusal(Incoming& in);
  [[nodiscard]] bool all_received() const noexcept;
  /// True when the call may end as far as this message is concerned.
  [[nodiscard]] bool may_be_left(Outgoing const& out) const;
  [[nodiscard]] bool has_free_buffers(Outgoing const& out) const;
  [[nodiscard]] bool is_free(Outgoing const& out, StreamSlot const& slot) const;
  [[nodiscard]] bool may_take(Incoming const& in) const noexcept;
  bool pull(Incoming& in);
  bool pull_from_node(Incoming& in);
  void open_post(Incoming& in);
  bool pull_from_mpi(Incoming& in);
  void match_messages(Incoming& in);
  void throw_away(Incoming& in, MPI_Message& message, int bytes);
  void take_posted(Incoming& in);
  /// @param bytes of the segment
  void unpack(Incoming& in, std::byte const* packed, std::size_t bytes);
  /// `run`, timed where the cells go to or come from a segment of a peer on the node.
  void run_segment(bool linked, std::size_t bytes);
  void fail_size(Incoming& in, std::size_t bytes, std::size_t expected);
  void take_in_place(Incoming& in);
  bool matches(Incoming& in, std::uint32_t fields, std::uint32_t call);
  bool move_local(PullStats& stats);
  [[nodiscard]] Image const& written(StreamField const& field, int target) const;
  [[nodiscard]] Image const& read(StreamField const& field, int target) const;
  [[nodiscard]] Elements cells(Image const& image, Transfer const& transfer, bool of_source) const;
  [[nodiscard]] StridedTask task(StreamField const& field, Transfer const& transfer, Block const& block, Elements to,
                                 Elements from, Transform const& transform) const;
  void add_task(Block const& block, Transfer const& transfer, Elements from, Transform const& transform,
                std::vector<Box> const* parts);
  [[nodiscard]] std::vector<Box> const* parts_of(Incoming const* in, int transfer) const;
  void run() { run(device_tasks_); }
  void run(DeviceTasks& on_device);
  void fence();
  /// Where tasks of a field note numbers that do not fit; null where none is rounded.
  [[nodiscard]] Unfit* unfit_of(StreamField const& field) const noexcept;
  [[nodiscard]] bool on_device() const noexcept { return space_ == MemorySpace::device; }
  void fail(Incoming& in, std::string const& text);
  [[nodiscard]] StreamSlots::Place place() const noexcept { return {space_, device_}; }
  [[nodiscard]] bool forward() const noexcept { return direction_ == Direction::forward; }

  PlanContext const& plan_;
  SegmentRules const& rules_;
  Direction direction_;
  MemorySpace space_;
  int device_;
  std::uint32_t fields_hash_ = 0;
  std::uint64_t call_ = 0;
  DeviceQueue queue_;
  std::vector<StreamField> fields_;
  std::vector<BlockField> block_fields_;
  std::vector<BlockField> local_fields_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  BlockCursor local_;
  Posting posting_ = Posting::window;
  bool opened_ = false;
  bool large_ = false;  ///< what the call writes on this rank goes past the caches
  SegmentPath path_;
  bool scaled_ = false;
  double idle_since_ = -1;    ///< nothing is left to do but to let peers read
  bool gate_open_ = false;    ///< memory may be written
  bool is_produced_ = false;  ///< peers know when earlier work on device fields has completed
  std::optional<SharedEvent> produced_;
  std::optional<SharedEvent> read_;  ///< what peers have posted
  std::vector<Block> blocks_;
  std::vector<StridedTask> tasks_;
  DeviceTasks device_tasks_;
  DeviceTasks local_tasks_;    ///< cells that stay move while peers are waited for
  std::vector<Image> images_;  ///< what this rank reads, where peers may read it in place
  std::vector<PeerAddress> addresses_;
  Buffer unfit_;               ///< an `Unfit` per field, where numbers become integers
  std::size_t num_unfit_ = 0;  ///< fields for which there is room
  std::string failure_;
  char const* failed_rule_ = "FieldMismatch";
  bool refused_ = false;
};

}  // namespace graticule::detail
