// SPDX-License-Identifier: BSD-3-Clause
#include "segment_receiver.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/repartition/plan_name.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

namespace graticule::detail {

namespace {

/// What stands at the end of a segment.
SegmentTrailer trailer_of(std::byte const* segment, std::size_t bytes) {
  SegmentTrailer trailer;
  std::memcpy(&trailer, segment + bytes - sizeof trailer, sizeof trailer);
  return trailer;
}

}  // namespace

SegmentReceiver::SegmentReceiver(Call& call, SegmentCells& cells, SegmentSender& sender)
    : plan_(call.plan), rules_(*call.plan.segments), call_(call), cells_(cells), sender_(sender) {
  auto const& peers = call.shape.forward() ? plan_.table.receives : plan_.table.sends;
  messages_ = std::vector<IncomingSegments>(peers.size());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    messages_[i].peer = &peers[i];
    messages_[i].link = call.shape.node_shared ? plan_.links->find(peers[i].peer) : nullptr;
  }
}

void SegmentReceiver::make_room(bool refuses) {
  SegmentSlots::Place const place{call_.shape.space, call_.shape.device};
  for (auto& in : messages_) {
    begin(in);
    if (refuses) {
      in.segments_left = 1;
      in.segments_unmatched = 0;
      in.known = in.failed = true;
      if (!in.link) in.slots.resize(1, sizeof(SegmentTrailer), false, place);
      continue;
    }
    auto const longest = std::min(in.bytes, rules_.segment_bytes) + sizeof(SegmentTrailer);
    // Of a peer on the node, only what goes to a device is copied before it is unpacked.
    auto const num_slots = in.link ? std::size_t(on_device()) : std::size_t(rules_.window);
    if (num_slots > 0) in.slots.resize(std::min(num_slots, in.segments_left), longest, false, place);
  }
}

void SegmentReceiver::begin(IncomingSegments& in) {
  in.cursor.reset(in.peer->transfers, cells_.message_fields(), rules_.segment_bytes);
  auto const count = count_segments(in.cursor, rules_.segment_bytes);
  in.bytes = count.bytes;
  in.segments_left = std::max<std::size_t>(1, count.segments);
  in.segments_unmatched = in.segments_left;
  in.known = in.failed = in.reading = in.in_place = false;
  in.number = 0;
  in.next_slot = 0;
}

void SegmentReceiver::resume(IncomingSegments* reading) {
  for (auto& in : messages_) {
    auto const number = in.number;
    bool const awaited = in.segments_left > 0;
    begin(in);
    in.number = number;
    if (!awaited) in.segments_left = 0;
  }
  if (reading != nullptr) open_post(*reading);
}

bool SegmentReceiver::look() {
  bool moved = false;
  for (auto& in : messages_) moved = look(in) || moved;
  return moved;
}

bool SegmentReceiver::look(IncomingSegments& in) {
  if (in.known || in.segments_left == 0) return false;
  if (in.link) {
    if (in.number == 0) in.number = in.link->next_receive();
    if (!in.link->begin_reading(in.number)) return false;
    open_post(in);
    in.known = true;
    return true;
  }
  auto const* const slot = arrived(in);
  if (slot == nullptr) return false;
  auto const trailer = trailer_of(slot->wire, slot->bytes);
  if (trailer.refused != 0)
    note_refusal(in);
  else
    (void)matches(in, trailer.fields, trailer.call);
  in.known = true;
  return true;
}

bool SegmentReceiver::all_known() const noexcept {
  return std::all_of(messages_.begin(), messages_.end(),
                     [](IncomingSegments const& in) { return in.known || in.segments_left == 0; });
}

void SegmentReceiver::fail_all() noexcept {
  for (auto& in : messages_) in.failed = true;
}

bool SegmentReceiver::all_received() const noexcept {
  return std::all_of(messages_.begin(), messages_.end(),
                     [](IncomingSegments const& in) { return in.segments_left == 0; });
}

bool SegmentReceiver::awaits_lower_rank() const noexcept {
  return std::any_of(messages_.begin(), messages_.end(), [&](IncomingSegments const& in) {
    return in.peer->peer < plan_.comm.rank() && in.segments_left > 0;
  });
}

void SegmentReceiver::release() {
  for (auto& in : messages_) in.slots.release();
}

bool SegmentReceiver::may_take(IncomingSegments const& in, bool local_done) const noexcept {
  if (plan_.additions.independent || call_.shape.forward()) return true;
  if (in.peer->peer > plan_.comm.rank() && !local_done) return false;
  for (auto const& other : messages_)
    if (other.peer->peer < in.peer->peer && other.segments_left > 0) return false;
  return true;
}

bool SegmentReceiver::pull(bool local_done) {
  bool moved = false;
  for (auto& in : messages_)
    if (in.segments_left > 0 && may_take(in, local_done))
      moved = (in.link ? pull_from_node(in) : pull_from_mpi(in)) || moved;
  return moved;
}

bool SegmentReceiver::pull_from_node(IncomingSegments& in) {
  if (in.number == 0) in.number = in.link->next_receive();
  if (!in.reading) {
    if (!in.link->begin_reading(in.number)) return false;
    open_post(in);
  }
  if (in.in_place && !in.failed) {
    take_in_place(in);
    if (!in.cursor.done()) return true;
  } else if (!in.failed) {
    take_posted(in);
    if (in.holds_all && in.segments_left > 0 && !in.failed) return true;
  }
  if (on_device() && in.in_place && !in.failed) give_back(in);
  in.link->consume(in.number);
  in.number = 0;
  in.reading = false;
  in.segments_left = in.segments_after;
  return true;
}

void SegmentReceiver::open_post(IncomingSegments& in) {
  auto const& post = in.link->incoming(in.number);
  in.reading = true;
  in.segments_after = post.segments_after;
  if (post.bytes == refused_post) return note_refusal(in);
  in.bytes_posted = post.bytes & ~holds_all;
  in.in_place = post.num_views > 0;
  in.holds_all = (post.bytes & holds_all) != 0;
  if (!matches(in, post.fields, post.call)) return;
  if (post.num_views == 0 && post.bytes == 0) return;
  in.content = in.reader.map(post.content);
  bool mapped = in.content != nullptr;
  in.images.resize(post.num_views);
  auto const* const views = reinterpret_cast<PostedView const*>(in.content);
  for (std::size_t i = 0; mapped && i < in.images.size(); ++i)
    mapped = read_view(views[i], on_device() ? call_.shape.device : device_of({}), in.images[i]);
  if (!mapped) throw not_mapped(in.peer->peer, call_.shape.space, call_.shape.device);
  for (auto const& image : in.images)
    if (image.view.data && image.view.space != call_.shape.space)
      return fail(in, std::string("has its fields in memory of ") + (on_device() ? "the host" : "a device") +
                          ", this rank in that of " + (on_device() ? "a device" : "the host") +
                          ": in one call, fields that ranks of a node read in place lie in memory of one kind");
  // All views of a post wait for one event.
  if (on_device() && in.in_place && views->data.written.process != 0 &&
      !wait_for_event(call_.queue, views->data.written))
    throw Error("OutOfMemory", "an event of rank " + std::to_string(in.peer->peer) + " cannot be opened");
  // One launch reads all of it.
  if (on_device() && in.in_place)
    in.cursor.reset(in.peer->transfers, cells_.message_fields(), std::numeric_limits<std::size_t>::max() / 2);
}

void SegmentReceiver::take_posted(IncomingSegments& in) {
  auto const expected = cells_.take(in.cursor);
  --in.segments_left;
  auto const left = in.holds_all ? in.segments_left : in.segments_after;
  bool const fits = in.holds_all ? in.bytes_posted >= expected : in.bytes_posted == expected;
  if (!fits || in.segments_left != left) return fail_size(in, in.bytes_posted, expected);
  auto const* packed = in.content;
  if (on_device() && expected > 0) {
    auto const& slot = in.slots.slots.front();
    copy_to_device(call_.queue, slot.packed, in.content, expected);
    packed = slot.packed;
  }
  cells_.unpack(*in.peer, packed);
  in.content += in.bytes_posted;
}

void SegmentReceiver::take_in_place(IncomingSegments& in) {
  if (on_device())
    cells_.take_rest(in.cursor);
  else
    (void)cells_.take(in.cursor);
  cells_.take_in_place(*in.peer, in.images);
}

void SegmentReceiver::give_back(IncomingSegments const& in) {
  if (!read_) read_ = SharedEvent::make(call_.shape.device);
  if (!read_) return cells_.fence();
  read_->record(call_.queue);
  reinterpret_cast<PostedView*>(in.content)->data.read = read_->address();
}

SegmentSlot const* SegmentReceiver::arrived(IncomingSegments& in) {
  match_messages(in);
  if (in.arriving.empty()) return nullptr;
  auto const& slot = in.slots.slots[in.arriving.front()];
  int ended = 0;
  check_mpi(MPI_Test(&slot.request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
  return ended ? &slot : nullptr;
}

bool SegmentReceiver::pull_from_mpi(IncomingSegments& in) {
  auto const* const slot = arrived(in);
  if (slot == nullptr) return false;
  in.arriving.erase(in.arriving.begin());
  in.known = true;
  auto const trailer = trailer_of(slot->wire, slot->bytes);
  auto const bytes = slot->bytes - sizeof trailer;
  in.segments_after = trailer.segments_after;
  if (trailer.refused != 0) {
    note_refusal(in);
  } else if (matches(in, trailer.fields, trailer.call)) {
    auto const expected = cells_.take(in.cursor);
    --in.segments_left;
    if (bytes != expected || in.segments_left != in.segments_after) {
      fail_size(in, bytes, expected);
    } else {
      if (slot->packed != slot->wire && bytes > 0) copy_to_device(call_.queue, slot->packed, slot->wire, bytes);
      cells_.unpack(*in.peer, slot->packed);
    }
  }
  in.segments_left = in.segments_after;
  return true;
}

void SegmentReceiver::match_messages(IncomingSegments& in) {
  auto const comm = plan_.comm.handle();
  // A peer that makes another call, or refuses this one, says with each segment how many follow; until that is known,
  // the next message may belong to the next call.
  auto const may_match = [&] { return in.failed || !in.known ? in.arriving.empty() : in.segments_unmatched > 0; };
  while (may_match() && in.arriving.size() < in.slots.slots.size()) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(in.peer->peer, plan_.tag, comm, &found, &message, &status), "MPI_Improbe");
    if (!found) return;
    int bytes = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    if (std::size_t(bytes) > in.slots.slot_bytes) return throw_away(in, message, bytes);
    auto& slot = in.slots.slots[in.next_slot];
    check_mpi(MPI_Imrecv(slot.wire, bytes, MPI_BYTE, &message, &slot.request), "MPI_Imrecv");
    slot.bytes = std::size_t(bytes);
    in.arriving.push_back(in.next_slot);
    in.next_slot = (in.next_slot + 1) % in.slots.slots.size();
    if (in.segments_unmatched > 0) --in.segments_unmatched;
  }
}

void SegmentReceiver::throw_away(IncomingSegments& in, MPI_Message& message, int bytes) {
  in.known = true;
  std::vector<std::byte> buffer(static_cast<std::size_t>(bytes));
  check_mpi(MPI_Mrecv(buffer.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
  auto const trailer = trailer_of(buffer.data(), buffer.size());
  if (trailer.refused != 0)
    note_refusal(in);
  else if (matches(in, trailer.fields, trailer.call))
    fail(in, "sent a segment of " + std::to_string(bytes) + " bytes, more than this rank expects");
  in.segments_left = trailer.segments_after;
}

bool SegmentReceiver::matches(IncomingSegments& in, std::uint32_t fields, std::uint32_t call) {
  if (in.failed) return false;
  if (call != std::uint32_t(call_.number))
    fail(in, "is in call " + std::to_string(call) + " of " + named_plan(plan_.name, "the plan") +
                 ", this rank in call " + std::to_string(call_.number) +
                 ": a call failed or was left out on one of them");
  else if (fields != call_.fields().hash)
    fail(in, "sent fields of other types, batch axes, parity, factors or packings");
  return !in.failed;
}

void SegmentReceiver::fail(IncomingSegments& in, std::string const& text) {
  in.failed = true;
  if (call_.failure.text.empty()) call_.failure.text = "rank " + std::to_string(in.peer->peer) + " " + text;
}

void SegmentReceiver::fail_size(IncomingSegments& in, std::size_t bytes, std::size_t expected) {
  fail(in, "sent " + std::to_string(bytes) + " bytes with " + std::to_string(in.segments_after) +
               " segments to come where this rank expects " + std::to_string(expected) + " with " +
               std::to_string(in.segments_left) + ": their fields differ in number, type or batch axes");
}

void SegmentReceiver::note_refusal(IncomingSegments& in) {
  in.failed = true;
  sender_.cut(in.peer->peer);
  call_.failure.rule = "PeerRefused";
  call_.failure.text = "rank " + std::to_string(in.peer->peer) + " refused call " + std::to_string(call_.number) +
                       " of " + named_plan(plan_.name, "the plan") +
                       " and has thrown the reason; cells of this call are unspecified, and its next call pairs with "
                       "that of this rank";
}

}  // namespace graticule::detail
