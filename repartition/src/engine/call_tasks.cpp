// SPDX-License-Identifier: BSD-3-Clause
// What a call copies, adds and fills: transfers and fields turned into strided tasks, which are kept for the next call.
#include <graticule/repartition/detail/dtypes.hpp>

#include "kernels/cells.hpp"
#include "pull_state.hpp"

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

}  // namespace

StridedTask PullState::pack_task(Workspace const& w, int f, Transfer const& transfer, std::byte* wire) const {
  bool const forward = w.shape.direction == Direction::forward;
  return pack_task(w, f, transfer, wire, forward ? source_image(w, f) : target_image(w, f, transfer.target));
}

StridedTask PullState::pack_task(Workspace const& w, int f, Transfer const& transfer, std::byte* wire,
                                 Image const& image) const {
  bool const forward = w.shape.direction == Direction::forward;
  auto const& view = image.view;  // of a peer without extents
  auto const cells =
      forward ? source_cells(view, image.cover_lo, transfer) : target_cells(view, image.cover_lo, transfer.to);
  auto const extents = extents_of(source_view(w, f), transfer.to);
  bool const sign = forward && negated(transfer, w.parities[std::size_t(f)]);
  auto task = make_strided(sign ? StridedOp::negate : StridedOp::copy, view.dtype, extents, wire,
                           row_major_strides(extents), cells.first, cells.strides);
  task.clear_from = !forward && plan_.clears_while_reading;
  return task;
}

StridedTask PullState::unpack_task(Workspace const& w, int f, Transfer const& transfer, std::byte const* wire) const {
  bool const forward = w.shape.direction == Direction::forward;
  auto const& view = forward ? target_view(w, f, transfer.target) : source_view(w, f);
  auto const cells = forward ? target_cells(view, plan_.target_box(transfer.kind, transfer.target).lo(), transfer.to)
                             : source_cells(view, plan_.source_box(transfer.kind).lo(), transfer);
  auto const extents = extents_of(view, transfer.to);
  bool const sign = negated(transfer, w.parities[std::size_t(f)]);
  auto const op = forward ? StridedOp::copy : (sign ? StridedOp::subtract : StridedOp::add);
  return make_strided(op, view.dtype, extents, cells.first, cells.strides, wire, row_major_strides(extents));
}

StridedTask PullState::move_task(Workspace const& w, int f, Transfer const& transfer, Image const& source,
                                 Image const& target) const {
  bool const sign = negated(transfer, w.parities[std::size_t(f)]);
  bool const forward = w.shape.direction == Direction::forward;
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

StridedTask PullState::local_task(Workspace const& w, int f, Transfer const& transfer) const {
  return move_task(w, f, transfer, source_image(w, f), target_image(w, f, transfer.target));
}

Image const& PullState::posted_image(Workspace const& w, int f, Message const& message,
                                     Transfer const& transfer) const {
  if (w.shape.direction == Direction::forward) return message.images[std::size_t(f)];
  return message.images[w.first_target[std::size_t(f)] + std::size_t(transfer.target)];
}

void PullState::bring_posted_fields(Workspace& w, Message& message) const {
  if (!message.staged.data()) message.staged = Buffer(message.bytes, Buffer::Kind::pinned);
  w.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f)
    for_transfers_of(w.shape, *message.peer, f, [&](int t) {
      auto const& transfer = message.peer->transfers[std::size_t(t)];
      w.tasks.push_back(pack_task(w, f, transfer, message.staged.data() + MessageSet::offset(w.shape, message, f, t),
                                  posted_image(w, f, message, transfer)));
    });
  run_strided_host(w.tasks);
  w.release(message);
  message.is_released = true;
  copy_to_device(w.queue, message.packed, message.staged.data(), message.bytes);
  w.is_read = true;
}

void PullState::receive_on_device(Workspace& w) const {
  while (w.num_messages_open > 0)
    for (int const m : w.wait_some()) {
      auto& message = w.incoming.messages[std::size_t(m)];
      if (w.failure.empty() && message.in_place && message.bytes > 0) bring_posted_fields(w, message);
    }
}

StridedTask PullState::arrival_task(Workspace const& w, int f, Message const& message, int t) const {
  auto const& transfer = message.peer->transfers[std::size_t(t)];
  if (!message.in_place || w.shape.space == MemorySpace::device)
    return unpack_task(w, f, transfer, message.packed + MessageSet::offset(w.shape, message, f, t));
  auto const& image = posted_image(w, f, message, transfer);
  if (w.shape.direction == Direction::forward)
    return move_task(w, f, transfer, image, target_image(w, f, transfer.target));
  return move_task(w, f, transfer, source_image(w, f), image);
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

StridedTask PullState::addition_task(Workspace const& w, int f, AdditionPart const& part) const {
  auto const& addition = plan_.additions.list[std::size_t(part.addition)];
  bool const is_local = addition.peer_index < 0;
  auto const* const message = is_local ? nullptr : &w.incoming.messages[std::size_t(addition.peer_index)];
  auto const& whole = (is_local ? plan_.table.local : message->peer->transfers)[std::size_t(addition.transfer)];
  auto const cut = part_of(whole, part.cells);
  auto const& own = source_view(w, f);
  auto to = source_cells(own, plan_.source_box(whole.kind).lo(), cut);
  Elements from;
  if (is_local) {
    from = target_cells(target_view(w, f, whole.target), plan_.target_box(whole.kind, whole.target).lo(), cut.to);
  } else {
    auto* first = message->packed + MessageSet::offset(w.shape, *message, f, addition.transfer);
    auto const strides = row_major_strides(extents_of(own, whole.to));
    int const num_batch = strides.size() - whole.to.ndim();
    for (int a = 0; a < whole.to.ndim(); ++a)
      first += (cut.to.lo(a) - whole.to.lo(a)) * strides[num_batch + a] * size_of(own.dtype);
    from = {first, own.dtype, strides};
  }
  auto extents = extents_of(own, cut.to);
  count_as_source(cut, extents.size() - cut.to.ndim(), extents, {&to, &from});
  auto task = make_strided(negated(whole, w.parities[std::size_t(f)]) ? StridedOp::subtract : StridedOp::add, own.dtype,
                           extents, to.first, to.strides, from.first, from.strides);
  task.clear_from = is_local && plan_.clears_while_reading;
  task.follows = part.follows;
  task.independent = true;
  return task;
}

StridedTask PullState::fill_task(Workspace const& w, int f, Filling const& filling) const {
  auto const& view = target_view(w, f, filling.target);
  auto const cells = target_cells(view, plan_.target_box(filling.kind, filling.target).lo(), filling.to);
  return make_strided(StridedOp::fill, view.dtype, extents_of(view, filling.to), cells.first, cells.strides, nullptr,
                      {}, filling.value);
}

std::span<StridedTask const> PullState::pack_tasks(Workspace const& w, Message& message) const {
  auto& kept = message.kept;
  if (kept.valid) {
    move_with_message(kept, message.packed, true);
    return kept.tasks;
  }
  kept.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f)
    for_transfers_of(w.shape, *message.peer, f, [&](int t) {
      kept.tasks.push_back(pack_task(w, f, message.peer->transfers[std::size_t(t)],
                                     message.packed + MessageSet::offset(w.shape, message, f, t)));
    });
  kept.packed = message.packed;
  kept.changed();
  return kept.tasks;
}

std::span<StridedTask const> PullState::unpack_tasks(Workspace const& w, Message& message) const {
  auto& kept = message.kept;
  if (kept.valid) {
    if (!message.in_place || w.shape.space == MemorySpace::device) move_with_message(kept, message.packed, false);
    return kept.tasks;
  }
  kept.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f)
    for_transfers_of(w.shape, *message.peer, f, [&](int t) { kept.tasks.push_back(arrival_task(w, f, message, t)); });
  kept.packed = message.packed;
  kept.changed();
  return kept.tasks;
}

KeptTasks& PullState::all_tasks(Workspace& w, MessageSet& set, KeptTasks& kept) const {
  bool const moved = kept.valid;
  kept.tasks.clear();
  for (auto& message : set.messages) {
    auto const tasks = &set == &w.outgoing ? pack_tasks(w, message) : unpack_tasks(w, message);
    kept.tasks.insert(kept.tasks.end(), tasks.begin(), tasks.end());
  }
  if (&set == &w.incoming && moves_with_messages(w)) {
    auto const& local = local_tasks(w).tasks;
    kept.tasks.insert(kept.tasks.end(), local.begin(), local.end());
  }
  // Where only the messages have moved, copies for their other places stay.
  if (!moved) kept.changed();
  return kept;
}

KeptTasks& PullState::local_tasks(Workspace& w) const {
  auto& kept = w.local;
  if (kept.valid) return kept;
  kept.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f) {
    int const kind = w.shape.kinds[std::size_t(f)];
    for (auto const& transfer : plan_.table.local)
      if (transfer.kind == kind) kept.tasks.push_back(local_task(w, f, transfer));
    for (auto const& filling : plan_.table.fillings)
      if (filling.kind == kind) kept.tasks.push_back(fill_task(w, f, filling));
  }
  kept.changed();
  return kept;
}

KeptTasks& PullState::addition_tasks(Workspace& w) const {
  auto& kept = w.additions;
  if (!kept.valid) {
    kept.tasks.clear();
    w.message_of_addition.clear();
    // On a device, where each launch costs as much as thousands of cells.
    bool const in_parts =
        w.shape.space == MemorySpace::device && !plan_.additions.independent && !plan_.parts_of_additions().empty();
    for (int f = 0; f < int(w.sources.size()); ++f) {
      if (w.shape.cell_bytes[std::size_t(f)] == 0) continue;
      if (in_parts) {
        for (auto const& part : plan_.parts_of_additions()) {
          auto const& addition = plan_.additions.list[std::size_t(part.addition)];
          if (addition.kind != w.shape.kinds[std::size_t(f)]) continue;
          kept.tasks.push_back(addition_task(w, f, part));
          w.message_of_addition.push_back(addition.peer_index);
        }
        continue;
      }
      for (auto const& addition : plan_.additions.list) {
        if (addition.kind != w.shape.kinds[std::size_t(f)]) continue;
        int const m = addition.peer_index;
        kept.tasks.push_back(m < 0 ? local_task(w, f, plan_.table.local[std::size_t(addition.transfer)])
                                   : arrival_task(w, f, w.incoming.messages[std::size_t(m)], addition.transfer));
        kept.tasks.back().independent = plan_.additions.independent;
        w.message_of_addition.push_back(m);
      }
    }
    for (auto& message : w.incoming.messages) message.kept.packed = message.packed;
    kept.changed();
    return kept;
  }
  for (std::size_t i = 0; i < kept.tasks.size(); ++i) {
    if (w.message_of_addition[i] < 0) continue;
    auto const& message = w.incoming.messages[std::size_t(w.message_of_addition[i])];
    if ((message.in_place && w.shape.space == MemorySpace::host) || message.packed == message.kept.packed) continue;
    kept.tasks[i].from = static_cast<std::byte const*>(kept.tasks[i].from) + (message.packed - message.kept.packed);
  }
  for (auto& message : w.incoming.messages) message.kept.packed = message.packed;
  return kept;
}

KeptTasks& PullState::zero_tasks(Workspace& w) const {
  auto& kept = w.zeros;
  if (kept.valid) return kept;
  kept.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f) {
    auto const zero = [&](int kind, int target, Box const& to) {
      if (kind == w.shape.kinds[std::size_t(f)]) kept.tasks.push_back(fill_task(w, f, {kind, target, 0, to}));
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

void PullState::find_images(Workspace& w) const {
  w.images.clear();
  w.addresses.clear();
  auto const linked = [](Message const& message) { return message.link != nullptr; };
  if (w.shape.space != MemorySpace::host ||
      std::none_of(w.outgoing.messages.begin(), w.outgoing.messages.end(), linked))
    return;
  for (int f = 0; f < int(w.sources.size()); ++f) {
    auto const& kind = plan_.kinds[std::size_t(w.shape.kinds[std::size_t(f)])];
    if (w.shape.direction == Direction::forward) {
      w.images.push_back(source_image(w, f));
      continue;
    }
    for (int t = 0; t < int(kind.targets.size()); ++t) w.images.push_back(target_image(w, f, t));
  }
  for (auto const& image : w.images) {
    auto const address = shared_address(image.view);
    if (!address) return w.addresses.clear();
    w.addresses.push_back(*address);
  }
}

void PullState::poison(Workspace& w, DeviceQueue const& queue) const {
  w.tasks.clear();
  for (int f = 0; f < int(w.sources.size()); ++f) {
    double const value = is_integer(w.sources[std::size_t(f)].dtype) ? 85 : std::nan("");
    auto const fill = [&](Transfer const& t) {
      if (t.kind == w.shape.kinds[std::size_t(f)]) w.tasks.push_back(fill_task(w, f, {t.kind, t.target, value, t.to}));
    };
    for (auto const& peer : plan_.table.receives) std::for_each(peer.transfers.begin(), peer.transfers.end(), fill);
    std::for_each(plan_.table.local.begin(), plan_.table.local.end(), fill);
  }
  run_strided(w.tasks, w.shape.space, queue);
}

}  // namespace graticule::detail
