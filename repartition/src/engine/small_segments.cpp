// SPDX-License-Identifier: BSD-3-Clause
// Calls with few cells between ranks of a node, made again with fields that they have had: one short message for each
// peer, whose copies are kept. For peers these are posts like any other.
#include "segments.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace graticule::detail {

void Segments::use_fields(int place, bool changed) {
  used_ = std::size_t(place);
  if (used_ >= repeated_.size()) repeated_.resize(used_ + 1);
  if (changed) repeated_[used_] = {};
}

void Segments::prepare_to_repeat() {
  auto& repeated = repeated_[used_];
  if (!repeated.ready && call_.is_small && call_.fields().repeats && ++repeated.num_calls == 2)
    (void)find_copies(repeated);
}

bool Segments::find_copies(Repeated& repeated) {
  if (!forward() || rules_.budget > 0) return false;
  auto const linked = [](auto const& message) { return message.link != nullptr; };
  if (!std::all_of(outgoing_.begin(), outgoing_.end(), linked) ||
      !std::all_of(incoming_.begin(), incoming_.end(), linked))
    return false;
  repeated.out.resize(outgoing_.size());
  repeated.in.resize(incoming_.size());
  if (!make_small_places()) return false;
  for (std::size_t i = 0; i < outgoing_.size(); ++i) {
    auto* const place = outgoing_[i].places[0].data;
    if (!take_whole(outgoing_[i], repeated.out[i].bytes) || repeated.out[i].bytes > outgoing_[i].place_bytes)
      return false;
    tasks_to_pack(outgoing_[i], place);
    if (!repeated.out[i].copies.set(tasks_, SmallCopies::InMessage::to, place)) return false;
  }
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    // As if the message lay there; each is read where it lies.
    auto* const place = small_block_->data;
    if (!take_whole(incoming_[i], repeated.in[i].bytes)) return false;
    tasks_to_unpack(incoming_[i], place);
    if (!repeated.in[i].copies.set(tasks_, SmallCopies::InMessage::from, place)) return false;
  }
  tasks_.clear();
  repeated.local_bytes = 0;
  local_.reset(plan_.table.local, local_fields_, std::numeric_limits<Index>::max());
  for (; !local_.done(); local_.advance()) {
    add_local_task();
    repeated.local_bytes += Index(local_.bytes());
  }
  if (!repeated.local.set(tasks_, SmallCopies::InMessage::none, nullptr)) return false;
  repeated.sent = posted_;
  repeated.ready = true;
  return true;
}

template <class Message>
bool Segments::take_whole(Message& message, std::size_t& bytes) {
  message.cursor.reset(message.peer->transfers, block_fields_, rules_.segment_bytes);
  auto const count = count_segments(message.cursor, rules_.segment_bytes);
  blocks_.clear();
  bytes = count.bytes;
  if (count.segments == 1) bytes = message.cursor.take_segment(rules_.segment_bytes, blocks_);
  return count.segments <= 1;
}

bool Segments::make_small_places() {
  if (small_block_ || (outgoing_.empty() && incoming_.empty())) return true;
  std::size_t bytes = slot_alignment;
  for (auto& out : outgoing_) {
    // Fields of one call may have targets of several types: a message is at most as long as the cells of its sources.
    out.cursor.reset(out.peer->transfers, local_fields_, rules_.segment_bytes);
    out.place_bytes =
        aligned(std::max<std::size_t>(count_segments(out.cursor, rules_.segment_bytes).bytes, 1), slot_alignment);
    bytes += out.places.size() * out.place_bytes;
  }
  small_block_ = messages::allocate_node_block(bytes);
  if (!small_block_) return false;
  std::size_t at = 0;
  for (auto& out : outgoing_)
    for (auto& place : out.places) {
      place.data = small_block_->data + at;
      place.address = {small_block_->address.segment, small_block_->address.offset + at};
      at += out.place_bytes;
    }
  return true;
}

bool Segments::is_read(Outgoing const& out, SmallPlace const& place) {
  return place.number == 0 || out.link->is_consumed(place.number);
}

bool Segments::may_repeat() {
  auto& repeated = repeated_[used_];
  if (!repeated.ready || is_small_ || queue_.oldest() != nullptr) return false;
  repeated.sent.find_addresses();
  // Peers read the fields themselves.
  if (!repeated.sent.addresses.empty()) return false;
  return std::all_of(outgoing_.begin(), outgoing_.end(), [](Outgoing const& out) {
    return out.link->has_room(out.link->last_sent() + 1) &&
           (is_read(out, out.places[0]) || is_read(out, out.places[1]));
  });
}

void Segments::repeat() {
  Stopwatch watch(call_);
  auto& repeated = repeated_[used_];
  auto& stats = call_.stats;
  is_small_ = true;
  call_.failure.clear();
  ++stats.num_calls;
  num_awaited_ = incoming_.size();
  for (auto& in : incoming_) {
    in.number = in.link->next_receive();
    in.segments_left = 1;
  }
  for (std::size_t i = 0; i < outgoing_.size(); ++i) {
    auto& out = outgoing_[i];
    auto& place = is_read(out, out.places[0]) ? out.places[0] : out.places[1];
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
  is_small_ = num_awaited_ > 0;
}

bool Segments::take_repeated() {
  auto& repeated = repeated_[used_];
  bool moved = false;
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    auto& in = incoming_[i];
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
    if (!fits || (bytes > 0 && content == nullptr)) {
      go_on_in_general(&in);
      return true;
    }
    if (bytes > 0) repeated.in[i].copies.run(content);
    in.link->consume(in.number);
    in.number = 0;
    in.segments_left = 0;
    --num_awaited_;
  }
  is_small_ = num_awaited_ > 0;
  return moved;
}

void Segments::go_on_in_general(Incoming* reading) {
  is_small_ = false;
  auto const& fields = call_.fields();
  fields_.resize(std::size_t(fields.count()));
  for (int f = 0; f < fields.count(); ++f) {
    auto const& target = fields.target(f, 0);
    set_segment_field(plan_, fields_[std::size_t(f)],
                      {fields.source(f), std::span(&target, 1), fields.parity(f), call_.kind(f)}, Direction::forward);
  }
  progress_ = {.posting = Posting::all, .opened = true, .gate_open = true, .scaled = true};
  describe_fields();
  local_.finish();
  for (auto& out : outgoing_) {
    out.segments_left = 0;
    out.number = 0;
    out.cut = out.in_place = false;
  }
  for (auto& in : incoming_) {
    auto const number = in.number;
    bool const awaited = in.segments_left > 0;
    begin_receiving(in);
    in.number = number;
    if (!awaited) in.segments_left = 0;
  }
  queue_.join(*this);
  if (reading != nullptr) open_post(*reading);
}

}  // namespace graticule::detail
