// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "segment_sender.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule::detail {

/// A message from one peer.
struct IncomingSegments {
  PeerTransfers const* peer = nullptr;
  messages::NodeLink* link = nullptr;  ///< null: point-to-point
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

/// Receives the messages of a call in segments: those of each peer in their order. A message of a peer that makes
/// another call, or refuses this one, is taken and thrown away.
class SegmentReceiver {
 public:
  SegmentReceiver(Call& call, SegmentCells& cells, SegmentSender& sender);

  /// Makes room for messages. @param refuses what arrives is not wanted
  void make_room(bool refuses);
  /// One round over messages of which nothing has come yet. @return false when none has
  bool look();
  /// Of each message something has come.
  [[nodiscard]] bool all_known() const noexcept;
  /// None of the messages is wanted.
  void fail_all() noexcept;
  /// One round over all messages. @return false when there was nothing to do @param local_done of the cells that stay
  bool pull(bool local_done);
  /// Goes on with a call of which some messages have come by other means. @param reading a post that has come, or null
  void resume(IncomingSegments* reading);
  [[nodiscard]] bool all_received() const noexcept;
  /// A message of a rank below this one is missing: terms are added in the order of ranks.
  [[nodiscard]] bool awaits_lower_rank() const noexcept;
  void release();
  [[nodiscard]] std::vector<IncomingSegments>& messages() noexcept { return messages_; }
  [[nodiscard]] std::vector<IncomingSegments> const& messages() const noexcept { return messages_; }

 private:
  void begin(IncomingSegments& in);
  bool look(IncomingSegments& in);
  [[nodiscard]] bool may_take(IncomingSegments const& in, bool local_done) const noexcept;
  bool pull_from_node(IncomingSegments& in);
  void open_post(IncomingSegments& in);
  void take_posted(IncomingSegments& in);
  void take_in_place(IncomingSegments& in);
  /// Gives the fields of a post back that this rank's device reads in place.
  void give_back(IncomingSegments const& in);
  bool pull_from_mpi(IncomingSegments& in);
  /// The oldest segment that MPI is filling, once it is complete; nullptr before.
  [[nodiscard]] SegmentSlot const* arrived(IncomingSegments& in);
  void match_messages(IncomingSegments& in);
  void throw_away(IncomingSegments& in, MPI_Message& message, int bytes);
  bool matches(IncomingSegments& in, std::uint32_t fields, std::uint32_t call);
  void fail(IncomingSegments& in, std::string const& text);
  void fail_size(IncomingSegments& in, std::size_t bytes, std::size_t expected);
  void note_refusal(IncomingSegments& in);
  [[nodiscard]] bool on_device() const noexcept { return call_.shape.on_device(); }

  PlanContext const& plan_;
  SegmentRules const& rules_;
  Call& call_;
  SegmentCells& cells_;
  SegmentSender& sender_;
  std::vector<IncomingSegments> messages_;
  std::optional<SharedEvent> read_;  ///< what peers have posted
};

}  // namespace graticule::detail
