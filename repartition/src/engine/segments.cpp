// SPDX-License-Identifier: BSD-3-Clause
#include "segments.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/plan_name.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace graticule::detail {

namespace {

/// Follows the cells of a segment that MPI carries.
struct SegmentTrailer {
  std::uint32_t fields = 0;
  std::uint32_t call = 0;
  std::uint32_t segments_after = 0;
  std::uint32_t refused = 0;
};

/// A processor's cache holds a block of this size several times over.
constexpr std::size_t local_block_bytes = std::size_t(256) << 10U;

}  // namespace

SegmentSlots::~SegmentSlots() {
  if (shared) messages::free_node_block(*shared);
}

void SegmentSlots::resize(std::size_t count, std::size_t bytes, bool for_node, Place place) {
  bool const on_device = place.space == MemorySpace::device;
  bytes = aligned(std::max<std::size_t>(bytes, 1), slot_alignment);
  if (slots.size() >= count && slot_bytes >= bytes) return;
  release();
  slots.assign(count, {});
  slot_bytes = bytes;
  std::byte* memory = nullptr;
  if (for_node) {
    shared = messages::allocate_node_block(count * bytes);
    if (!shared)
      throw Error("OutOfMemory", std::to_string(count * bytes) + " bytes of node-shared memory could not be allocated");
    memory = shared->data;
  } else {
    wire = Buffer(count * bytes, on_device ? Buffer::Kind::pinned : Buffer::Kind::host);
    memory = wire.data();
  }
  if (on_device) device = Buffer(count * bytes, Buffer::Kind::device, place.device);
  for (std::size_t s = 0; s < count; ++s) {
    slots[s].wire = memory + s * bytes;
    slots[s].packed = on_device ? device.data() + s * bytes : slots[s].wire;
  }
}

void SegmentSlots::release() {
  if (shared) messages::free_node_block(*shared);
  shared.reset();
  wire = {};
  device = {};
  slots.clear();
  slot_bytes = 0;
}

Index SegmentSlots::total_bytes() const noexcept { return Index(slots.size() * slot_bytes); }

Segments::Segments(Call& call, SegmentQueue& queue)
    : plan_(call.plan), rules_(*call.plan.segments), call_(call), queue_(queue) {
  auto const& sends = forward() ? plan_.table.sends : plan_.table.receives;
  auto const& receives = forward() ? plan_.table.receives : plan_.table.sends;
  outgoing_ = std::vector<Outgoing>(sends.size());
  incoming_ = std::vector<Incoming>(receives.size());
  // Each rank begins with the peers after itself, so that not all of them send to the same one first.
  auto const after = std::size_t(std::count_if(
      sends.begin(), sends.end(), [&](PeerTransfers const& transfers) { return transfers.peer < plan_.comm.rank(); }));
  for (std::size_t i = 0; i < sends.size(); ++i) {
    auto const& peer = sends[(after + i) % sends.size()];
    outgoing_[i].peer = &peer;
    outgoing_[i].link = call.shape.node_shared ? plan_.links->find(peer.peer) : nullptr;
  }
  for (std::size_t i = 0; i < receives.size(); ++i) {
    incoming_[i].peer = &receives[i];
    incoming_[i].link = call.shape.node_shared ? plan_.links->find(receives[i].peer) : nullptr;
  }
  queue_.add(*this);
  constexpr Index small_call = 1 << 15;
  Index bytes = 0;
  for (std::size_t f = 0; f < call.shape.kinds.size(); ++f) {
    auto const kind = std::size_t(call.shape.kinds[f]);
    Index cells = plan_.local_cells[kind];
    for (auto const* side : {&sends, &receives})
      for (auto const& peer : *side) cells += peer.num_cells[kind];
    bytes += cells * call.shape.cell_bytes[f];
  }
  call.is_small = bytes < small_call && !call.shape.on_device() && !call.shape.refused;
}

Segments::~Segments() {
  queue_.remove(*this);
  if (small_block_) messages::free_node_block(*small_block_);
}

void Segments::post(std::span<PullField const> fields, DeviceQueue const& queue, Posting posting) {
  Stopwatch watch(call_);
  // Kernels of an earlier call in another queue may still read tasks and packed cells.
  if (on_device()) {
    if (call_.queue.instance() != queue.instance()) detail::fence(call_.queue);
    call_.queue = queue;
  }
  fields_.resize(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f)
    set_segment_field(plan_, fields_[f], fields[f], call_.shape.direction);
  begin(rules_.budget > 0 ? Posting::window : posting);
  ++call_.stats.num_calls;
  queue_.begin(*this);
  call_.stats.pack_seconds += watch.lap();
}

void Segments::refuse() {
  fields_.clear();
  call_.fields().hash = 0;
  begin(Posting::window);
  progress_.refused = progress_.scaled = progress_.gate_open = true;
  queue_.begin(*this);
  (void)queue_.advance();
}

bool Segments::test() {
  (void)advance();
  return done();
}

bool Segments::has_ended() {
  if (is_small_) go_on_in_general(nullptr);
  // What a caller waits for is ended there.
  while (queue_.oldest() && queue_.oldest()->progress_.refused && queue_.advance()) {
  }
  return done();
}

void Segments::conclude() {
  prepare_to_repeat();
  wait_for_readers();
  if (on_device() && !call_.queue.instance()) detail::fence(call_.queue);
  if (rounds()) agree_on_rounding();
  if (!call_.failure.text.empty()) throw Error(call_.failure.rule, call_.failure.text);
}

void Segments::begin(Posting posting) {
  progress_ = {.posting = posting};
  call_.failure.clear();
  auto const overwrites = [](SegmentField const& field) {
    auto const& beta = field.conversion.direct.beta;
    return beta[0] == 0 && beta[1] == 0;
  };
  progress_.gate_open = forward() && std::all_of(fields_.begin(), fields_.end(), overwrites);
  if (!rounds()) return;
  if (num_unfit_ < fields_.size()) {
    unfit_ = Buffer(fields_.size() * sizeof(Unfit), on_device() ? Buffer::Kind::pinned : Buffer::Kind::host);
    num_unfit_ = fields_.size();
  }
  for (std::size_t f = 0; f < fields_.size(); ++f) *(reinterpret_cast<Unfit*>(unfit_.data()) + f) = {};
}

bool Segments::rounds() const noexcept {
  return std::any_of(fields_.begin(), fields_.end(), [](SegmentField const& field) { return field.rounds; });
}

Unfit* Segments::unfit_of(SegmentField const& field) const noexcept {
  return field.rounds ? reinterpret_cast<Unfit*>(unfit_.data()) + (&field - fields_.data()) : nullptr;
}

Unfit Segments::unfit(int field) {
  if (on_device()) fence();
  auto const* const noted = unfit_of(fields_[std::size_t(field)]);
  return noted ? *noted : Unfit{};
}

void Segments::open() {
  progress_.opened = true;
  describe_fields();
  bool const alone = outgoing_.empty() && incoming_.empty();
  // A processor's cache holds a block; one launch moves all cells of a device.
  local_.reset(plan_.table.local, local_fields_,
               alone || on_device() ? std::numeric_limits<Index>::max() : local_block_bytes);
  if (progress_.refused) return make_room_for_refusal();
  std::size_t written = count_segments(local_, local_block_bytes).bytes;
  find_posted();
  make_room();
  for (auto const& in : incoming_) written += in.bytes;
  progress_.large = Index(written) >= least_streamed_bytes;
  if (progress_.large && !on_device()) path_.begin_call();
}

void Segments::describe_fields() {
  block_fields_.clear();
  local_fields_.clear();
  for (auto const& field : fields_) {
    auto const& view = field.source.view;
    block_fields_.push_back({field.kind, view.batch_extents(), size_of(field.conversion.wire)});
    local_fields_.push_back({field.kind, view.batch_extents(), size_of(view.dtype)});
  }
}

void Segments::make_room() {
  auto const views_bytes = posted_.images.size() * sizeof(PostedView);
  for (auto& out : outgoing_) {
    out.cursor.reset(out.peer->transfers, block_fields_, rules_.segment_bytes);
    auto const count = count_segments(out.cursor, rules_.segment_bytes);
    out.in_place = out.link && !posted_.addresses.empty() && count.bytes > 0 && views_bytes <= rules_.segment_bytes;
    out.number = 0;
    out.cut = false;
    out.segments_left = out.in_place ? 1 : std::max<std::size_t>(1, count.segments);
    out.next_slot = 0;
    auto const longest = out.in_place ? views_bytes : std::min(count.bytes, rules_.segment_bytes);
    auto const wanted = progress_.posting == Posting::all ? out.segments_left : std::size_t(rules_.window);
    out.slots.resize(std::min(wanted, out.segments_left), longest + sizeof(SegmentTrailer), out.link != nullptr,
                     place());
  }
  for (auto& in : incoming_) {
    begin_receiving(in);
    auto const longest = std::min(in.bytes, rules_.segment_bytes) + sizeof(SegmentTrailer);
    // Of a peer on the node, only what goes to a device is copied before it is unpacked.
    auto const num_slots = in.link ? std::size_t(on_device()) : std::size_t(rules_.window);
    if (num_slots > 0) in.slots.resize(std::min(num_slots, in.segments_left), longest, false, place());
  }
}

void Segments::begin_receiving(Incoming& in) {
  in.cursor.reset(in.peer->transfers, block_fields_, rules_.segment_bytes);
  auto const count = count_segments(in.cursor, rules_.segment_bytes);
  in.bytes = count.bytes;
  in.segments_left = std::max<std::size_t>(1, count.segments);
  in.segments_unmatched = in.segments_left;
  in.known = in.failed = in.reading = in.in_place = false;
  in.number = 0;
  in.next_slot = 0;
}

void Segments::make_room_for_refusal() {
  for (auto& out : outgoing_) {
    out.segments_left = 1;
    out.next_slot = 0;
    out.number = 0;
    out.cut = false;
    out.in_place = false;
    out.slots.resize(1, sizeof(SegmentTrailer), out.link != nullptr, place());
  }
  for (auto& in : incoming_) {
    in.segments_left = 1;
    in.segments_unmatched = 0;
    in.known = in.failed = true;
    in.reading = in.in_place = false;
    in.number = 0;
    in.next_slot = 0;
    if (!in.link) in.slots.resize(1, sizeof(SegmentTrailer), false, place());
  }
}

void Segments::find_posted() {
  posted_.clear();
  auto const linked = [](Outgoing const& out) { return out.link != nullptr; };
  if (on_device() && !plan_.peers_read_device) return;
  if (std::none_of(outgoing_.begin(), outgoing_.end(), linked)) return;
  for (auto const& field : fields_) {
    if (forward())
      posted_.images.push_back(field.source);
    else
      posted_.images.insert(posted_.images.end(), field.targets.begin(), field.targets.end());
  }
  posted_.find_addresses();
}

void Segments::scale_before() {
  progress_.scaled = true;
  tasks_.clear();
  for (auto const& field : fields_) {
    if (field.before == 1.0) continue;
    auto const& view = field.source.view;
    if (view.num_batch() == 0 || plan_.owned.empty()) continue;
    auto const owned = target_cells(view, field.source.cover_lo, plan_.owned);
    auto const extents = extents_of(view, plan_.owned);
    if (field.before == 0.0) {
      tasks_.push_back(make_strided(StridedOp::fill, view.dtype, extents, owned.first, owned.strides, nullptr, {}, 0));
      continue;
    }
    Transform scaled;
    scaled.alpha[0] = field.before.real();
    scaled.alpha[1] = field.before.imag();
    tasks_.push_back(make_transform(scaled, extents, owned, owned));
    tasks_.back().unfit = unfit_of(field);
  }
  if (forward())
    for (auto const& filling : plan_.table.fillings)
      for (auto const& field : fields_) {
        if (field.kind != filling.kind) continue;
        auto const& image = field.targets[std::size_t(filling.target)];
        auto const to = target_cells(image.view, image.cover_lo, filling.to);
        tasks_.push_back(make_strided(StridedOp::fill, to.dtype, extents_of(image.view, filling.to), to.first,
                                      to.strides, nullptr, {}, filling.value));
      }
  run();
}

void Segments::send(PullStats& stats) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (auto& out : outgoing_) moved = push(out, stats) || moved;
  }
}

bool Segments::all_posted() const noexcept {
  return progress_.opened &&
         std::all_of(outgoing_.begin(), outgoing_.end(), [](Outgoing const& out) { return out.segments_left == 0; });
}

bool Segments::look(Incoming& in) {
  if (in.known || in.segments_left == 0) return false;
  if (in.link) {
    if (in.number == 0) in.number = in.link->next_receive();
    if (!in.link->begin_reading(in.number)) return false;
    open_post(in);
    in.known = true;
    return true;
  }
  match_messages(in);
  if (in.arriving.empty()) return false;
  auto& slot = in.slots.slots[in.arriving.front()];
  int ended = 0;
  check_mpi(MPI_Test(&slot.request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
  if (!ended) return false;
  SegmentTrailer trailer;
  std::memcpy(&trailer, slot.wire + slot.bytes - sizeof trailer, sizeof trailer);
  if (trailer.refused != 0)
    note_refusal(in);
  else
    (void)matches(in, trailer.fields, trailer.call);
  in.known = true;
  return true;
}

bool Segments::open_gate(PullStats& stats) {
  bool moved = false;
  for (auto& out : outgoing_) moved = push(out, stats) || moved;
  for (auto& in : incoming_) moved = look(in) || moved;
  auto const is_known = [](Incoming const& in) { return in.known || in.segments_left == 0; };
  progress_.gate_open = std::all_of(incoming_.begin(), incoming_.end(), is_known);
  if (!progress_.gate_open || call_.failure.text.empty()) return moved || progress_.gate_open;
  progress_.scaled = true;
  local_.finish();
  for (auto& in : incoming_) in.failed = true;
  return true;
}

bool Segments::step(PullStats& stats) {
  OnDevice const scope(on_device() ? call_.shape.device : -1);
  if (!progress_.opened) open();
  // What is added to stays as it was when some peer makes another call.
  if (!progress_.gate_open) return open_gate(stats);
  if (!progress_.scaled) scale_before();
  bool moved = false;
  for (auto& out : outgoing_) moved = push(out, stats) || moved;
  // A device moves what stays while the host waits for peers.
  if (on_device()) moved = move_local(stats) || moved;
  for (auto& in : incoming_)
    if (in.segments_left > 0 && may_take(in)) moved = pull(in) || moved;
  return moved || move_local(stats) || take_back_late(stats);
}

bool Segments::is_complete() const {
  if (!progress_.scaled || !local_.done() || !all_posted() || !all_received()) return false;
  return std::all_of(outgoing_.begin(), outgoing_.end(), [&](Outgoing const& out) { return may_be_left(out); });
}

bool Segments::all_received() const noexcept {
  return std::all_of(incoming_.begin(), incoming_.end(), [](Incoming const& in) { return in.segments_left == 0; });
}

bool Segments::may_be_left(Outgoing const& out) const {
  // A peer that refuses the call does not read the fields, and its buffers are taken when it goes on.
  if (out.cut) return true;
  if (progress_.posting == Posting::window) return has_free_buffers(out);
  return !out.in_place || out.link->is_consumed(out.number);
}

bool Segments::has_free_buffers(Outgoing const& out) const {
  if (out.number != 0 && !out.link->is_consumed(out.number)) return false;
  if (!detail::has_ended(out.end_request)) return false;
  return std::all_of(out.slots.slots.begin(), out.slots.slots.end(),
                     [&](SegmentSlot const& slot) { return is_free(out, slot); });
}

bool Segments::is_read() const {
  return has_free_buffers() && std::all_of(outgoing_.begin(), outgoing_.end(), [](Outgoing const& out) {
           return is_read(out, out.places[0]) && is_read(out, out.places[1]);
         });
}

bool Segments::has_free_buffers() const {
  return std::all_of(outgoing_.begin(), outgoing_.end(), [&](Outgoing const& out) { return has_free_buffers(out); });
}

bool Segments::is_free(Outgoing const& out, SegmentSlot const& slot) const {
  if (out.link) return slot.number == 0 || out.link->is_consumed(slot.number);
  return detail::has_ended(slot.request);
}

bool Segments::push(Outgoing& out, PullStats& stats) {
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
  if (progress_.refused) {
    out.segments_left = 0;
    post_refusal(out, slot);
  } else if (out.in_place) {
    out.segments_left = 0;
    if (on_device() && !progress_.is_produced) record_produced();
    progress_.is_produced = true;
    write_views(slot.wire, posted_.images, posted_.addresses);
    out.views = slot.wire;
    out.number = out.link->next_send();
    publish(out, out.number, slot, 0, posted_.images.size());
    ++stats.node_in_place.num_messages;
    stats.node_in_place.bytes += Index(count_segments(out.cursor, rules_.segment_bytes).bytes);
  } else if (out.link && progress_.posting == Posting::all) {
    out.number = out.link->next_send();
    pack_all(out, stats);
  } else {
    --out.segments_left;
    auto const bytes = out.cursor.take_segment(rules_.segment_bytes, blocks_);
    pack(out, slot, bytes);
    post_packed(out, slot, bytes);
    auto& sent = out.link ? stats.node_packed : stats.point_to_point;
    ++sent.num_messages;
    sent.bytes += Index(bytes);
  }
  return true;
}

void Segments::record_produced() {
  if (!produced_) produced_ = SharedEvent::make(call_.shape.device);
  if (!produced_) return fence();
  produced_->record(call_.queue);
  for (auto& address : posted_.addresses) address.written = produced_->address();
}

void Segments::pack_all(Outgoing& out, PullStats& stats) {
  for (std::size_t s = 0; s < out.segments_left; ++s) {
    auto const bytes = out.cursor.take_segment(rules_.segment_bytes, blocks_);
    pack(out, out.slots.slots[s], bytes);
    stats.node_packed.bytes += Index(bytes);
  }
  out.segments_left = 0;
  publish(out, out.number, out.slots.slots.front(), out.slots.slot_bytes | holds_all, 0);
  ++stats.node_packed.num_messages;
}

bool Segments::take_back_late(PullStats& stats) {
  // A peer that is busy elsewhere must not hold up this rank, which MPI would not either: then the cells are packed.
  constexpr double longest_wait = 2e-4;
  if (progress_.posting != Posting::all || !progress_.scaled || !local_.done() || !all_posted()) return false;
  for (auto const& in : incoming_)
    if (in.segments_left > 0) return false;
  if (progress_.idle_since < 0) progress_.idle_since = MPI_Wtime();
  if (MPI_Wtime() - progress_.idle_since < longest_wait) return false;
  bool moved = false;
  for (auto& out : outgoing_) {
    if (!out.in_place || out.cut || out.link->is_consumed(out.number) || !out.link->take_back(out.number)) continue;
    out.in_place = false;
    auto const count = count_segments(out.cursor, rules_.segment_bytes);
    out.segments_left = count.segments;
    out.slots.resize(count.segments, std::min(count.bytes, rules_.segment_bytes) + sizeof(SegmentTrailer), true,
                     place());
    pack_all(out, stats);
    moved = true;
  }
  return moved;
}

void Segments::publish(Outgoing& out, std::uint64_t number, SegmentSlot const& slot, std::size_t bytes,
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

void Segments::tasks_to_pack(Outgoing const& out, std::byte* packed) {
  tasks_.clear();
  for (auto const& block : blocks_) {
    auto const& field = fields_[std::size_t(block.field)];
    auto const& transfer = out.peer->transfers[std::size_t(block.transfer)];
    Elements const to{packed + block.offset, field.conversion.wire, {}};
    tasks_.push_back(task(field, transfer, block, to, cells(read(field, transfer.target), transfer, forward()),
                          field.conversion.pack));
    tasks_.back().streams = progress_.large && out.link && path_.past_cache();
  }
}

void Segments::pack(Outgoing& out, SegmentSlot const& slot, std::size_t bytes) {
  tasks_to_pack(out, slot.packed);
  run_segment(out.link != nullptr, bytes);
  if (slot.packed == slot.wire || bytes == 0) return;
  copy_to_host(call_.queue, slot.wire, slot.packed, bytes);
  fence();
}

void Segments::post_packed(Outgoing& out, SegmentSlot& slot, std::size_t bytes) {
  if (out.link) {
    slot.number = out.link->next_send();
    return publish(out, slot.number, slot, bytes, 0);
  }
  SegmentTrailer const trailer{call_.fields().hash, std::uint32_t(call_.number), std::uint32_t(out.segments_left), 0};
  std::memcpy(slot.wire + bytes, &trailer, sizeof trailer);
  check_mpi(MPI_Isend(slot.wire, int(bytes + sizeof trailer), MPI_BYTE, out.peer->peer, plan_.tag, plan_.comm.handle(),
                      &slot.request),
            "MPI_Isend");
}

void Segments::post_refusal(Outgoing& out, SegmentSlot& slot) {
  if (out.link) {
    slot.number = publish_end(out);
    return;
  }
  write_end(slot.wire);
  check_mpi(MPI_Isend(slot.wire, int(sizeof(SegmentTrailer)), MPI_BYTE, out.peer->peer, plan_.tag, plan_.comm.handle(),
                      &slot.request),
            "MPI_Isend");
}

void Segments::post_end(Outgoing& out) {
  // No slot is needed for this: the peer may never have taken what lies in them.
  if (out.link) {
    out.number = publish_end(out);
    return;
  }
  static_assert(sizeof(SegmentTrailer) == sizeof out.end);
  write_end(out.end.data());
  check_mpi(MPI_Isend(out.end.data(), int(out.end.size()), MPI_BYTE, out.peer->peer, plan_.tag, plan_.comm.handle(),
                      &out.end_request),
            "MPI_Isend");
}

std::uint64_t Segments::publish_end(Outgoing& out) {
  auto const number = out.link->next_send();
  auto& post = out.link->outgoing(number);
  post.bytes = refused_post;
  post.segments_after = 0;
  out.link->publish(number);
  return number;
}

void Segments::write_end(std::byte* to) const {
  SegmentTrailer const trailer{0, std::uint32_t(call_.number), 0, 1};
  std::memcpy(to, &trailer, sizeof trailer);
}

void Segments::note_refusal(Incoming& in) {
  in.failed = true;
  for (auto& out : outgoing_) out.cut = out.cut || out.peer->peer == in.peer->peer;
  call_.failure.rule = "PeerRefused";
  call_.failure.text = "rank " + std::to_string(in.peer->peer) + " refused call " + std::to_string(call_.number) +
                       " of " + named_plan(plan_.name, "the plan") +
                       " and has thrown the reason; cells of this call are unspecified, and its next call pairs with "
                       "that of this rank";
}

bool Segments::may_take(Incoming const& in) const noexcept {
  if (plan_.additions.independent || forward()) return true;
  if (in.peer->peer > plan_.comm.rank() && !local_.done()) return false;
  for (auto const& other : incoming_)
    if (other.peer->peer < in.peer->peer && other.segments_left > 0) return false;
  return true;
}

bool Segments::pull(Incoming& in) { return in.link ? pull_from_node(in) : pull_from_mpi(in); }

void Segments::fail(Incoming& in, std::string const& text) {
  in.failed = true;
  if (call_.failure.text.empty()) call_.failure.text = "rank " + std::to_string(in.peer->peer) + " " + text;
}

bool Segments::matches(Incoming& in, std::uint32_t fields, std::uint32_t call) {
  if (in.failed) return false;
  if (call != std::uint32_t(call_.number))
    fail(in, "is in call " + std::to_string(call) + " of " + named_plan(plan_.name, "the plan") +
                 ", this rank in call " + std::to_string(call_.number) +
                 ": a call failed or was left out on one of them");
  else if (fields != call_.fields().hash)
    fail(in, "sent fields of other types, batch axes, parity, factors or packings");
  return !in.failed;
}

void Segments::open_post(Incoming& in) {
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
    in.cursor.reset(in.peer->transfers, block_fields_, std::numeric_limits<std::size_t>::max() / 2);
}

bool Segments::pull_from_node(Incoming& in) {
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

void Segments::take_posted(Incoming& in) {
  auto const expected = in.cursor.take_segment(rules_.segment_bytes, blocks_);
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
  unpack(in, packed, expected);
  in.content += in.bytes_posted;
}

void Segments::take_in_place(Incoming& in) {
  auto const whole = std::numeric_limits<std::size_t>::max() / 2;
  (void)in.cursor.take_segment(on_device() ? whole : rules_.segment_bytes, blocks_);
  tasks_.clear();
  for (auto const& block : blocks_) {
    auto const& field = fields_[std::size_t(block.field)];
    auto const& transfer = in.peer->transfers[std::size_t(block.transfer)];
    std::size_t place = 0;
    for (int f = 0; f < block.field; ++f) place += forward() ? 1 : fields_[std::size_t(f)].targets.size();
    auto const& image = in.images[place + (forward() ? 0 : std::size_t(transfer.target))];
    add_task(block, transfer, cells(image, transfer, forward()), field.conversion.direct,
             parts_of(&in, block.transfer));
  }
  run();
}

void Segments::give_back(Incoming const& in) {
  if (!read_) read_ = SharedEvent::make(call_.shape.device);
  if (!read_) return fence();
  read_->record(call_.queue);
  reinterpret_cast<PostedView*>(in.content)->data.read = read_->address();
}

void Segments::wait_for_readers() {
  if (!on_device()) return;
  for (auto const& out : outgoing_) {
    if (!out.in_place || out.cut) continue;
    auto const& read = reinterpret_cast<PostedView const*>(out.views)->data.read;
    if (read.process != 0 && !wait_for_event(call_.queue, read))
      throw Error("OutOfMemory", "an event of rank " + std::to_string(out.peer->peer) + " cannot be opened");
  }
}

void Segments::fail_size(Incoming& in, std::size_t bytes, std::size_t expected) {
  fail(in, "sent " + std::to_string(bytes) + " bytes with " + std::to_string(in.segments_after) +
               " segments to come where this rank expects " + std::to_string(expected) + " with " +
               std::to_string(in.segments_left) + ": their fields differ in number, type or batch axes");
}

void Segments::run_segment(bool linked, std::size_t bytes) {
  if (!linked || !progress_.large || on_device()) return run();
  double const begin = MPI_Wtime();
  run();
  path_.add(bytes, MPI_Wtime() - begin);
}

void Segments::tasks_to_unpack(Incoming const& in, std::byte const* packed) {
  tasks_.clear();
  for (auto const& block : blocks_) {
    auto const& field = fields_[std::size_t(block.field)];
    auto const& transfer = in.peer->transfers[std::size_t(block.transfer)];
    Elements const from{const_cast<std::byte*>(packed) + block.offset, field.conversion.wire, {}};
    add_task(block, transfer, from, field.conversion.arrive, parts_of(&in, block.transfer));
  }
}

void Segments::unpack(Incoming& in, std::byte const* packed, std::size_t bytes) {
  tasks_to_unpack(in, packed);
  run_segment(in.link != nullptr, bytes);
  // The memory that was read is given back next.
  if (on_device()) fence();
}

void Segments::match_messages(Incoming& in) {
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

void Segments::throw_away(Incoming& in, MPI_Message& message, int bytes) {
  in.known = true;
  std::vector<std::byte> buffer(static_cast<std::size_t>(bytes));
  check_mpi(MPI_Mrecv(buffer.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
  SegmentTrailer trailer;
  std::memcpy(&trailer, buffer.data() + buffer.size() - sizeof trailer, sizeof trailer);
  if (trailer.refused != 0)
    note_refusal(in);
  else if (matches(in, trailer.fields, trailer.call))
    fail(in, "sent a segment of " + std::to_string(bytes) + " bytes, more than this rank expects");
  in.segments_left = trailer.segments_after;
}

bool Segments::pull_from_mpi(Incoming& in) {
  match_messages(in);
  if (in.arriving.empty()) return false;
  auto& slot = in.slots.slots[in.arriving.front()];
  int ended = 0;
  check_mpi(MPI_Test(&slot.request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
  if (!ended) return false;
  in.arriving.erase(in.arriving.begin());
  in.known = true;
  SegmentTrailer trailer;
  auto const bytes = slot.bytes - sizeof trailer;
  std::memcpy(&trailer, slot.wire + bytes, sizeof trailer);
  in.segments_after = trailer.segments_after;
  if (trailer.refused != 0) {
    note_refusal(in);
  } else if (matches(in, trailer.fields, trailer.call)) {
    auto const expected = in.cursor.take_segment(rules_.segment_bytes, blocks_);
    --in.segments_left;
    if (bytes != expected || in.segments_left != in.segments_after) {
      fail_size(in, bytes, expected);
    } else {
      if (slot.packed != slot.wire && bytes > 0) copy_to_device(call_.queue, slot.packed, slot.wire, bytes);
      unpack(in, slot.packed, bytes);
    }
  }
  in.segments_left = in.segments_after;
  return true;
}

void Segments::add_local_task() {
  auto const& block = local_.block();
  auto const& field = fields_[std::size_t(block.field)];
  auto const& transfer = plan_.table.local[std::size_t(block.transfer)];
  add_task(block, transfer, cells(read(field, transfer.target), transfer, forward()), field.conversion.direct,
           parts_of(nullptr, block.transfer));
}

bool Segments::move_local(PullStats& stats) {
  if (local_.done()) return false;
  if (!plan_.additions.independent && !forward())
    for (auto const& in : incoming_)
      if (in.peer->peer < plan_.comm.rank() && in.segments_left > 0) return false;
  tasks_.clear();
  add_local_task();
  run(local_tasks_);
  stats.local_bytes += Index(local_.bytes());
  local_.advance();
  return true;
}

std::vector<Box> const* Segments::parts_of(Incoming const* in, int transfer) const {
  if (call_.shape.direction != Direction::inverse || !rules_.last_images) return nullptr;
  auto const& images = *rules_.last_images;
  auto const& all = in ? images.sends[std::size_t(in - incoming_.data())] : images.local;
  return &all[std::size_t(transfer)];
}

void Segments::add_task(Block const& block, Transfer const& transfer, Elements from, Transform const& transform,
                        std::vector<Box> const* parts) {
  auto const& field = fields_[std::size_t(block.field)];
  auto const to = cells(written(field, transfer.target), transfer, !forward());
  if (!parts) return tasks_.push_back(task(field, transfer, block, to, from, transform));
  int const num_batch = block.lo.size() - transfer.to.ndim();
  if (from.strides.size() == 0) {
    // As if the segment held the cells before the block, too, so that parts are counted as in the field.
    from.strides = row_major_strides(block.extents);
    Index before = 0;
    for (int a = 0; a < block.lo.size(); ++a) before += block.lo[a] * from.strides[a];
    from.first = static_cast<std::byte*>(from.first) - before * size_of(from.dtype);
  }
  for (auto const& box : *parts) {
    Block part = block;
    bool is_empty = false;
    for (int a = num_batch; a < block.lo.size(); ++a) {
      Index const first = transfer.to.lo(a - num_batch);
      part.lo[a] = std::max(block.lo[a], box.lo(a - num_batch) - first);
      part.extents[a] = std::min(block.lo[a] + block.extents[a], box.hi(a - num_batch) - first) - part.lo[a];
      is_empty = is_empty || part.extents[a] <= 0;
    }
    if (!is_empty) tasks_.push_back(task(field, transfer, part, to, from, transform));
  }
}

Image const& Segments::written(SegmentField const& field, int target) const {
  return forward() ? field.targets[std::size_t(target)] : field.source;
}

Image const& Segments::read(SegmentField const& field, int target) const {
  return forward() ? field.source : field.targets[std::size_t(target)];
}

Elements Segments::cells(Image const& image, Transfer const& transfer, bool of_source) const {
  return of_source ? source_cells(image.view, image.cover_lo, transfer)
                   : target_cells(image.view, image.cover_lo, transfer.to);
}

StridedTask Segments::task(SegmentField const& field, Transfer const& transfer, Block const& block, Elements to,
                           Elements from, Transform const& transform) const {
  for (auto* side : {&to, &from}) {
    if (side->strides.size() == 0) {
      side->strides = row_major_strides(block.extents);
      continue;
    }
    Index offset = 0;
    for (int a = 0; a < block.lo.size(); ++a) offset += block.lo[a] * side->strides[a];
    side->first = static_cast<std::byte*>(side->first) + offset * size_of(side->dtype);
  }
  bool const sign = transfer.negated != (transfer.odd_folds && field.parity == Parity::odd);
  auto result = [&] {
    if (!sign || &transform == &field.conversion.pack) return make_transform(transform, block.extents, to, from);
    auto negated = transform;
    negated.alpha[0] = -negated.alpha[0];
    negated.alpha[1] = -negated.alpha[1];
    return make_transform(negated, block.extents, to, from);
  }();
  result.unfit = unfit_of(field);
  // Sums and signs of integers that wrap around go unnoticed.
  if (result.unfit && result.op != StridedOp::copy && size_of(result.dtype) < 8) result.op = StridedOp::transform;
  result.streams = progress_.large && &transform != &field.conversion.pack;
  result.independent = forward() || plan_.additions.independent;
  return result;
}

void Segments::fence() {
  detail::fence(call_.queue);
  device_tasks_.completed();
  local_tasks_.completed();
}

void Segments::run(DeviceTasks& tasks) {
  if (!on_device()) return run_strided_host(tasks_);
  tasks.set(tasks_, call_.queue);
  tasks.run(call_.queue);
}

Index Segments::buffer_bytes() const noexcept {
  Index result = 0;
  Index const copies = on_device() ? 2 : 1;
  for (auto const& out : outgoing_) result += copies * out.slots.total_bytes();
  for (auto const& in : incoming_) result += copies * in.slots.total_bytes();
  if (small_block_)
    for (auto const& out : outgoing_) result += Index(out.places.size() * out.place_bytes);
  return result;
}

void Segments::release_buffers() {
  progress_.opened = false;
  for (auto& out : outgoing_) out.slots.release();
  for (auto& in : incoming_) in.slots.release();
}

std::string Segments::describe() const {
  auto const* const oldest = is_small_ ? this : queue_.oldest();
  return oldest ? oldest->own_description() : std::string();
}

std::string Segments::own_description() const {
  std::string text = "rank " + std::to_string(plan_.comm.rank()) + " waits in call " + std::to_string(call_.number) +
                     " (" + (forward() ? "forward" : "backward") + ") of " + named_plan(plan_.name, "a plan") + " for";
  char const* separator = " ";
  auto const add = [&](PeerTransfers const& peer, std::size_t segments, char const* what, bool linked) {
    text += separator + std::to_string(segments) + what + std::to_string(peer.peer) +
            (linked ? " (node-shared memory)" : " (point-to-point)");
    separator = ", ";
  };
  for (auto const& in : incoming_)
    if (in.segments_left > 0) add(*in.peer, in.segments_left, " segments from rank ", in.link);
  for (auto const& out : outgoing_) {
    std::size_t unread = out.number != 0 && !out.link->is_consumed(out.number) ? 1 : 0;
    for (auto const& slot : out.slots.slots)
      if (out.link ? slot.number != 0 && !out.link->is_consumed(slot.number) : slot.request != MPI_REQUEST_NULL)
        ++unread;
    if (out.segments_left + unread > 0)
      add(*out.peer, out.segments_left + unread, " segments to be read by rank ", out.link);
  }
  return text;
}

}  // namespace graticule::detail
