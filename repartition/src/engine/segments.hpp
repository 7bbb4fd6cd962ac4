// SPDX-License-Identifier: BSD-3-Clause
// Long messages in segments: while one is read by the peer the next is packed, and buffers stay small whatever is
// moved.
#pragma once

#include "call.hpp"
#include "kernels/blocks.hpp"
#include "kernels/cells.hpp"
#include "kernels/conversion.hpp"
#include "kernels/device_tasks.hpp"
#include "kernels/small_copies.hpp"
#include "plan_context.hpp"
#include "posted_views.hpp"
#include "segment_path.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace graticule::detail {

/// One field of a streamed call.
struct SegmentField {
  int kind = 0;
  Image source;
  std::vector<Image> targets;
  Parity parity = Parity::even;
  Conversion conversion;
  std::complex<double> before = 1;  ///< factor of what the owned cells hold, applied before anything is added to them
  bool rounds = false;              ///< numbers become integers, which may not hold them
};

/// A piece of a message in memory that MPI or the peer reads.
struct SegmentSlot {
  std::byte* wire = nullptr;
  std::byte* packed = nullptr;  ///< where kernels write it: `wire`, unless the fields lie on a device
  mutable MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;  ///< of its last post
  std::size_t bytes = 0;     ///< received
};

/// Marks the length of a post that holds all segments of a message; the rest is how far they lie apart.
inline constexpr std::uint64_t holds_all = std::uint64_t(1) << 63U;

/// Segments lie apart in memory by whole cache lines.
inline constexpr std::size_t slot_alignment = 64;

/// Slots of one message and their memory.
struct SegmentSlots {
  std::vector<SegmentSlot> slots;
  std::size_t slot_bytes = 0;
  Buffer wire;
  Buffer device;
  std::optional<messages::NodeBlock> shared;

  /// Where the fields lie.
  struct Place {
    MemorySpace space;
    int device;
  };

  SegmentSlots() = default;
  SegmentSlots(SegmentSlots const&) = delete;
  SegmentSlots& operator=(SegmentSlots const&) = delete;
  ~SegmentSlots();
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
void set_segment_field(PlanContext const& plan, SegmentField& result, PullField const& field, Direction direction);

class Segments;

/// The calls of a plan whose messages travel in segments.
class SegmentQueue {
 public:
  /// @param budget as in `SegmentRules`
  SegmentQueue(PullStats& stats, Index budget) : stats_(stats), budget_(budget) {}

  void add(Segments& call) { all_.push_back(&call); }
  void remove(Segments const& call) noexcept;
  /// Adds a call to those under way, and posts its messages when those of all others are posted.
  void begin(Segments& call);
  /// Adds a call whose messages are posted, in the order of the calls.
  void join(Segments& call);
  /// Moves the oldest call under way on; false when there was nothing to do.
  bool advance();
  [[nodiscard]] bool is_under_way(Segments const& call) const noexcept;
  [[nodiscard]] Segments const* oldest() const noexcept { return under_way_.empty() ? nullptr : under_way_.front(); }
  /// No call is under way, and peers have taken all that was sent.
  [[nodiscard]] bool is_idle() const;

 private:
  PullStats& stats_;
  Index budget_;
  std::vector<Segments*> all_;
  /// In order: messages of the oldest are read, those of the others are only sent.
  std::vector<Segments*> under_way_;
};

/// Messages in segments, for large data. Calls of a plan are completed in the order of their start.
class Segments : public CallMessages {
 public:
  Segments(Call& call, SegmentQueue& queue);
  ~Segments() override;

  void post(std::span<PullField const> fields, DeviceQueue const& queue, Posting posting) override;
  void refuse() override;
  [[nodiscard]] bool may_repeat() override;
  void repeat() override;
  bool advance() override { return is_small_ ? take_repeated() : queue_.advance(); }
  [[nodiscard]] bool done() const override { return !is_small_ && !queue_.is_under_way(*this); }
  void conclude() override;
  [[nodiscard]] bool test() override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool has_ended() override;
  /// With `Posting::all` a call ends before that, as MPI's would: peers may be busy elsewhere.
  [[nodiscard]] bool has_free_buffers() const override;
  void use_fields(int place, bool changed) override;
  [[nodiscard]] Index buffer_bytes() const noexcept override;

 private:
  friend SegmentQueue;

  /// How far the call has come.
  struct Progress {
    Posting posting = Posting::window;
    bool refused = false;
    bool opened = false;       ///< there is room for messages
    bool large = false;        ///< what the call writes on this rank goes past the caches
    bool gate_open = false;    ///< memory may be written
    bool scaled = false;       ///< factors of what owned cells held are applied
    bool is_produced = false;  ///< peers know when earlier work on device fields has completed
    double idle_since = -1;    ///< nothing is left to do but to let peers read
  };

  /// Begins a call; nothing is done yet.
  void begin(Posting posting);
  /// Makes room for messages.
  void open();
  /// Packs and posts all that there is room for. @pre the messages of earlier calls are posted
  void send(PullStats& stats);
  [[nodiscard]] bool all_posted() const noexcept;
  /// One round over all messages and a bit of local work. @return false when there was nothing to do
  bool step(PullStats& stats);
  [[nodiscard]] bool is_complete() const;
  /// Later work in the queue runs after peers' devices have read the fields. @pre `is_complete()`
  void wait_for_readers();
  /// Some field has `rounds`.
  [[nodiscard]] bool rounds() const noexcept;
  /// Numbers of a field that its integers do not hold. Waits for the work in the queue.
  /// @pre `is_complete()`, `rounds()`
  [[nodiscard]] Unfit unfit(int field);
  /// Collective. @throws `Conversion` on all ranks when integers on one of them do not hold a number
  void agree_on_rounding();
  /// Gives buffers back. @pre `is_complete()`
  void release_buffers();
  [[nodiscard]] std::string own_description() const;

  /// Where a message of a repeated call may lie.
  struct SmallPlace {
    std::byte* data = nullptr;
    messages::NodeAddress address;
    std::uint64_t number = 0;  ///< of the last post in it; 0: none
  };
  /// Copies of calls with the same fields, whose messages are of one short segment each.
  struct Repeated {
    struct Part {
      SmallCopies copies;
      std::size_t bytes = 0;
    };
    std::vector<Part> out;
    std::vector<Part> in;
    SmallCopies local;
    Index local_bytes = 0;
    PostedFields sent;
    int num_calls = 0;  ///< with these fields
    bool ready = false;
  };

  struct Outgoing {
    PeerTransfers const* peer = nullptr;
    messages::NodeLink* link = nullptr;
    BlockCursor cursor;
    std::size_t segments_left = 0;
    SegmentSlots slots;
    std::size_t next_slot = 0;
    bool in_place = false;               ///< the peer reads the fields themselves
    bool cut = false;                    ///< the peer refuses the call: the rest is not sent
    std::array<std::byte, 16> end = {};  ///< what tells it that nothing follows
    mutable MPI_Request end_request = MPI_REQUEST_NULL;
    std::uint64_t number = 0;    ///< of the post that holds all of the message
    std::byte* views = nullptr;  ///< of the fields, where they are read in place
    std::size_t place_bytes = 0;
    std::array<SmallPlace, 2> places;  ///< of repeated calls: two, because the peer may still read the last message
  };
  struct Incoming {
    PeerTransfers const* peer = nullptr;
    messages::NodeLink* link = nullptr;
    messages::NodeReader reader;
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

    SegmentSlots slots;
    std::vector<std::size_t> arriving;  ///< slots that MPI fills, oldest first
    std::size_t next_slot = 0;
    std::size_t segments_unmatched = 0;
  };

  /// Keeps the copies of a call that is done, if it may be repeated and has had these fields before.
  void prepare_to_repeat();
  bool find_copies(Repeated& repeated);
  /// The blocks of a message of one segment, or none; false where it has more of them.
  template <class Message>
  bool take_whole(Message& message, std::size_t& bytes);
  bool make_small_places();
  [[nodiscard]] static bool is_read(Outgoing const& out, SmallPlace const& place);
  /// Peers have taken all that was sent.
  [[nodiscard]] bool is_read() const;
  /// One round over all messages of a repeated call.
  bool take_repeated();
  /// Makes a repeated call one like any other. @param reading has come and is no such message as was expected
  void go_on_in_general(Incoming* reading);

  void describe_fields();
  void begin_receiving(Incoming& in);
  void make_room();
  void make_room_for_refusal();
  void scale_before();
  bool look(Incoming& in);
  bool open_gate(PullStats& stats);
  void find_posted();
  bool push(Outgoing& out, PullStats& stats);
  /// Tasks of `blocks_`.
  void tasks_to_pack(Outgoing const& out, std::byte* packed);
  void tasks_to_unpack(Incoming const& in, std::byte const* packed);
  /// That of the block at hand of `local_`.
  void add_local_task();
  void pack(Outgoing& out, SegmentSlot const& slot, std::size_t bytes);
  void post_packed(Outgoing& out, SegmentSlot& slot, std::size_t bytes);
  /// Lets peers know when the work that is in the queue now, of which they read the results, has completed.
  void record_produced();
  /// Gives the fields of a post back that this rank's device reads in place.
  void give_back(Incoming const& in);
  void pack_all(Outgoing& out, PullStats& stats);
  void publish(Outgoing& out, std::uint64_t number, SegmentSlot const& slot, std::size_t bytes, std::size_t num_views);
  bool take_back_late(PullStats& stats);
  void post_refusal(Outgoing& out, SegmentSlot& slot);
  void post_end(Outgoing& out);
  [[nodiscard]] std::uint64_t publish_end(Outgoing& out);
  void write_end(std::byte* to) const;
  void note_refusal(Incoming& in);
  [[nodiscard]] bool all_received() const noexcept;
  /// True when the call may end as far as this message is concerned.
  [[nodiscard]] bool may_be_left(Outgoing const& out) const;
  [[nodiscard]] bool has_free_buffers(Outgoing const& out) const;
  [[nodiscard]] bool is_free(Outgoing const& out, SegmentSlot const& slot) const;
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
  [[nodiscard]] Image const& written(SegmentField const& field, int target) const;
  [[nodiscard]] Image const& read(SegmentField const& field, int target) const;
  [[nodiscard]] Elements cells(Image const& image, Transfer const& transfer, bool of_source) const;
  [[nodiscard]] StridedTask task(SegmentField const& field, Transfer const& transfer, Block const& block, Elements to,
                                 Elements from, Transform const& transform) const;
  void add_task(Block const& block, Transfer const& transfer, Elements from, Transform const& transform,
                std::vector<Box> const* parts);
  [[nodiscard]] std::vector<Box> const* parts_of(Incoming const* in, int transfer) const;
  void run() { run(device_tasks_); }
  void run(DeviceTasks& on_device);
  void fence();
  /// Where tasks of a field note numbers that do not fit; null where none is rounded.
  [[nodiscard]] Unfit* unfit_of(SegmentField const& field) const noexcept;
  [[nodiscard]] bool on_device() const noexcept { return call_.shape.on_device(); }
  void fail(Incoming& in, std::string const& text);
  [[nodiscard]] SegmentSlots::Place place() const noexcept { return {call_.shape.space, call_.shape.device}; }
  [[nodiscard]] bool forward() const noexcept { return call_.shape.forward(); }

  PlanContext const& plan_;
  SegmentRules const& rules_;
  Call& call_;
  SegmentQueue& queue_;
  Progress progress_;
  std::vector<SegmentField> fields_;
  std::vector<BlockField> block_fields_;
  std::vector<BlockField> local_fields_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  BlockCursor local_;
  SegmentPath path_;
  PostedFields posted_;  ///< what this rank reads, where peers may read it in place
  std::optional<SharedEvent> produced_;
  std::optional<SharedEvent> read_;  ///< what peers have posted
  std::vector<Block> blocks_;
  std::vector<StridedTask> tasks_;
  DeviceTasks device_tasks_;
  DeviceTasks local_tasks_;            ///< cells that stay move while peers are waited for
  Buffer unfit_;                       ///< an `Unfit` per field, where numbers become integers
  std::size_t num_unfit_ = 0;          ///< fields for which there is room
  std::vector<Repeated> repeated_{1};  ///< by place among the fields that the call knows
  std::size_t used_ = 0;
  std::optional<messages::NodeBlock> small_block_;
  bool is_small_ = false;        ///< a repeated call is under way
  std::size_t num_awaited_ = 0;  ///< messages of it
};

}  // namespace graticule::detail
