// SPDX-License-Identifier: BSD-3-Clause
#include "small_segments.hpp"

#include <algorithm>

namespace graticule::detail {

SmallSegments::~SmallSegments() {
  if (block_) messages::free_node_block(*block_);
}

void SmallSegments::use_fields(int place, bool changed) {
  used_ = std::size_t(place);
  if (used_ >= repeated_.size()) repeated_.resize(used_ + 1);
  if (changed) repeated_[used_] = {};
}

void SmallSegments::prepare() {
  auto& repeated = repeated_[used_];
  if (!repeated.ready && call_.is_small && call_.fields().repeats && ++repeated.num_calls == 2)
    (void)find_copies(repeated);
}

bool SmallSegments::find_copies(Repeated& repeated) {
  auto& outgoing = sender_.messages();
  auto& incoming = receiver_.messages();
  if (!call_.shape.forward() || call_.plan.segments->budget > 0) return false;
  auto const linked = [](auto const& message) { return message.link != nullptr; };
  if (!std::all_of(outgoing.begin(), outgoing.end(), linked) || !std::all_of(incoming.begin(), incoming.end(), linked))
    return false;
  repeated.out.resize(outgoing.size());
  repeated.in.resize(incoming.size());
  if (!make_places()) return false;
  for (std::size_t i = 0; i < outgoing.size(); ++i) {
    auto& [copies, bytes] = repeated.out[i];
    auto* const place = places_[i].all[0].data;
    if (!take_whole(outgoing[i], bytes) || bytes > places_[i].bytes) return false;
    if (!copies.set(cells_.tasks_to_pack(*outgoing[i].peer, place, false), SmallCopies::InMessage::to, place))
      return false;
  }
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    auto& [copies, bytes] = repeated.in[i];
    // As if the message lay there; each is read where it lies.
    auto* const place = block_->data;
    if (!take_whole(incoming[i], bytes)) return false;
    if (!copies.set(cells_.tasks_to_unpack(*incoming[i].peer, place), SmallCopies::InMessage::from, place))
      return false;
  }
  auto const local = cells_.local_tasks(repeated.local_bytes);
  if (!repeated.local.set(local, SmallCopies::InMessage::none, nullptr)) return false;
  repeated.sent = sender_.posted();
  repeated.ready = true;
  return true;
}

template <class Message>
bool SmallSegments::take_whole(Message& message, std::size_t& bytes) {
  auto const segment_bytes = call_.plan.segments->segment_bytes;
  message.cursor.reset(message.peer->transfers, cells_.message_fields(), segment_bytes);
  bool const is_one = count_segments(message.cursor, segment_bytes).segments <= 1;
  bytes = cells_.take(message.cursor);
  return is_one;
}

bool SmallSegments::make_places() {
  auto& outgoing = sender_.messages();
  if (block_ || (outgoing.empty() && receiver_.messages().empty())) return true;
  places_.resize(outgoing.size());
  std::size_t bytes = slot_alignment;
  for (std::size_t i = 0; i < outgoing.size(); ++i) {
    auto& out = outgoing[i];
    auto const segment_bytes = call_.plan.segments->segment_bytes;
    // Fields of one call may have targets of several types: a message is at most as long as the cells of its sources.
    out.cursor.reset(out.peer->transfers, cells_.local_fields(), segment_bytes);
    auto const longest = count_segments(out.cursor, segment_bytes).bytes;
    places_[i].bytes = aligned(std::max<std::size_t>(longest, 1), slot_alignment);
    bytes += places_[i].all.size() * places_[i].bytes;
  }
  block_ = messages::allocate_node_block(bytes);
  if (!block_) return false;
  std::size_t at = 0;
  for (auto& places : places_)
    for (auto& place : places.all) {
      place.data = block_->data + at;
      place.address = {block_->address.segment, block_->address.offset + at};
      at += places.bytes;
    }
  return true;
}

bool SmallSegments::is_read(OutgoingSegments const& out, Places::Place const& place) {
  return place.number == 0 || out.link->is_consumed(place.number);
}

bool SmallSegments::is_read() const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    for (auto const& place : places_[i].all)
      if (!is_read(sender_.messages()[i], place)) return false;
  return true;
}

Index SmallSegments::buffer_bytes() const noexcept {
  Index result = 0;
  for (auto const& places : places_)
    if (block_) result += Index(places.all.size() * places.bytes);
  return result;
}

bool SmallSegments::may_start() {
  auto& repeated = repeated_[used_];
  if (!repeated.ready || is_under_way_) return false;
  repeated.sent.find_addresses();
  // Peers read the fields themselves.
  if (!repeated.sent.addresses.empty()) return false;
  auto const& outgoing = sender_.messages();
  for (std::size_t i = 0; i < outgoing.size(); ++i) {
    auto const& link = *outgoing[i].link;
    auto const& places = places_[i].all;
    if (!link.has_room(link.last_sent() + 1)) return false;
    if (!is_read(outgoing[i], places[0]) && !is_read(outgoing[i], places[1])) return false;
  }
  return true;
}

void SmallSegments::start() {
  Stopwatch watch(call_);
  auto& repeated = repeated_[used_];
  auto& stats = call_.stats;
  is_under_way_ = makes_call_ = true;
  call_.failure.clear();
  ++stats.num_calls;
  num_awaited_ = receiver_.messages().size();
  for (auto& in : receiver_.messages()) {
    in.number = in.link->next_receive();
    in.segments_left = 1;
  }
  auto& outgoing = sender_.messages();
  for (std::size_t i = 0; i < outgoing.size(); ++i) {
    auto& out = outgoing[i];
    auto& places = places_[i].all;
    auto& place = is_read(out, places[0]) ? places[0] : places[1];
    repeated.out[i].copies.run(place.data);
    place.number = out.link->next_send();
    auto& post = out.link->outgoing(place.number);
    post.content = place.address;
    post.bytes = repeated.out[i].bytes;
    post.num_views = 0;
    post.fields = call_.fields().hash;
    post.call = std::uint32_t(call_.number);
    post.segments_after = 0;
    out.link->publish(place.number);
    ++stats.node_packed.num_messages;
    stats.node_packed.bytes += Index(repeated.out[i].bytes);
  }
  stats.pack_seconds += watch.lap();
  repeated.local.run(nullptr);
  stats.local_bytes += repeated.local_bytes;
  stats.local_seconds += watch.lap();
  is_under_way_ = num_awaited_ > 0;
}

IncomingSegments* SmallSegments::take(bool& moved) {
  auto& repeated = repeated_[used_];
  auto& incoming = receiver_.messages();
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    auto& in = incoming[i];
    if (in.segments_left == 0 || !in.link->begin_reading(in.number)) continue;
    moved = true;
    auto const& post = in.link->incoming(in.number);
    auto const bytes = repeated.in[i].bytes;
    bool const holds = post.bytes == bytes || (post.bytes != refused_post && (post.bytes & holds_all) != 0 &&
                                               (post.bytes & ~holds_all) >= bytes);
    bool const fits = holds && post.num_views == 0 && post.segments_after == 0 && post.fields == call_.fields().hash &&
                      post.call == std::uint32_t(call_.number);
    auto const* const content = fits && bytes > 0 ? in.reader.map(post.content) : nullptr;
    // What else may come is the business of calls in general.
    if (!fits || (bytes > 0 && content == nullptr)) return &in;
    if (bytes > 0) repeated.in[i].copies.run(content);
    in.link->consume(in.number);
    in.number = 0;
    in.segments_left = 0;
    --num_awaited_;
  }
  is_under_way_ = num_awaited_ > 0;
  return nullptr;
}

}  // namespace graticule::detail
