// SPDX-License-Identifier: BSD-3-Clause
// Calls of plans whose messages travel in segments: their order, their buffers and their end.
#include "pull_state.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace graticule::detail {

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
      throw Error("Conversion", "beta of an inverse whose cells have images by several maps");
    return conversion(target, source, field.update);
  }
  if (source.packing || target.packing) throw Error("Conversion", "adjoints of packed integers");
  auto update = adjoint_of(field.update);
  (void)conversion(target, source, update);
  // Where several terms meet in a cell, or none, the factor is applied to all owned cells before the terms are added;
  // so that the bits do not depend on where the grid is cut, a factor that rounds is applied first everywhere.
  if (!plan.additions.cover_owned || (update.beta != 0.0 && update.beta != 1.0))
    before = std::exchange(update.beta, 1.0).value();
  return conversion(target, source, update);
}

void set_stream_field(PlanContext const& plan, StreamField& result, PullField const& field, Direction direction) {
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

bool rounds(PlanContext const& plan, PullField const& field, Direction direction) noexcept {
  if (!plan.segments || field.targets.empty()) return false;
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
  agree(plan_.comm, failure);
}

void PullState::start_stream(Workspace& w, std::span<PullField const> fields, DeviceQueue const& queue,
                             Posting posting) const {
  auto& stream = *w.stream;
  stream.fields().resize(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f)
    set_stream_field(plan_, stream.fields()[f], fields[f], w.shape.direction);
  stream.begin(plan_.segments->budget > 0 ? Posting::window : posting, w.fields_hash, w.call, queue);
  ++stats_.num_calls;
  queue_stream(w);
}

void PullState::queue_stream(Workspace& w) const {
  auto const posted = [](Workspace const* other) { return other->stream->all_posted(); };
  bool const may_post = plan_.segments->budget == 0 && std::all_of(streams_.begin(), streams_.end(), posted);
  streams_.push_back(&w);
  if (!may_post) return;
  w.stream->open();
  w.stream->post(stats_);
}

bool PullState::advance_streams() const {
  if (streams_.empty()) return false;
  auto& oldest = *streams_.front();
  if (!oldest.stream->opened() && plan_.segments->budget > 0)
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
    Patience patience(plan_.comm, describe);
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
