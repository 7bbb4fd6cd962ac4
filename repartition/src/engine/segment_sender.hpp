// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "segment_cells.hpp"
#include "segment_path.hpp"
#include "segment_slots.hpp"

#include <array>
#include <optional>
#include <vector>

namespace graticule::detail {

/// A message to one peer.
struct OutgoingSegments {
  PeerTransfers const* peer = nullptr;
  messages::NodeLink* link = nullptr;  ///< null: point-to-point
  BlockCursor cursor;
  std::size_t segments_left = 0;
  SegmentSlots slots;
  SegmentPath path;
  std::size_t next_slot = 0;
  bool in_place = false;               ///< the peer reads the fields themselves
  bool cut = false;                    ///< the peer refuses the call: the rest is not sent
  std::array<std::byte, 16> end = {};  ///< what tells it that nothing follows
  mutable MPI_Request end_request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;    ///< of the post that holds all of the message
  std::byte* views = nullptr;  ///< of the fields, where they are read in place
};

/// Sends the messages of a call in segments: packs and posts as much as there is room for. A slot is packed again only
/// when its peer has read it.
class SegmentSender {
 public:
  SegmentSender(Call& call, SegmentCells& cells);

  /// @param refuses this rank refuses the call, and tells its peers instead of sending cells
  void begin(Posting posting, bool refuses = false);
  /// Makes room for messages.
  void make_room();
  /// The messages of a call have been posted by other means.
  void set_posted();
  /// One round over all messages. @return false when there was nothing to do @pre those of earlier calls are posted
  bool push();
  /// The peer refuses the call.
  void cut(int peer);
  /// Packs the cells of fields that peers have not begun to read in place. @return false where there are none
  bool take_back();
  /// Later work in the queue runs after peers' devices have read the fields.
  void wait_for_readers();
  /// Gives buffers back. @pre `has_free_buffers()`
  void release();

  [[nodiscard]] bool all_posted() const noexcept;
  /// The call may end.
  [[nodiscard]] bool may_be_left() const;
  /// Peers have taken all that was sent.
  [[nodiscard]] bool has_free_buffers() const;
  [[nodiscard]] std::vector<OutgoingSegments>& messages() noexcept { return messages_; }
  [[nodiscard]] std::vector<OutgoingSegments> const& messages() const noexcept { return messages_; }
  /// What this rank reads, where peers may read it in place.
  [[nodiscard]] PostedFields const& posted() const noexcept { return posted_; }

 private:
  void find_posted();
  bool push(OutgoingSegments& out);
  void pack(OutgoingSegments& out, SegmentSlot const& slot, std::size_t bytes);
  void pack_all(OutgoingSegments& out);
  void post_packed(OutgoingSegments& out, SegmentSlot& slot, std::size_t bytes);
  void post_refusal(OutgoingSegments& out, SegmentSlot& slot);
  void post_end(OutgoingSegments& out);
  [[nodiscard]] std::uint64_t publish_end(OutgoingSegments& out);
  void write_end(std::byte* to) const;
  void publish(OutgoingSegments& out, std::uint64_t number, SegmentSlot const& slot, std::size_t bytes,
               std::size_t num_views);
  void send(OutgoingSegments const& out, std::byte const* data, std::size_t bytes, MPI_Request& request) const;
  /// Lets peers know when the work that is in the queue now, of which they read the results, has completed.
  void record_produced();
  [[nodiscard]] static bool has_free_buffers(OutgoingSegments const& out);
  [[nodiscard]] static bool is_free(OutgoingSegments const& out, SegmentSlot const& slot);
  [[nodiscard]] bool on_device() const noexcept { return call_.shape.on_device(); }
  [[nodiscard]] SegmentSlots::Place place() const noexcept { return {call_.shape.space, call_.shape.device}; }

  PlanContext const& plan_;
  SegmentRules const& rules_;
  Call& call_;
  SegmentCells& cells_;
  std::vector<OutgoingSegments> messages_;
  PostedFields posted_;
  std::optional<SharedEvent> produced_;
  bool is_produced_ = false;  ///< peers know when earlier work on device fields has completed
  Posting posting_ = Posting::window;
  bool refuses_ = false;
};

}  // namespace graticule::detail
