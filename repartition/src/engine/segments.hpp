// SPDX-License-Identifier: BSD-3-Clause
// Long messages in segments: while one is read by the peer the next is packed, and buffers stay small whatever is
// moved.
#pragma once

#include "call.hpp"
#include "segment_cells.hpp"
#include "segment_receiver.hpp"
#include "segment_sender.hpp"
#include "small_segments.hpp"

#include <span>
#include <string>
#include <vector>

namespace graticule::detail {

class Segments;

/// The calls of a plan whose messages travel in segments.
class SegmentQueue {
 public:
  /// @param budget as in `SegmentRules`
  explicit SegmentQueue(Index budget) : budget_(budget) {}

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
  [[nodiscard]] bool may_repeat() override { return queue_.oldest() == nullptr && small_.may_start(); }
  void repeat() override { small_.start(); }
  bool advance() override;
  [[nodiscard]] bool done() const override { return !small_.is_under_way() && !queue_.is_under_way(*this); }
  void conclude() override;
  [[nodiscard]] bool test() override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool has_ended() override;
  /// With `Posting::all` a call ends before that, as MPI's would: peers may be busy elsewhere.
  [[nodiscard]] bool has_free_buffers() const override { return sender_.has_free_buffers(); }
  void use_fields(int place, bool changed) override { small_.use_fields(place, changed); }
  [[nodiscard]] Index buffer_bytes() const noexcept override;

 private:
  friend SegmentQueue;

  /// How far the call has come.
  struct Progress {
    Posting posting = Posting::window;
    bool refused = false;
    bool opened = false;     ///< there is room for messages
    bool gate_open = false;  ///< memory may be written
    bool scaled = false;     ///< factors of what owned cells held are applied
    double idle_since = -1;  ///< nothing is left to do but to let peers read
  };

  /// Begins a call; nothing is done yet.
  void begin(Posting posting, bool refuses = false);
  /// Makes room for messages.
  void open();
  [[nodiscard]] bool all_posted() const noexcept { return progress_.opened && sender_.all_posted(); }
  /// One round over all messages and a bit of local work. @return false when there was nothing to do
  bool step();
  /// Memory is written only when it is known of all peers that they make the same call.
  bool open_gate();
  bool move_local();
  bool take_back_late();
  [[nodiscard]] bool is_complete() const;
  /// Peers have taken all that was sent.
  [[nodiscard]] bool is_read() const { return has_free_buffers() && small_.is_read(); }
  /// Gives buffers back. @pre `is_complete()`
  void release_buffers();
  /// Makes a repeated call one like any other. @param reading has come and is no such message as was expected
  void go_on_in_general(IncomingSegments* reading);
  [[nodiscard]] std::string own_description() const;

  Call& call_;
  SegmentQueue& queue_;
  Progress progress_;
  SegmentCells cells_;
  SegmentSender sender_;
  SegmentReceiver receiver_;
  SmallSegments small_;
};

}  // namespace graticule::detail
