// SPDX-License-Identifier: BSD-3-Clause
// What a call copies, adds and fills: transfers and fields turned into strided tasks, which are kept for the next call.
#include "call_tasks.hpp"

#include <graticule/repartition/detail/dtypes.hpp>
#include <graticule/repartition/detail/row_major.hpp>

#include "kernels/cells.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace graticule::detail {

namespace {

/// Calls `use(t)` for each transfer with `peer` that field `f` takes part in.
template <class Use>
void for_transfers_of(CallShape const& shape, PeerTransfers const& peer, int f, Use const& use) {
  auto const kind = std::size_t(shape.kinds[std::size_t(f)]);
  for (int t = peer.first_of_kind[kind]; t < peer.first_of_kind[kind + 1]; ++t) use(t);
}

bool negated(Transfer const& transfer, Parity parity) {
  return transfer.negated != (transfer.odd_folds && parity == Parity::odd);
}

/// Moves the side of kept tasks that lies in a message to where the message lies now.
void move_with_message(KeptTasks& kept, std::byte* packed, bool packs) {
  auto const shift = packed - kept.packed;
  if (shift == 0) return;
  kept.packed = packed;
  for (auto& task : kept.tasks) {
    if (packs)
      task.to = static_cast<std::byte*>(task.to) + shift;
    else
      task.from = static_cast<std::byte const*>(task.from) + shift;
  }
}

StridedTask fill_task(Call const& call, int f, Filling const& filling) {
  auto const& view = call.fields().target(f, filling.target);
  auto const cells = target_cells(view, call.plan.target_box(filling.kind, filling.target).lo(), filling.to);
  return make_strided(StridedOp::fill, view.dtype, extents_of(view, filling.to), cells.first, cells.strides, nullptr,
                      {}, filling.value);
}

}  // namespace

CallTasks::CallTasks(Call const& call, MessageSet& outgoing, MessageSet& incoming)
    : plan_(call.plan), call_(call), outgoing_(outgoing), incoming_(incoming) {}

void CallTasks::use_fields(int place, bool changed) {
  used_ = place;
  if (std::size_t(place) >= of_fields_.size()) of_fields_.resize(std::size_t(place) + 1);
  for (auto* set : {&outgoing_, &incoming_})
    for (auto& message : set->messages) {
      message.used = place;
      if (std::size_t(place) >= message.of_fields.size()) message.of_fields.resize(std::size_t(place) + 1);
      if (changed) message.kept().valid = false;
    }
  if (changed)
    for (auto* kept : {&pack_all_, &unpack_all_, &now().local, &now().additions, &now().zeros}) kept->valid = false;
}

Image CallTasks::source_image(int f) const { return {call_.fields().source(f), plan_.source_box(call_.kind(f)).lo()}; }

Image CallTasks::target_image(int f, int target) const {
  return {call_.fields().target(f, target), plan_.target_box(call_.kind(f), target).lo()};
}

StridedTask CallTasks::pack_task(int f, Transfer const& transfer, std::byte* wire, Image const& image) const {
  bool const forward = call_.shape.forward();
  auto const& view = image.view;  // of a peer without extents
  auto const cells =
      forward ? source_cells(view, image.cover_lo, transfer) : target_cells(view, image.cover_lo, transfer.to);
  auto const extents = extents_of(call_.fields().source(f), transfer.to);
  bool const sign = forward && negated(transfer, call_.fields().parity(f));
  auto task = make_strided(sign ? StridedOp::negate : StridedOp::copy, view.dtype, extents, wire,
                           row_major_strides(extents), cells.first, cells.strides);
  task.clear_from = !forward && plan_.clears_while_reading;
  return task;
}

StridedTask CallTasks::unpack_task(int f, Transfer const& transfer, std::byte const* wire) const {
  bool const forward = call_.shape.forward();
  auto const& view = forward ? call_.fields().target(f, transfer.target) : call_.fields().source(f);
  auto const cells = forward ? target_cells(view, plan_.target_box(transfer.kind, transfer.target).lo(), transfer.to)
                             : source_cells(view, plan_.source_box(transfer.kind).lo(), transfer);
  auto const extents = extents_of(view, transfer.to);
  bool const sign = negated(transfer, call_.fields().parity(f));
  auto const op = forward ? StridedOp::copy : (sign ? StridedOp::subtract : StridedOp::add);
  return make_strided(op, view.dtype, extents, cells.first, cells.strides, wire, row_major_strides(extents));
}

StridedTask CallTasks::move_task(int f, Transfer const& transfer, Image const& source, Image const& target) const {
  bool const sign = negated(transfer, call_.fields().parity(f));
  bool const forward = call_.shape.forward();
  auto const& own = forward ? target.view : source.view;
  auto const source_side = source_cells(source.view, source.cover_lo, transfer);
  auto const target_side = target_cells(target.view, target.cover_lo, transfer.to);
  auto const extents = extents_of(own, transfer.to);
  if (forward)
    return make_strided(sign ? StridedOp::negate : StridedOp::copy, own.dtype, extents, target_side.first,
                        target_side.strides, source_side.first, source_side.strides);
  auto task = make_strided(sign ? StridedOp::subtract : StridedOp::add, own.dtype, extents, source_side.first,
                           source_side.strides, target_side.first, target_side.strides);
  task.clear_from = plan_.clears_while_reading;
  return task;
}

StridedTask CallTasks::local_task(int f, Transfer const& transfer) const {
  return move_task(f, transfer, source_image(f), target_image(f, transfer.target));
}

Image const& CallTasks::posted_image(int f, Message const& message, Transfer const& transfer) const {
  if (call_.shape.forward()) return message.now().images[std::size_t(f)];
  return message.now().images[call_.fields().first_target[std::size_t(f)] + std::size_t(transfer.target)];
}

void CallTasks::append_packing_of_posted(Message const& message, std::byte* staged,
                                         std::vector<StridedTask>& tasks) const {
  for (int f = 0; f < call_.fields().count(); ++f)
    for_transfers_of(call_.shape, *message.peer, f, [&](int t) {
      auto const& transfer = message.peer->transfers[std::size_t(t)];
      tasks.push_back(pack_task(f, transfer, staged + MessageSet::offset(call_.shape, message, f, t),
                                posted_image(f, message, transfer)));
    });
}

StridedTask CallTasks::arrival_task(int f, Message const& message, int t) const {
  auto const& transfer = message.peer->transfers[std::size_t(t)];
  if (!message.now().in_place || call_.shape.on_device())
    return unpack_task(f, transfer, message.packed + MessageSet::offset(call_.shape, message, f, t));
  auto const& image = posted_image(f, message, transfer);
  if (call_.shape.forward()) return move_task(f, transfer, image, target_image(f, transfer.target));
  return move_task(f, transfer, source_image(f), image);
}

namespace {

/// Counts the cells of a transfer along the axes of its source, upwards: parts with the same cells count them alike.
void count_as_source(Transfer const& part, int num_batch, Indices& extents, std::array<Elements*, 2> const& sides) {
  auto const by_target = extents;
  for (int a = 0; a < part.to.ndim(); ++a)
    extents[num_batch + part.maps[std::size_t(a)].source_axis] = by_target[num_batch + a];
  for (auto* const side : sides) {
    auto const strides = side->strides;
    for (int a = 0; a < part.to.ndim(); ++a) {
      auto const& map = part.maps[std::size_t(a)];
      Index const stride = strides[num_batch + a];
      side->strides[num_batch + map.source_axis] = map.slope < 0 ? -stride : stride;
      if (map.slope < 0)
        side->first =
            static_cast<std::byte*>(side->first) + (by_target[num_batch + a] - 1) * stride * size_of(side->dtype);
    }
  }
}

}  // namespace

StridedTask CallTasks::addition_task(int f, AdditionPart const& part) const {
  auto const& addition = plan_.additions.list[std::size_t(part.addition)];
  bool const is_local = addition.peer_index < 0;
  auto const* const message = is_local ? nullptr : &incoming_.messages[std::size_t(addition.peer_index)];
  auto const& whole = (is_local ? plan_.table.local : message->peer->transfers)[std::size_t(addition.transfer)];
  auto const cut = part_of(whole, part.cells);
  auto const& own = call_.fields().source(f);
  auto to = source_cells(own, plan_.source_box(whole.kind).lo(), cut);
  Elements from;
  if (is_local) {
    from =
        target_cells(call_.fields().target(f, whole.target), plan_.target_box(whole.kind, whole.target).lo(), cut.to);
  } else {
    auto* first = message->packed + MessageSet::offset(call_.shape, *message, f, addition.transfer);
    auto const strides = row_major_strides(extents_of(own, whole.to));
    int const num_batch = strides.size() - whole.to.ndim();
    for (int a = 0; a < whole.to.ndim(); ++a)
      first += (cut.to.lo(a) - whole.to.lo(a)) * strides[num_batch + a] * size_of(own.dtype);
    from = {first, own.dtype, strides};
  }
  auto extents = extents_of(own, cut.to);
  count_as_source(cut, extents.size() - cut.to.ndim(), extents, {&to, &from});
  auto task = make_strided(negated(whole, call_.fields().parity(f)) ? StridedOp::subtract : StridedOp::add, own.dtype,
                           extents, to.first, to.strides, from.first, from.strides);
  task.clear_from = is_local && plan_.clears_while_reading;
  task.follows = part.follows;
  task.independent = true;
  return task;
}

KeptTasks const& CallTasks::packing(Message& message) const {
  auto& kept = message.kept();
  if (kept.valid) return kept;
  kept.tasks.clear();
  for (int f = 0; f < call_.fields().count(); ++f)
    for_transfers_of(call_.shape, *message.peer, f, [&](int t) {
      auto const& transfer = message.peer->transfers[std::size_t(t)];
      auto const image = call_.shape.forward() ? source_image(f) : target_image(f, transfer.target);
      kept.tasks.push_back(
          pack_task(f, transfer, message.packed + MessageSet::offset(call_.shape, message, f, t), image));
    });
  kept.packed = message.packed;
  kept.changed();
  if (!call_.shape.on_device()) kept.small.set(kept.tasks, SmallCopies::InMessage::to, kept.packed);
  return kept;
}

std::span<StridedTask const> CallTasks::pack(Message& message) const {
  (void)packing(message);
  move_with_message(message.kept(), message.packed, true);
  return message.kept().tasks;
}

KeptTasks const& CallTasks::unpacking(Message& message) const {
  auto& kept = message.kept();
  if (kept.valid) return kept;
  kept.tasks.clear();
  for (int f = 0; f < call_.fields().count(); ++f)
    for_transfers_of(call_.shape, *message.peer, f, [&](int t) { kept.tasks.push_back(arrival_task(f, message, t)); });
  kept.packed = message.packed;
  kept.changed();
  if (!call_.shape.on_device())
    kept.small.set(kept.tasks, message.now().in_place ? SmallCopies::InMessage::none : SmallCopies::InMessage::from,
                   kept.packed);
  return kept;
}

std::span<StridedTask const> CallTasks::unpack(Message& message) const {
  (void)unpacking(message);
  if (!message.now().in_place || call_.shape.on_device()) move_with_message(message.kept(), message.packed, false);
  return message.kept().tasks;
}

void CallTasks::make_all(Way way) {
  auto& kept = kept_of_all(way);
  bool const moved = kept.valid;
  kept.tasks.clear();
  for (auto& message : (way == Way::out ? outgoing_ : incoming_).messages) {
    auto const tasks = way == Way::out ? pack(message) : unpack(message);
    kept.tasks.insert(kept.tasks.end(), tasks.begin(), tasks.end());
  }
  if (way == Way::in && moves_with_messages()) {
    auto const& staying = local().tasks;
    kept.tasks.insert(kept.tasks.end(), staying.begin(), staying.end());
  }
  // Where only the messages have moved, copies for their other places stay.
  if (!moved) kept.changed();
}

bool CallTasks::moves_with_messages() const noexcept {
  // A device moves as many bytes while the host launches one kernel more.
  constexpr Index most_bytes = Index(4) << 20U;
  if (!call_.shape.on_device() || incoming_.messages.empty()) return false;
  Index bytes = 0;
  for (int f = 0; f < call_.fields().count(); ++f)
    bytes += plan_.local_cells[std::size_t(call_.kind(f))] * call_.shape.cell_bytes[std::size_t(f)];
  return bytes <= most_bytes;
}

KeptTasks& CallTasks::local() {
  auto& kept = now().local;
  if (kept.valid) return kept;
  kept.tasks.clear();
  for (int f = 0; f < call_.fields().count(); ++f) {
    int const kind = call_.kind(f);
    for (auto const& transfer : plan_.table.local)
      if (transfer.kind == kind) kept.tasks.push_back(local_task(f, transfer));
    for (auto const& filling : plan_.table.fillings)
      if (filling.kind == kind) kept.tasks.push_back(fill_task(call_, f, filling));
  }
  kept.changed();
  if (!call_.shape.on_device()) kept.small.set(kept.tasks, SmallCopies::InMessage::none, nullptr);
  return kept;
}

void CallTasks::make_additions() {
  auto& kept = now().additions;
  if (!kept.valid) {
    kept.tasks.clear();
    now().message_of_addition.clear();
    // On a device, where each launch costs as much as thousands of cells.
    bool const in_parts =
        call_.shape.on_device() && !plan_.additions.independent && !plan_.parts_of_additions().empty();
    for (int f = 0; f < call_.fields().count(); ++f) {
      if (call_.shape.cell_bytes[std::size_t(f)] == 0) continue;
      if (in_parts) {
        for (auto const& part : plan_.parts_of_additions()) {
          auto const& addition = plan_.additions.list[std::size_t(part.addition)];
          if (addition.kind != call_.kind(f)) continue;
          kept.tasks.push_back(addition_task(f, part));
          now().message_of_addition.push_back(addition.peer_index);
        }
        continue;
      }
      for (auto const& addition : plan_.additions.list) {
        if (addition.kind != call_.kind(f)) continue;
        int const m = addition.peer_index;
        kept.tasks.push_back(m < 0 ? local_task(f, plan_.table.local[std::size_t(addition.transfer)])
                                   : arrival_task(f, incoming_.messages[std::size_t(m)], addition.transfer));
        kept.tasks.back().independent = plan_.additions.independent;
        now().message_of_addition.push_back(m);
      }
    }
    for (auto& message : incoming_.messages) message.kept().packed = message.packed;
    kept.changed();
    return;
  }
  for (std::size_t i = 0; i < kept.tasks.size(); ++i) {
    if (now().message_of_addition[i] < 0) continue;
    auto& message = incoming_.messages[std::size_t(now().message_of_addition[i])];
    auto const* const before = message.kept().packed;
    if ((message.now().in_place && call_.shape.space == MemorySpace::host) || message.packed == before) continue;
    kept.tasks[i].from = static_cast<std::byte const*>(kept.tasks[i].from) + (message.packed - before);
  }
  for (auto& message : incoming_.messages) message.kept().packed = message.packed;
}

KeptTasks& CallTasks::zeros() {
  auto& kept = now().zeros;
  if (kept.valid) return kept;
  kept.tasks.clear();
  for (int f = 0; f < call_.fields().count(); ++f) {
    auto const zero = [&](int kind, int target, Box const& to) {
      if (kind == call_.kind(f)) kept.tasks.push_back(fill_task(call_, f, {kind, target, 0, to}));
    };
    for (auto const& filling : plan_.table.fillings) zero(filling.kind, filling.target, filling.to);
    if (plan_.clears_while_reading) continue;
    for (auto const& peer : plan_.table.receives)
      for (auto const& transfer : peer.transfers) zero(transfer.kind, transfer.target, transfer.to);
    for (auto const& transfer : plan_.table.local) zero(transfer.kind, transfer.target, transfer.to);
  }
  kept.changed();
  return kept;
}

void CallTasks::append_sent(std::vector<Image>& images) const {
  for (int f = 0; f < call_.fields().count(); ++f) {
    if (call_.shape.forward()) {
      images.push_back(source_image(f));
      continue;
    }
    int const num_targets = int(plan_.kinds[std::size_t(call_.kind(f))].targets.size());
    for (int t = 0; t < num_targets; ++t) images.push_back(target_image(f, t));
  }
}

void poison(Call const& call, DeviceQueue const& queue) {
  std::vector<StridedTask> tasks;
  for (int f = 0; f < call.fields().count(); ++f) {
    double const value = is_integer(call.fields().source(f).dtype) ? 85 : std::nan("");
    auto const fill = [&](Transfer const& t) {
      if (t.kind == call.kind(f)) tasks.push_back(fill_task(call, f, {t.kind, t.target, value, t.to}));
    };
    for (auto const& peer : call.plan.table.receives) std::for_each(peer.transfers.begin(), peer.transfers.end(), fill);
    std::for_each(call.plan.table.local.begin(), call.plan.table.local.end(), fill);
  }
  run_strided(tasks, call.shape.space, queue);
}

}  // namespace graticule::detail
