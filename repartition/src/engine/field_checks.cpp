// SPDX-License-Identifier: BSD-3-Clause
#include "field_checks.hpp"

#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/overlap.hpp>

#include "call.hpp"
#include "segments.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace graticule::detail {

namespace {

/// What a call does with the memory of a view.
enum class Access : std::uint8_t { none, read, write };

/// True when each axis steps over all that the axes after it span: the common case, in which no two cells share memory.
bool is_nested(FieldView const& view) {
  Index span = 0;
  for (int m = view.ndim() - 1; m >= 0; --m) {
    if (view.extents[m] <= 1) continue;
    Index const stride = std::abs(view.strides[m]);
    if (stride <= span) return false;
    span += (view.extents[m] - 1) * stride;
  }
  return true;
}

/// The axes of a view whose elements share memory, in words; two of them, where two are to blame.
std::string shared_axes(FieldView const& view) {
  auto const strides = " with strides " + to_string(view.strides);
  for (int m = 0; m < view.ndim(); ++m) {
    if (view.extents[m] > 1 && view.strides[m] == 0) return detail::axis_text(m, view.ndim()) + " has stride 0";
    for (int other = 0; other < m; ++other) {
      auto two = view;
      two.extents = Indices::filled(view.ndim(), 1);
      for (int const axis : {other, m}) two.extents[axis] = view.extents[axis];
      if (shares_own_memory(two))
        return detail::axis_text(other, view.ndim()) + " and " + detail::axis_text(m, view.ndim()) + strides;
    }
  }
  return "axes" + strides;
}

void check_view(FieldView const& view, Box const& box, Access access, char const* role) {
  auto const fail = [&](std::string const& what) {
    throw Error("FieldMismatch",
                std::string(role) + " of " + to_string(view.dtype) + " " + to_string(view.extents) + ": " + what);
  };
  if (view.strides.size() != view.ndim())
    fail("a stride is needed for each of " + std::to_string(view.ndim()) + " axes, got " +
         std::to_string(view.strides.size()));
  if (view.grid_axes.size() != box.ndim())
    fail("the plan has " + std::to_string(box.ndim()) + " grid axes, got " + std::to_string(view.grid_axes.size()));
  for (int a = 0; a < box.ndim(); ++a) {
    Index const axis = view.grid_axes[a];
    if (axis < 0 || axis >= view.ndim() || std::count(view.grid_axes.begin(), view.grid_axes.end(), axis) != 1)
      fail("its grid axes must be different ones of its " + std::to_string(view.ndim()) + " axes, got " +
           to_string(view.grid_axes));
  }
  if (box.empty()) return;
  for (int a = 0; a < box.ndim(); ++a)
    if (view.extents[int(view.grid_axes[a])] != box.extent(a))
      fail(detail::axis_text(view.grid_axes[a], view.ndim()) + " has " +
           std::to_string(view.extents[int(view.grid_axes[a])]) + " cells, the plan's box " + to_string(box) + " has " +
           std::to_string(box.extent(a)));
  if (access == Access::none || view.num_batch() == 0) return;
  if (view.data == nullptr) fail("its memory is null");
  if (access != Access::write || is_nested(view) || !shares_own_memory(view)) return;
  fail(shared_axes(view) + ": its cells share memory and cannot be written");
}

}  // namespace

FieldChecks::FieldChecks(PlanContext const& plan) : plan_(plan) {
  for (auto const& kind : plan.kinds) in_place_.emplace_back(kind.targets.size());
}

void FieldChecks::check_field(PullField const& field, Direction direction) const {
  bool const forward = direction == Direction::forward;
  auto const target_access = forward || plan_.after_adjoint == AfterAdjoint::zero ? Access::write : Access::read;
  auto const source_access =
      forward ? Access::read : (field.source.data || plan_.segments ? Access::write : Access::none);
  if (field.kind < 0 || field.kind >= int(plan_.kinds.size()))
    throw Error("OutOfRange", "a field of kind " + std::to_string(detail::place_number(field.kind)) +
                                  ", the plan has " + std::to_string(plan_.kinds.size()) + " kinds");
  auto const& targets = plan_.kinds[std::size_t(field.kind)].targets;
  std::complex<double> before;
  if (plan_.segments)
    (void)conversion_of(plan_, field, direction, before);
  else if (field.update != Update{} || field.source_packing || field.target_packing || direction == Direction::inverse)
    throw Error("FieldMismatch", "factors, packings and inverses need a plan with messages in segments");
  check_view(field.source, plan_.source_box(field.kind), source_access, "source");
  if (field.targets.size() != targets.size())
    throw Error(
        "FieldMismatch",
        targets.size() == 2 && field.targets.size() == 1
            ? "a field of kind " + std::to_string(detail::place_number(field.kind)) +
                  " is one component of a vector; the field of the other component must be beside it in the call"
            : std::to_string(field.targets.size()) + " target views, the plan has " + std::to_string(targets.size()) +
                  " targets");
  for (std::size_t t = 0; t < targets.size(); ++t) {
    auto const& view = field.targets[t];
    check_view(view, targets[t].box, target_access, "target");
    if ((!plan_.segments && view.dtype != field.source.dtype) || view.dtype != field.targets[0].dtype ||
        !(view.batch_extents() == field.source.batch_extents()))
      throw Error("FieldMismatch", "source of " + to_string(field.source.dtype) + " " +
                                       to_string(field.source.extents) + ", target of " + to_string(view.dtype) + " " +
                                       to_string(view.extents) + ": types and batch axes must be equal");
    if (view.space != field.source.space)
      throw Error("FieldMismatch", "the source and the target of a field lie in different memory spaces");
  }
}

void FieldChecks::check(std::span<PullField const> fields, Direction direction) const {
  for (auto const& field : fields) {
    check_field(field, direction);
    if (field.source.space != fields.front().source.space)
      throw Error("FieldMismatch", "fields of one call lie in different memory spaces");
  }
}

void FieldChecks::check_sources(Call const& call, std::span<FieldView const> sources) const {
  if (call.shape.direction != Direction::adjoint || sources.size() != call.fields().sources.size())
    throw Error("FieldMismatch", "the call has " + std::to_string(call.fields().sources.size()) + " fields, got " +
                                     std::to_string(sources.size()) + " sources");
  for (std::size_t f = 0; f < sources.size(); ++f) {
    check_view(sources[f], plan_.source_box(call.shape.kinds[f]), Access::write, "source");
    if (sources[f].dtype != call.fields().sources[f].dtype ||
        !(sources[f].batch_extents() == call.fields().sources[f].batch_extents()) ||
        sources[f].space != call.fields().sources[f].space)
      throw Error("FieldMismatch", "a source of " + to_string(sources[f].dtype) + " " + to_string(sources[f].extents) +
                                       ", the adjoint was started with " + to_string(call.fields().sources[f].dtype) +
                                       " " + to_string(call.fields().sources[f].extents));
  }
  std::array<PullField, 16> few;
  std::vector<PullField> many(sources.size() > few.size() ? sources.size() : 0);
  auto const fields = sources.size() > few.size() ? std::span(many) : std::span(few).first(sources.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& kind = plan_.kinds[std::size_t(call.shape.kinds[f])];
    fields[f].source = sources[f];
    fields[f].targets = std::span(call.fields().targets).subspan(call.fields().first_target[f], kind.targets.size());
    fields[f].kind = call.shape.kinds[f];
  }
  (void)check_apart(fields, Direction::adjoint);
}

}  // namespace graticule::detail
