// SPDX-License-Identifier: BSD-3-Clause
#include "segment_cells.hpp"

#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/row_major.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace graticule::detail {

namespace {

/// A processor's cache holds a block of this size several times over.
constexpr std::size_t local_block_bytes = std::size_t(256) << 10U;

void set_segment_field(PlanContext const& plan, SegmentField& result, PullField const& field, Direction direction) {
  auto const& kind = plan.kinds[std::size_t(field.kind)];
  result.kind = field.kind;
  result.parity = field.parity;
  result.source = {field.source, kind.source_box.lo()};
  result.targets.resize(field.targets.size());
  for (std::size_t t = 0; t < field.targets.size(); ++t)
    result.targets[t] = {field.targets[t], kind.targets[t].box.lo()};
  result.conversion = conversion_of(plan, field, direction, result.before);
  result.rounds = rounds(plan, field, direction);
}

}  // namespace

Conversion conversion_of(PlanContext const& plan, PullField const& field, Direction direction,
                         std::complex<double>& before) {
  StoredAs const source{field.source.dtype, field.source_packing};
  StoredAs const target{field.targets.empty() ? field.source.dtype : field.targets[0].dtype, field.target_packing};
  before = 1;
  if (direction == Direction::forward) return conversion(source, target, field.update);
  if (direction == Direction::inverse) {
    // Found at the first inverse: other calls do without it.
    auto& images = plan.segments->last_images;
    if (!plan.additions.independent && !images) images = last_images(plan.table, plan.comm.rank());
    if (images && !images->are_exact && field.update.beta.value_or(0) != 0.0)
      throw Error("Conversion", "beta must be 0 in an inverse whose cells have images by several maps");
    return conversion(target, source, field.update);
  }
  if (source.packing || target.packing) throw Error("Conversion", "fields of packed integers have no adjoint");
  auto update = adjoint_of(field.update);
  (void)conversion(target, source, update);
  // Where several terms meet in a cell, or none, the factor is applied to all owned cells before the terms are added;
  // so that the bits do not depend on where the grid is cut, a factor that rounds is applied first everywhere.
  if (!plan.additions.cover_owned || (update.beta != 0.0 && update.beta != 1.0))
    before = std::exchange(update.beta, 1.0).value();
  return conversion(target, source, update);
}

bool rounds(PlanContext const& plan, PullField const& field, Direction direction) noexcept {
  if (!plan.segments || field.targets.empty()) return false;
  bool const forward = direction == Direction::forward;
  auto const& written = forward ? field.targets[0].dtype : field.source.dtype;
  // Without factors and packings, integers become the same or wider ones.
  return is_integer(written) && (field.update != Update{} || field.source_packing || field.target_packing);
}

void SegmentCells::set_fields(std::span<PullField const> fields) {
  fields_.resize(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f)
    set_segment_field(plan_, fields_[f], fields[f], call_.shape.direction);
}

void SegmentCells::set_known_fields() {
  auto const& known = call_.fields();
  std::vector<PullField> fields;
  for (int f = 0; f < known.count(); ++f)
    fields.push_back({known.source(f), std::span(&known.target(f, 0), 1), known.parity(f), call_.kind(f)});
  set_fields(fields);
}

void SegmentCells::begin() {
  large_ = false;
  if (!rounds()) return;
  if (num_unfit_ < fields_.size()) {
    unfit_ = Buffer(fields_.size() * sizeof(Unfit), on_device() ? Buffer::Kind::pinned : Buffer::Kind::host);
    num_unfit_ = fields_.size();
  }
  for (std::size_t f = 0; f < fields_.size(); ++f) *(reinterpret_cast<Unfit*>(unfit_.data()) + f) = {};
}

void SegmentCells::describe() {
  message_fields_.clear();
  local_fields_.clear();
  for (auto const& field : fields_) {
    auto const& view = field.source.view;
    message_fields_.push_back({field.kind, view.batch_extents(), size_of(field.conversion.wire)});
    local_fields_.push_back({field.kind, view.batch_extents(), size_of(view.dtype)});
  }
}

bool SegmentCells::overwrites() const {
  return std::all_of(fields_.begin(), fields_.end(), [](SegmentField const& field) {
    auto const& beta = field.conversion.direct.beta;
    return beta[0] == 0 && beta[1] == 0;
  });
}

bool SegmentCells::rounds() const noexcept {
  return std::any_of(fields_.begin(), fields_.end(), [](SegmentField const& field) { return field.rounds; });
}

Unfit* SegmentCells::unfit_of(SegmentField const& field) const noexcept {
  return field.rounds ? reinterpret_cast<Unfit*>(unfit_.data()) + (&field - fields_.data()) : nullptr;
}

void SegmentCells::agree_on_rounding() {
  if (on_device()) fence();
  std::exception_ptr failure;
  for (std::size_t f = 0; f < fields_.size() && !failure; ++f) {
    auto const* const numbers = unfit_of(fields_[f]);
    if (numbers == nullptr || !numbers->any()) continue;
    auto const& written = forward() ? fields_[f].targets[0].view : fields_[f].source.view;
    failure = std::make_exception_ptr(
        Error("Conversion", "field " + std::to_string(place_number(Index(f))) + ": " +
                                text_of(*numbers, written.dtype, fields_[f].conversion.direct.to)));
  }
  agree(plan_.comm, failure);
}

std::size_t SegmentCells::begin_local(bool at_once) {
  local_.reset(plan_.table.local, local_fields_, at_once ? std::numeric_limits<Index>::max() : local_block_bytes);
  return count_segments(local_, local_block_bytes).bytes;
}

void SegmentCells::note_written(std::size_t bytes) { large_ = Index(bytes) >= least_streamed_bytes; }

std::size_t SegmentCells::take(BlockCursor& cursor) { return cursor.take_segment(rules_.segment_bytes, blocks_); }

void SegmentCells::take_rest(BlockCursor& cursor) {
  (void)cursor.take_segment(std::numeric_limits<std::size_t>::max() / 2, blocks_);
}

void SegmentCells::scale_before() {
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
  run(device_tasks_);
}

std::span<StridedTask const> SegmentCells::tasks_to_pack(PeerTransfers const& peer, std::byte* packed,
                                                         bool past_cache) {
  tasks_.clear();
  for (auto const& block : blocks_) {
    auto const& field = fields_[std::size_t(block.field)];
    auto const& transfer = peer.transfers[std::size_t(block.transfer)];
    Elements const to{packed + block.offset, field.conversion.wire, {}};
    tasks_.push_back(task(field, transfer, block, to, cells(read(field, transfer.target), transfer, forward()),
                          field.conversion.pack));
    tasks_.back().streams = past_cache;
  }
  return tasks_;
}

std::span<StridedTask const> SegmentCells::tasks_to_unpack(PeerTransfers const& peer, std::byte const* packed) {
  tasks_.clear();
  for (auto const& block : blocks_) {
    auto const& field = fields_[std::size_t(block.field)];
    auto const& transfer = peer.transfers[std::size_t(block.transfer)];
    Elements const from{const_cast<std::byte*>(packed) + block.offset, field.conversion.wire, {}};
    add_task(block, transfer, from, field.conversion.arrive, parts_of(&peer, block.transfer));
  }
  return tasks_;
}

std::span<StridedTask const> SegmentCells::local_tasks(Index& bytes) {
  tasks_.clear();
  bytes = 0;
  (void)begin_local(true);
  for (; !local_.done(); local_.advance()) {
    add_local_task();
    bytes += Index(local_.bytes());
  }
  return tasks_;
}

void SegmentCells::pack(PeerTransfers const& peer, std::byte* packed, SegmentPath* path, std::size_t bytes) {
  if (!path || !large_ || on_device()) {
    (void)tasks_to_pack(peer, packed, false);
    return run(device_tasks_);
  }
  double const begin = MPI_Wtime();
  path->begin_segment();
  (void)tasks_to_pack(peer, packed, path->past_cache());
  run(device_tasks_);
  path->end_segment(bytes, MPI_Wtime() - begin);
}

void SegmentCells::unpack(PeerTransfers const& peer, std::byte const* packed) {
  (void)tasks_to_unpack(peer, packed);
  run(device_tasks_);
  // The memory that was read is given back next.
  if (on_device()) fence();
}

void SegmentCells::take_in_place(PeerTransfers const& peer, std::vector<Image> const& images) {
  tasks_.clear();
  for (auto const& block : blocks_) {
    auto const& field = fields_[std::size_t(block.field)];
    auto const& transfer = peer.transfers[std::size_t(block.transfer)];
    std::size_t place = 0;
    for (int f = 0; f < block.field; ++f) place += forward() ? 1 : fields_[std::size_t(f)].targets.size();
    auto const& image = images[place + (forward() ? 0 : std::size_t(transfer.target))];
    add_task(block, transfer, cells(image, transfer, forward()), field.conversion.direct,
             parts_of(&peer, block.transfer));
  }
  run(device_tasks_);
}

void SegmentCells::add_local_task() {
  auto const& block = local_.block();
  auto const& field = fields_[std::size_t(block.field)];
  auto const& transfer = plan_.table.local[std::size_t(block.transfer)];
  add_task(block, transfer, cells(read(field, transfer.target), transfer, forward()), field.conversion.direct,
           parts_of(nullptr, block.transfer));
}

bool SegmentCells::move_local() {
  if (local_.done()) return false;
  tasks_.clear();
  add_local_task();
  run(local_tasks_);
  call_.stats.local_bytes += Index(local_.bytes());
  local_.advance();
  return true;
}

std::vector<Box> const* SegmentCells::parts_of(PeerTransfers const* peer, int transfer) const {
  if (call_.shape.direction != Direction::inverse || !rules_.last_images) return nullptr;
  auto const& images = *rules_.last_images;
  auto const& all = peer ? images.sends[std::size_t(peer - plan_.table.sends.data())] : images.local;
  return &all[std::size_t(transfer)];
}

void SegmentCells::add_task(Block const& block, Transfer const& transfer, Elements from, Transform const& transform,
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

Image const& SegmentCells::written(SegmentField const& field, int target) const {
  return forward() ? field.targets[std::size_t(target)] : field.source;
}

Image const& SegmentCells::read(SegmentField const& field, int target) const {
  return forward() ? field.source : field.targets[std::size_t(target)];
}

Elements SegmentCells::cells(Image const& image, Transfer const& transfer, bool of_source) const {
  return of_source ? source_cells(image.view, image.cover_lo, transfer)
                   : target_cells(image.view, image.cover_lo, transfer.to);
}

StridedTask SegmentCells::task(SegmentField const& field, Transfer const& transfer, Block const& block, Elements to,
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
  result.streams = large_ && &transform != &field.conversion.pack;
  result.independent = forward() || plan_.additions.independent;
  return result;
}

void SegmentCells::fence() {
  detail::fence(call_.queue);
  device_tasks_.completed();
  local_tasks_.completed();
}

void SegmentCells::run(DeviceTasks& tasks) {
  if (!on_device()) return run_strided_host(tasks_);
  tasks.set(tasks_, call_.queue);
  tasks.run(call_.queue);
}

}  // namespace graticule::detail
