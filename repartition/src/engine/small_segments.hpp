// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/small_copies.hpp"
#include "segment_receiver.hpp"

#include <array>
#include <optional>
#include <vector>

namespace graticule::detail {

/// Calls with few cells between ranks of a node, made again with fields that they have had: one short message for each
/// peer, whose copies are kept. For peers these are posts like any other.
class SmallSegments {
 public:
  SmallSegments(Call& call, SegmentCells& cells, SegmentSender& sender, SegmentReceiver& receiver)
      : call_(call), cells_(cells), sender_(sender), receiver_(receiver) {}
  SmallSegments(SmallSegments const&) = delete;
  SmallSegments& operator=(SmallSegments const&) = delete;
  ~SmallSegments();

  /// As `CallMessages::use_fields`.
  void use_fields(int place, bool changed);
  /// Keeps the copies of a call that is done, if it may be repeated and has had these fields before.
  void prepare();
  [[nodiscard]] bool may_start();
  void start();
  [[nodiscard]] bool is_under_way() const noexcept { return is_under_way_; }
  /// One round over all messages. @return one that has come and is no such message as was expected, or null
  [[nodiscard]] IncomingSegments* take(bool& moved);
  /// The call is, or becomes, one like any other.
  void stop() noexcept { is_under_way_ = makes_call_ = false; }
  /// The last call was begun by `start`, and has not become one like any other: nothing of it is left to be ended.
  [[nodiscard]] bool makes_call() const noexcept { return makes_call_; }
  /// Peers have taken all that was sent.
  [[nodiscard]] bool is_read() const;
  [[nodiscard]] Index buffer_bytes() const noexcept;

 private:
  /// Where a message may lie: two places, because the peer may still read the last message.
  struct Places {
    struct Place {
      std::byte* data = nullptr;
      messages::NodeAddress address;
      std::uint64_t number = 0;  ///< of the last post in it; 0: none
    };
    std::array<Place, 2> all;
    std::size_t bytes = 0;  ///< of each
  };
  /// What is kept of a call with the same fields.
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

  bool find_copies(Repeated& repeated);
  /// The blocks of a message of one segment, or none; false where it has more of them.
  template <class Message>
  bool take_whole(Message& message, std::size_t& bytes);
  bool make_places();
  [[nodiscard]] static bool is_read(OutgoingSegments const& out, Places::Place const& place);

  Call& call_;
  SegmentCells& cells_;
  SegmentSender& sender_;
  SegmentReceiver& receiver_;
  std::vector<Repeated> repeated_{1};  ///< by place among the fields that the call knows
  std::size_t used_ = 0;
  std::vector<Places> places_;  ///< by message
  std::optional<messages::NodeBlock> block_;
  bool is_under_way_ = false;
  bool makes_call_ = false;
  std::size_t num_awaited_ = 0;
};

}  // namespace graticule::detail
