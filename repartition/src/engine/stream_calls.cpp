// SPDX-License-Identifier: BSD-3-Clause
// Calls of plans whose messages travel in segments: their order, their buffers and their end.
#include "kernels/kokkos_compat.hpp"
#include "pull_state.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace graticule::detail {

namespace {

/// Slots of a message: while one is read, the other is packed.
constexpr int window = 2;
/// A segment that is packed by one thread stays in its cache until the peer has read it.
constexpr Index segment_bytes_per_thread = Index(256) << 10U;
constexpr Index least_segment_bytes = 256;
/// What a slot needs beside its segment: the trailer, rounded up to cache lines.
constexpr Index slot_extra = 128;

}  // namespace

StreamPlan PullState::make_stream_plan(PullDescription const& d) const {
  if (after_adjoint_ != AfterAdjoint::keep)
    throw Error("Unsupported", "adjoints of plans with messages in segments do not clear their input");
  Index const slots = window * Index(table_.sends.size() + table_.receives.size());
  Index segment = segment_bytes_per_thread * std::max(1, Kokkos::is_initialized() ? host_concurrency() : 1);
  run_agreed(comm_, [&] {
    Index const least = slots * (least_segment_bytes + slot_extra);
    if (d.workspace_bytes < 0 || (d.workspace_bytes > 0 && d.workspace_bytes < least))
      throw Error("BudgetTooSmall", std::to_string(d.workspace_bytes) + " bytes for buffers of messages with " +
                                        std::to_string(table_.sends.size() + table_.receives.size()) +
                                        " peers; the least is " + std::to_string(least));
  });
  if (d.workspace_bytes > 0 && slots > 0)
    segment = std::min(segment, (d.workspace_bytes / slots - slot_extra) / 64 * 64);
  // The least of all ranks: both sides of a message cut it alike.
  Index negative = -segment;
  comm_.max(std::span(&negative, 1));
  return {.comm = comm_,
          .table = table_,
          .links = *links_,
          .tag = tag_,
          .name = name_,
          .segment_bytes = std::size_t(-negative),
          .window = window,
          .budget = d.workspace_bytes,
          .owned = owned_,
          .peers_read_device = peers_read_device_,
          .ordered_sums = !additions_are_independent_};
}

Conversion PullState::conversion_of(PullField const& field, Direction direction, std::complex<double>& before) const {
  StoredAs const source{field.source.dtype, field.source_packing};
  StoredAs const target{field.targets.empty() ? field.source.dtype : field.targets[0].dtype, field.target_packing};
  before = 1;
  if (direction == Direction::forward) return conversion(source, target, field.update);
  if (direction == Direction::inverse) {
    // Found at the first inverse: other calls do without it.
    auto& images = stream_plan_->last_images;
    if (!additions_are_independent_ && !images) images = last_images(table_, comm_.rank());
    if (images && !images->are_exact && field.update.beta.value_or(0) != 0.0)
      throw Error("Conversion", "beta of an inverse whose cells have images by several maps");
    return conversion(target, source, field.update);
  }
  if (source.packing || target.packing) throw Error("Conversion", "adjoints of packed integers");
  auto update = adjoint_of(field.update);
  (void)conversion(target, source, update);
  // Where several terms meet in a cell, or none, the factor is applied to all owned cells before the terms are added;
  // so that the bits do not depend on where the grid is cut, a factor that rounds is applied first everywhere.
  if (!additions_cover_owned_ || (update.beta != 0.0 && update.beta != 1.0))
    before = std::exchange(update.beta, 1.0).value();
  return conversion(target, source, update);
}

void PullState::set_stream_field(StreamField& result, PullField const& field, Direction direction) const {
  auto const& kind = kinds_[std::size_t(field.kind)];
  result.kind = field.kind;
  result.parity = field.parity;
  result.source = {field.source, kind.source_box.lo()};
  result.targets.resize(field.targets.size());
  for (std::size_t t = 0; t < field.targets.size(); ++t)
    result.targets[t] = {field.targets[t], kind.targets[t].box.lo()};
  result.conversion = conversion_of(field, direction, result.before);
  result.rounds = rounds(field, direction);
}

bool PullState::rounds(PullField const& field, Direction direction) const noexcept {
  if (!stream_plan_ || field.targets.empty()) return false;
  bool const forward = direction == Direction::forward;
  auto const& written = forward ? field.targets[0].dtype : field.source.dtype;
  // Without factors and packings, integers become the same or wider ones.
  return is_integer(written) && (field.update != Update{} || field.source_packing || field.target_packing);
}

void PullState::agree_on_rounding(Workspace const& w) const {
  std::exception_ptr failure;
  auto const& fields = w.stream->fields();
  for (std::size_t f = 0; f < fields.size() && !failure; ++f) {
    auto const unfit = w.stream->unfit(int(f));
    if (!unfit.any()) continue;
    bool const forward = w.shape.direction == Direction::forward;
    auto const& written = forward ? fields[f].targets[0].view : fields[f].source.view;
    failure =
        std::make_exception_ptr(Error("Conversion", "field " + std::to_string(f) + ": " +
                                                        text_of(unfit, written.dtype, fields[f].conversion.direct.to)));
  }
  agree(comm_, failure);
}

void PullState::start_stream(Workspace& w, std::span<PullField const> fields, DeviceQueue const& queue,
                             Posting posting) const {
  auto& stream = *w.stream;
  stream.fields().resize(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) set_stream_field(stream.fields()[f], fields[f], w.shape.direction);
  stream.begin(stream_plan_->budget > 0 ? Posting::window : posting, w.fields_hash, w.call, queue);
  ++stats_.num_calls;
  queue_stream(w);
}

void PullState::queue_stream(Workspace& w) const {
  auto const posted = [](Workspace const* other) { return other->stream->all_posted(); };
  bool const may_post = stream_plan_->budget == 0 && std::all_of(streams_.begin(), streams_.end(), posted);
  streams_.push_back(&w);
  if (!may_post) return;
  w.stream->open();
  w.stream->post(stats_);
}

bool PullState::advance_streams() const {
  if (streams_.empty()) return false;
  auto& oldest = *streams_.front();
  if (!oldest.stream->opened() && stream_plan_->budget > 0)
    for (auto const& workspace : workspaces_) {
      if (!workspace->stream || is_under_way(*workspace)) continue;
      // Peers that have refused a call may not have taken what they were sent.
      if (!workspace->stream->has_free_buffers()) return false;
      workspace->stream->release_buffers();
    }
  bool moved = oldest.stream->advance(stats_);
  if (!oldest.stream->done()) return moved;
  streams_.erase(streams_.begin());
  if (oldest.shape.refused) oldest.busy = false;
  return true;
}

bool PullState::is_under_way(Workspace const& w) const noexcept {
  return std::find(streams_.begin(), streams_.end(), &w) != streams_.end();
}

void PullState::finish_stream(Workspace& w) const {
  double begin = MPI_Wtime();
  double waited = 0;
  std::function<std::string()> const describe = [this] {
    return streams_.empty() ? std::string() : streams_.front()->stream->describe();
  };
  while (is_under_way(w)) {
    if (advance_streams()) continue;
    double const idle = MPI_Wtime();
    Patience patience(comm_, describe);
    do patience.pause();
    while (!advance_streams());
    waited += MPI_Wtime() - idle;
  }
  stats_.wait_seconds += waited;
  stats_.unpack_seconds += MPI_Wtime() - begin - waited;
  w.busy = false;
  w.stream->wait_for_readers();
  if (w.shape.space == MemorySpace::device && !w.queue.instance()) w.fence();
  if (w.stream->rounds()) agree_on_rounding(w);
  if (!w.stream->failure().empty()) throw Error(w.stream->failed_rule(), w.stream->failure());
}

}  // namespace graticule::detail
