// SPDX-License-Identifier: BSD-3-Clause
#include "segment_sender.hpp"

#include <graticule/partition/detail/check_mpi.hpp>

#include <algorithm>
#include <cstring>

namespace graticule::detail {

SegmentSender::SegmentSender(Call& call, SegmentCells& cells)
    : plan_(call.plan), rules_(*call.plan.segments), call_(call), cells_(cells) {
  auto const& peers = call.shape.forward() ? plan_.table.sends : plan_.table.receives;
  messages_ = std::vector<OutgoingSegments>(peers.size());
  // Each rank begins with the peers after itself, so that not all of them send to the same one first.
  auto const after = std::size_t(std::count_if(
      peers.begin(), peers.end(), [&](PeerTransfers const& transfers) { return transfers.peer < plan_.comm.rank(); }));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    auto const& peer = peers[(after + i) % peers.size()];
    messages_[i].peer = &peer;
    messages_[i].link = call.shape.node_shared ? plan_.links->find(peer.peer) : nullptr;
  }
}

void SegmentSender::begin(Posting posting, bool refuses) {
  posting_ = posting;
  refuses_ = refuses;
  is_produced_ = false;
}

void SegmentSender::make_room() {
  if (!refuses_) find_posted();
  auto const views_bytes = posted_.images.size() * sizeof(PostedView);
  for (auto& out : messages_) {
    out.number = 0;
    out.next_slot = 0;
    out.cut = out.in_place = false;
    if (refuses_) {
      out.segments_left = 1;
      out.slots.resize(1, sizeof(SegmentTrailer), out.link != nullptr, place());
      continue;
    }
    out.cursor.reset(out.peer->transfers, cells_.message_fields(), rules_.segment_bytes);
    auto const count = count_segments(out.cursor, rules_.segment_bytes);
    out.in_place = out.link && !posted_.addresses.empty() && count.bytes > 0 && views_bytes <= rules_.segment_bytes;
    out.segments_left = out.in_place ? 1 : std::max<std::size_t>(1, count.segments);
    auto const longest = out.in_place ? views_bytes : std::min(count.bytes, rules_.segment_bytes);
    auto const wanted = posting_ == Posting::all ? out.segments_left : std::size_t(rules_.window);
    out.slots.resize(std::min(wanted, out.segments_left), longest + sizeof(SegmentTrailer), out.link != nullptr,
                     place());
  }
}

void SegmentSender::set_posted() {
  for (auto& out : messages_) {
    out.segments_left = 0;
    out.number = 0;
    out.cut = out.in_place = false;
  }
}

void SegmentSender::find_posted() {
  posted_.clear();
  auto const linked = [](OutgoingSegments const& out) { return out.link != nullptr; };
  if (on_device() && !plan_.peers_read_device) return;
  if (std::none_of(messages_.begin(), messages_.end(), linked)) return;
  for (auto const& field : cells_.fields()) {
    if (call_.shape.forward())
      posted_.images.push_back(field.source);
    else
      posted_.images.insert(posted_.images.end(), field.targets.begin(), field.targets.end());
  }
  posted_.find_addresses();
}

bool SegmentSender::push() {
  bool moved = false;
  for (auto& out : messages_) moved = push(out) || moved;
  return moved;
}

bool SegmentSender::push(OutgoingSegments& out) {
  if (out.segments_left == 0) return false;
  if (out.link && !out.link->has_room(out.link->last_sent() + 1)) return false;
  if (out.cut) {
    out.segments_left = 0;
    post_end(out);
    return true;
  }
  auto& slot = out.slots.slots[out.next_slot];
  if (!is_free(out, slot)) return false;
  out.next_slot = (out.next_slot + 1) % out.slots.slots.size();
  if (refuses_) {
    out.segments_left = 0;
    post_refusal(out, slot);
  } else if (out.in_place) {
    out.segments_left = 0;
    if (on_device() && !is_produced_) record_produced();
    is_produced_ = true;
    write_views(slot.wire, posted_.images, posted_.addresses);
    out.views = slot.wire;
    out.number = out.link->next_send();
    publish(out, out.number, slot, 0, posted_.images.size());
    ++call_.stats.node_in_place.num_messages;
    call_.stats.node_in_place.bytes += Index(count_segments(out.cursor, rules_.segment_bytes).bytes);
  } else if (out.link && posting_ == Posting::all) {
    out.number = out.link->next_send();
    pack_all(out);
  } else {
    --out.segments_left;
    auto const bytes = cells_.take(out.cursor);
    pack(out, slot, bytes);
    post_packed(out, slot, bytes);
    auto& sent = out.link ? call_.stats.node_packed : call_.stats.point_to_point;
    ++sent.num_messages;
    sent.bytes += Index(bytes);
  }
  return true;
}

void SegmentSender::record_produced() {
  if (!produced_) produced_ = SharedEvent::make(call_.shape.device);
  if (!produced_) return cells_.fence();
  produced_->record(call_.queue);
  for (auto& address : posted_.addresses) address.written = produced_->address();
}

void SegmentSender::pack(OutgoingSegments& out, SegmentSlot const& slot, std::size_t bytes) {
  cells_.pack(*out.peer, slot.packed, out.link ? &out.path : nullptr, bytes);
  if (slot.packed == slot.wire || bytes == 0) return;
  copy_to_host(call_.queue, slot.wire, slot.packed, bytes);
  cells_.fence();
}

void SegmentSender::pack_all(OutgoingSegments& out) {
  for (std::size_t s = 0; s < out.segments_left; ++s) {
    auto const bytes = cells_.take(out.cursor);
    pack(out, out.slots.slots[s], bytes);
    call_.stats.node_packed.bytes += Index(bytes);
  }
  out.segments_left = 0;
  publish(out, out.number, out.slots.slots.front(), out.slots.slot_bytes | holds_all, 0);
  ++call_.stats.node_packed.num_messages;
}

bool SegmentSender::take_back() {
  bool moved = false;
  for (auto& out : messages_) {
    if (!out.in_place || out.cut || out.link->is_consumed(out.number) || !out.link->take_back(out.number)) continue;
    out.in_place = false;
    auto const count = count_segments(out.cursor, rules_.segment_bytes);
    out.segments_left = count.segments;
    out.slots.resize(count.segments, std::min(count.bytes, rules_.segment_bytes) + sizeof(SegmentTrailer), true,
                     place());
    pack_all(out);
    moved = true;
  }
  return moved;
}

void SegmentSender::publish(OutgoingSegments& out, std::uint64_t number, SegmentSlot const& slot, std::size_t bytes,
                            std::size_t num_views) {
  auto const& shared = *out.slots.shared;
  auto& post = out.link->outgoing(number);
  post.content = {shared.address.segment, shared.address.offset + std::uint64_t(slot.wire - shared.data)};
  post.bytes = bytes;
  post.num_views = std::uint32_t(num_views);
  post.fields = call_.fields().hash;
  post.call = std::uint32_t(call_.number);
  post.segments_after = std::uint32_t(out.segments_left);
  if (num_views > 0)
    out.link->offer(number);
  else
    out.link->publish(number);
}

void SegmentSender::send(OutgoingSegments const& out, std::byte const* data, std::size_t bytes,
                         MPI_Request& request) const {
  check_mpi(MPI_Isend(data, int(bytes), MPI_BYTE, out.peer->peer, plan_.tag, plan_.comm.handle(), &request),
            "MPI_Isend");
}

void SegmentSender::post_packed(OutgoingSegments& out, SegmentSlot& slot, std::size_t bytes) {
  if (out.link) {
    slot.number = out.link->next_send();
    return publish(out, slot.number, slot, bytes, 0);
  }
  SegmentTrailer const trailer{call_.fields().hash, std::uint32_t(call_.number), std::uint32_t(out.segments_left), 0};
  std::memcpy(slot.wire + bytes, &trailer, sizeof trailer);
  send(out, slot.wire, bytes + sizeof trailer, slot.request);
}

void SegmentSender::post_refusal(OutgoingSegments& out, SegmentSlot& slot) {
  if (out.link) {
    slot.number = publish_end(out);
    return;
  }
  write_end(slot.wire);
  send(out, slot.wire, sizeof(SegmentTrailer), slot.request);
}

void SegmentSender::post_end(OutgoingSegments& out) {
  // No slot is needed for this: the peer may never have taken what lies in them.
  if (out.link) {
    out.number = publish_end(out);
    return;
  }
  static_assert(sizeof(SegmentTrailer) == sizeof out.end);
  write_end(out.end.data());
  send(out, out.end.data(), out.end.size(), out.end_request);
}

std::uint64_t SegmentSender::publish_end(OutgoingSegments& out) {
  auto const number = out.link->next_send();
  auto& post = out.link->outgoing(number);
  post.bytes = refused_post;
  post.segments_after = 0;
  out.link->publish(number);
  return number;
}

void SegmentSender::write_end(std::byte* to) const {
  SegmentTrailer const trailer{0, std::uint32_t(call_.number), 0, 1};
  std::memcpy(to, &trailer, sizeof trailer);
}

void SegmentSender::cut(int peer) {
  for (auto& out : messages_) out.cut = out.cut || out.peer->peer == peer;
}

bool SegmentSender::all_posted() const noexcept {
  return std::all_of(messages_.begin(), messages_.end(),
                     [](OutgoingSegments const& out) { return out.segments_left == 0; });
}

bool SegmentSender::may_be_left() const {
  return std::all_of(messages_.begin(), messages_.end(), [&](OutgoingSegments const& out) {
    // A peer that refuses the call does not read the fields, and its buffers are taken when it goes on.
    if (out.cut) return true;
    if (posting_ == Posting::window) return has_free_buffers(out);
    return !out.in_place || out.link->is_consumed(out.number);
  });
}

bool SegmentSender::has_free_buffers() const {
  return std::all_of(messages_.begin(), messages_.end(),
                     [](OutgoingSegments const& out) { return has_free_buffers(out); });
}

bool SegmentSender::has_free_buffers(OutgoingSegments const& out) {
  if (out.number != 0 && !out.link->is_consumed(out.number)) return false;
  if (!detail::has_ended(out.end_request)) return false;
  return std::all_of(out.slots.slots.begin(), out.slots.slots.end(),
                     [&](SegmentSlot const& slot) { return is_free(out, slot); });
}

bool SegmentSender::is_free(OutgoingSegments const& out, SegmentSlot const& slot) {
  if (out.link) return slot.number == 0 || out.link->is_consumed(slot.number);
  return detail::has_ended(slot.request);
}

void SegmentSender::wait_for_readers() {
  if (!on_device()) return;
  for (auto const& out : messages_) {
    if (!out.in_place || out.cut) continue;
    auto const& read = reinterpret_cast<PostedView const*>(out.views)->data.read;
    if (read.process != 0 && !wait_for_event(call_.queue, read))
      throw Error("OutOfMemory", "an event of rank " + std::to_string(out.peer->peer) + " cannot be opened");
  }
}

void SegmentSender::release() {
  for (auto& out : messages_) out.slots.release();
}

}  // namespace graticule::detail
