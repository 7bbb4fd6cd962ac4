// SPDX-License-Identifier: BSD-3-Clause
// Fields of calls whose messages travel in segments: how their values are converted and rounded.
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/speech.hpp>

#include "segments.hpp"

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

bool rounds(PlanContext const& plan, PullField const& field, Direction direction) noexcept {
  if (!plan.segments || field.targets.empty()) return false;
  bool const forward = direction == Direction::forward;
  auto const& written = forward ? field.targets[0].dtype : field.source.dtype;
  // Without factors and packings, integers become the same or wider ones.
  return is_integer(written) && (field.update != Update{} || field.source_packing || field.target_packing);
}

void Segments::agree_on_rounding() {
  std::exception_ptr failure;
  for (std::size_t f = 0; f < fields_.size() && !failure; ++f) {
    auto const numbers = unfit(int(f));
    if (!numbers.any()) continue;
    auto const& written = forward() ? fields_[f].targets[0].view : fields_[f].source.view;
    failure = std::make_exception_ptr(
        Error("Conversion", "field " + std::to_string(place_number(Index(f))) + ": " +
                                text_of(numbers, written.dtype, fields_[f].conversion.direct.to)));
  }
  agree(plan_.comm, failure);
}

}  // namespace graticule::detail
