// SPDX-License-Identifier: BSD-3-Clause
#include "segments.hpp"

#include <graticule/repartition/plan_name.hpp>

namespace graticule::detail {

Segments::Segments(Call& call, SegmentQueue& queue)
    : call_(call),
      queue_(queue),
      cells_(call),
      sender_(call, cells_),
      receiver_(call, cells_, sender_),
      small_(call, cells_, sender_, receiver_) {
  queue_.add(*this);
  constexpr Index small_call = 1 << 15;
  Index bytes = 0;
  for (std::size_t f = 0; f < call.shape.kinds.size(); ++f) {
    auto const kind = std::size_t(call.shape.kinds[f]);
    Index cells = call.plan.local_cells[kind];
    for (auto const* side : {&call.plan.table.sends, &call.plan.table.receives})
      for (auto const& peer : *side) cells += peer.num_cells[kind];
    bytes += cells * call.shape.cell_bytes[f];
  }
  call.is_small = bytes < small_call && !call.shape.on_device() && !call.shape.refused;
}

Segments::~Segments() { queue_.remove(*this); }

void Segments::post(std::span<PullField const> fields, DeviceQueue const& queue, Posting posting) {
  Stopwatch watch(call_);
  // Kernels of an earlier call in another queue may still read tasks and packed cells.
  if (call_.shape.on_device()) {
    if (call_.queue.instance() != queue.instance()) detail::fence(call_.queue);
    call_.queue = queue;
  }
  cells_.set_fields(fields);
  begin(call_.plan.segments->budget > 0 ? Posting::window : posting);
  ++call_.stats.num_calls;
  queue_.begin(*this);
  call_.stats.pack_seconds += watch.lap();
}

void Segments::refuse() {
  cells_.set_fields({});
  call_.fields().hash = 0;
  begin(Posting::window, true);
  progress_.refused = progress_.scaled = progress_.gate_open = true;
  queue_.begin(*this);
  (void)queue_.advance();
}

bool Segments::advance() {
  if (!small_.is_under_way()) return queue_.advance();
  bool moved = false;
  auto* const unexpected = small_.take(moved);
  // What else may come is the business of calls in general.
  if (unexpected != nullptr) go_on_in_general(unexpected);
  return moved;
}

bool Segments::test() {
  (void)advance();
  return done();
}

bool Segments::has_ended() {
  if (small_.is_under_way()) go_on_in_general(nullptr);
  // What a caller waits for is ended there.
  while (queue_.oldest() && queue_.oldest()->progress_.refused && queue_.advance()) {
  }
  return done();
}

void Segments::conclude() {
  if (small_.makes_call()) return;
  small_.prepare();
  sender_.wait_for_readers();
  if (call_.shape.on_device() && !call_.queue.instance()) detail::fence(call_.queue);
  if (cells_.rounds()) cells_.agree_on_rounding();
  if (!call_.failure.text.empty()) throw Error(call_.failure.rule, call_.failure.text);
}

void Segments::begin(Posting posting, bool refuses) {
  progress_ = {.posting = posting};
  small_.stop();
  call_.failure.clear();
  cells_.begin();
  sender_.begin(posting, refuses);
  progress_.gate_open = call_.shape.forward() && cells_.overwrites();
}

void Segments::open() {
  progress_.opened = true;
  cells_.describe();
  bool const alone = sender_.messages().empty() && receiver_.messages().empty();
  // A processor's cache holds a block; one launch moves all cells of a device.
  std::size_t written = cells_.begin_local(alone || call_.shape.on_device());
  sender_.make_room();
  receiver_.make_room(progress_.refused);
  if (progress_.refused) return;
  for (auto const& in : receiver_.messages()) written += in.bytes;
  cells_.note_written(written);
}

bool Segments::open_gate() {
  bool moved = sender_.push();
  moved = receiver_.look() || moved;
  progress_.gate_open = receiver_.all_known();
  if (!progress_.gate_open || call_.failure.text.empty()) return moved || progress_.gate_open;
  progress_.scaled = true;
  cells_.skip_local();
  receiver_.fail_all();
  return true;
}

bool Segments::step() {
  OnDevice const scope(call_.current_device());
  if (!progress_.opened) open();
  // What is added to stays as it was when some peer makes another call.
  if (!progress_.gate_open) return open_gate();
  if (!progress_.scaled) cells_.scale_before();
  progress_.scaled = true;
  bool moved = sender_.push();
  // A device moves what stays while the host waits for peers.
  if (call_.shape.on_device()) moved = move_local() || moved;
  moved = receiver_.pull(cells_.local_done()) || moved;
  // A block of what stays after each round: its writes and the reads of packing use memory at the same time.
  moved = move_local() || moved;
  return moved || take_back_late();
}

bool Segments::move_local() {
  if (!call_.plan.additions.independent && !call_.shape.forward() && receiver_.awaits_lower_rank()) return false;
  return cells_.move_local();
}

bool Segments::take_back_late() {
  // A peer that is busy elsewhere must not hold up this rank, which MPI would not either: then the cells are packed.
  constexpr double longest_wait = 2e-4;
  if (progress_.posting != Posting::all || !progress_.scaled || !cells_.local_done() || !all_posted() ||
      !receiver_.all_received())
    return false;
  if (progress_.idle_since < 0) progress_.idle_since = MPI_Wtime();
  return MPI_Wtime() - progress_.idle_since >= longest_wait && sender_.take_back();
}

bool Segments::is_complete() const {
  return progress_.scaled && cells_.local_done() && all_posted() && receiver_.all_received() && sender_.may_be_left();
}

void Segments::go_on_in_general(IncomingSegments* reading) {
  small_.stop();
  cells_.set_known_fields();
  progress_ = {.posting = Posting::all, .opened = true, .gate_open = true, .scaled = true};
  cells_.begin();
  cells_.describe();
  cells_.skip_local();
  sender_.begin(Posting::all);
  sender_.set_posted();
  queue_.join(*this);
  receiver_.resume(reading);
}

void Segments::release_buffers() {
  progress_.opened = false;
  sender_.release();
  receiver_.release();
}

Index Segments::buffer_bytes() const noexcept {
  Index const copies = call_.shape.on_device() ? 2 : 1;
  Index result = small_.buffer_bytes();
  for (auto const& out : sender_.messages()) result += copies * out.slots.total_bytes();
  for (auto const& in : receiver_.messages()) result += copies * in.slots.total_bytes();
  return result;
}

std::string Segments::describe() const {
  auto const* const oldest = small_.is_under_way() ? this : queue_.oldest();
  return oldest ? oldest->own_description() : std::string();
}

std::string Segments::own_description() const {
  std::string text = "rank " + std::to_string(call_.plan.comm.rank()) + " waits in call " +
                     std::to_string(call_.number) + " (" + (call_.shape.forward() ? "forward" : "backward") + ") of " +
                     named_plan(call_.plan.name, "a plan") + " for";
  char const* separator = " ";
  auto const add = [&](PeerTransfers const& peer, std::size_t segments, char const* what, bool linked) {
    text += separator + std::to_string(segments) + what + std::to_string(peer.peer) +
            (linked ? " (node-shared memory)" : " (point-to-point)");
    separator = ", ";
  };
  for (auto const& in : receiver_.messages())
    if (in.segments_left > 0) add(*in.peer, in.segments_left, " segments from rank ", in.link);
  for (auto const& out : sender_.messages()) {
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
