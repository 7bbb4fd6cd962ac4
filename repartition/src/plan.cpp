// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/hash.hpp>
#include <graticule/repartition/plan.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <string>

namespace graticule {

struct RepartitionPlan::Described {
  Box source_box;
  Box target_box;
  Box numbers;
  std::optional<Selection> to;
  PullDescription pull;
};

namespace {

Indices or_identity(Indices const& permutation, int ndim) {
  if (permutation.size() != 0) return permutation;
  Indices identity;
  for (int a = 0; a < ndim; ++a) identity.push_back(a);
  return identity;
}

void check_selection(Selection const& selection, Box const& global, char const* which) {
  auto const fail = [&](std::string const& why) {
    throw Error("BadSelection", std::string("cells of the ") + which + " grid: " + to_string(selection) + ": " + why);
  };
  if (selection.first.size() != global.ndim() || selection.step.size() != global.ndim() ||
      selection.extents.size() != global.ndim())
    fail("the grid has " + std::to_string(global.ndim()) + " axes");
  bool empty = false;
  for (int a = 0; a < global.ndim(); ++a) {
    if (selection.step[a] == 0) fail("step 0 on axis " + std::to_string(a));
    constexpr Index longest = std::numeric_limits<int>::max();
    if (selection.step[a] > longest || selection.step[a] < -longest)
      fail("step " + std::to_string(selection.step[a]) + " on axis " + std::to_string(a));
    if (selection.extents[a] < 0) fail("fewer than no cells on axis " + std::to_string(a));
    empty = empty || selection.extents[a] == 0;
  }
  for (int a = 0; !empty && a < global.ndim(); ++a) {
    Index last = 0;
    if (__builtin_mul_overflow(selection.extents[a] - 1, selection.step[a], &last) ||
        __builtin_add_overflow(last, selection.first[a], &last) || last < global.lo(a) || last >= global.hi(a) ||
        selection.first[a] < global.lo(a) || selection.first[a] >= global.hi(a))
      fail("axis " + std::to_string(a) + " leaves the grid " + to_string(global));
  }
}

IndexMap selection_map(Selection const& from, Indices const& permutation) {
  AxisMaps maps{};
  for (int a = 0; a < permutation.size(); ++a) {
    int const axis = int(permutation[a]);
    maps[std::size_t(a)] = {axis, int(from.step[axis]), from.first[axis]};
  }
  return [maps](Box const& needed) { return std::vector<Piece>{{needed, maps}}; };
}

void add(Hash& hash, Selection const& selection) {
  hash.add(selection.first).add(selection.step).add(selection.extents);
}

/// The new grid, whose axis `a` is axis `permutation[a]` of the old one.
Box permuted_box(Box const& global, Indices const& permutation) {
  auto extents = permutation;
  for (int a = 0; a < permutation.size(); ++a) extents[a] = global.extent(int(permutation[a]));
  return Box::from_extents(extents);
}

}  // namespace

namespace {

/// Either side of a plan as the caller gave it.
struct Sides {
  Layout const& from;
  Layout const* to;  ///< null: `target` is this rank's own
  Box target;
};

std::string cells_text(Index count, std::string const& grid, std::optional<Selection> const& selection) {
  return " of the " + grid + " grid has " + std::to_string(count) + (selection ? " selected cells" : " cells");
}

/// How to mend a selection of cells for one grid only.
std::string advice(Sides const& sides, RepartitionOptions const& options) {
  if (options.from.has_value() == options.to.has_value()) return "";
  if (options.to) return "; `from` selects the cells of the old grid that become them";
  // Without a layout nobody has said how large the new grid is.
  return std::string("; `to` selects the cells that they become") +
         (sides.to ? "" : ", in a new grid which for a target box is the old one with its axes permuted");
}

PullDescription describe(Comm const& comm, Sides const& sides, RepartitionOptions const& options, Box& numbers) {
  auto const& from = sides.from;
  Indices const permutation = or_identity(options.permutation, from.ndim());
  int const target_ndim = sides.to ? sides.to->ndim() : sides.target.ndim();
  if (target_ndim != from.ndim() || permutation.size() != from.ndim())
    throw Error("LayoutMismatch", "from " + to_string(from) + " to " + std::to_string(target_ndim) +
                                      " axes with axes " + to_string(permutation));
  (void)permutation_map(permutation);
  Box const grid = sides.to ? sides.to->global() : permuted_box(from.global(), permutation);
  auto const read = options.from.value_or(all_of(from.global()));
  auto const to = options.to.value_or(all_of(grid));
  check_selection(read, from.global(), "old");
  if (sides.to || options.to) check_selection(to, grid, "new");
  for (int a = 0; a < from.ndim(); ++a)
    if (Index const num_read = read.extents[int(permutation[a])]; to.extents[a] != num_read)
      throw Error("LayoutMismatch", "axis " + std::to_string(a) + cells_text(to.extents[a], "new", options.to) +
                                        ", axis " + std::to_string(permutation[a]) +
                                        cells_text(num_read, "old", options.from) + advice(sides, options));
  for (auto const* layout : {&from, sides.to})
    if (layout && layout->num_ranks() > comm.num_ranks())
      throw Error("TooFewRanks", "a layout of " + std::to_string(layout->num_ranks()) + " ranks on " +
                                     std::to_string(comm.num_ranks()));
  numbers = numbers_in(to, sides.target);
  if (!sides.to && !options.to && !sides.target.empty() && !grid.contains(sides.target))
    throw Error("LayoutMismatch", "the target " + to_string(sides.target) + " leaves the grid " + to_string(grid));
  Hash hash;
  hash.add(sides.to ? sides.to->fingerprint() : 0).add(permutation);
  if (options.from) add(hash, read);
  if (options.to) add(hash, to);
  return {.source = from,
          .kinds = {{from.owned(comm.rank()), {Target{numbers, {numbers}}}, selection_map(read, permutation)}},
          .fingerprint = hash.value(),
          .after_adjoint = AfterAdjoint::keep,
          .messages = Messages::segments,
          .workspace_bytes = options.workspace_bytes};
}

}  // namespace

namespace {

template <class Described>
Described described(Comm const& comm, Layout const& from, Layout const* to, Box const* target,
                    RepartitionOptions const& options) {
  Described result{{}, {}, {}, {}, {.source = from, .kinds = {}}};
  run_agreed(comm, [&] {
    result.source_box = from.owned(comm.rank());
    result.target_box = to ? to->owned(comm.rank()) : *target;
    result.pull = describe(comm, {from, to, result.target_box}, options, result.numbers);
    result.to = options.to;
  });
  return result;
}

}  // namespace

RepartitionPlan::RepartitionPlan(Comm const& comm, Layout const& from, Layout const& to,
                                 RepartitionOptions const& options)
    : RepartitionPlan(comm, described<Described>(comm, from, &to, nullptr, options)) {}

RepartitionPlan::RepartitionPlan(Comm const& comm, Layout const& from, Box const& target,
                                 RepartitionOptions const& options)
    : RepartitionPlan(comm, described<Described>(comm, from, nullptr, &target, options)) {}

RepartitionPlan::RepartitionPlan(Comm const& comm, Described const& described)
    : source_box_(described.source_box),
      target_box_(described.target_box),
      numbers_(described.numbers),
      to_(described.to),
      plan_(comm, described.pull) {}

FieldView RepartitionPlan::selected(FieldView const& to) const {
  if (!to_ || to.grid_axes.size() != numbers_.ndim() || to.strides.size() != to.ndim() || target_box_.empty())
    return to;
  FieldView result = to;
  Index offset = 0;
  for (int a = 0; a < numbers_.ndim(); ++a) {
    Index const axis = to.grid_axes[a];
    // What does not fit is refused by the plan, which sees that axes are missing; so the peers are told.
    if (axis < 0 || axis >= to.ndim() || to.extents[int(axis)] != target_box_.extent(a)) {
      result.grid_axes = {};
      return result;
    }
    auto const m = int(axis);
    if (!numbers_.empty())
      offset += (to_->first[a] + numbers_.lo(a) * to_->step[a] - target_box_.lo(a)) * to.strides[m];
    result.extents[m] = numbers_.extent(a);
    // The step to a cell that there is not may be of any size.
    if (numbers_.extent(a) > 1) result.strides[m] = to.strides[m] * to_->step[a];
  }
  if (result.data) result.data = static_cast<std::byte*>(to.data) + offset * size_of(to.dtype);
  return result;
}

PullField RepartitionPlan::pulled(RepartitionField const& field, FieldView& target) const {
  target = selected(field.to);
  return {.source = field.from,
          .targets = std::span(&target, 1),
          .update = field.update,
          .source_packing = field.from_packing,
          .target_packing = field.to_packing};
}

template <class Call>
auto RepartitionPlan::with_fields(std::span<RepartitionField const> fields, Call&& call) const {
  try {
    // Few fields find room here, so that steady calls allocate nothing.
    constexpr std::size_t few = 8;
    std::array<FieldView, few> few_targets;
    std::array<PullField, few> few_fields;
    std::vector<FieldView> many_targets(fields.size() > few ? fields.size() : 0);
    std::vector<PullField> many_fields(many_targets.size());
    auto const targets = fields.size() > few ? std::span(many_targets) : std::span(few_targets).first(fields.size());
    auto const all = fields.size() > few ? std::span(many_fields) : std::span(few_fields).first(fields.size());
    for (std::size_t f = 0; f < fields.size(); ++f) all[f] = pulled(fields[f], targets[f]);
    return call(std::span<PullField const>(all));
  } catch (Error const& error) {
    for (auto const& field : fields)
      if (error.rule() == "FieldMismatch" && selected(field.to).grid_axes != field.to.grid_axes)
        throw Error("FieldMismatch", "target of " + to_string(field.to.dtype) + " " + to_string(field.to.extents) +
                                         ", which does not cover " + to_string(target_box_));
    throw;
  }
}

Pending RepartitionPlan::start(std::span<RepartitionField const> fields) const {
  return with_fields(fields, [&](auto pulled) { return plan_.start(pulled); });
}

void RepartitionPlan::apply(std::span<RepartitionField const> fields) const {
  with_fields(fields, [&](auto pulled) { plan_.apply(pulled); });
}

Pending RepartitionPlan::start_adjoint(std::span<RepartitionField const> fields) const {
  return with_fields(fields, [&](auto pulled) { return plan_.start_adjoint(pulled); });
}

void RepartitionPlan::apply_adjoint(std::span<RepartitionField const> fields) const {
  with_fields(fields, [&](auto pulled) { plan_.apply_adjoint(pulled); });
}

Pending RepartitionPlan::start_inverse(std::span<RepartitionField const> fields) const {
  return with_fields(fields, [&](auto pulled) { return plan_.start_inverse(pulled); });
}

void RepartitionPlan::apply_inverse(std::span<RepartitionField const> fields) const {
  with_fields(fields, [&](auto pulled) { plan_.apply_inverse(pulled); });
}

TuningRecord RepartitionPlan::tune(std::span<RepartitionField const> fields, int num_calls) {
  return with_fields(fields, [&](auto pulled) { return graticule::tune(plan_, pulled, num_calls); });
}

Pending RepartitionPlan::start(FieldView const& from, FieldView const& to, Update const& update) const {
  RepartitionField const field{from, to, update};
  return start(std::span(&field, 1));
}

void RepartitionPlan::apply(FieldView const& from, FieldView const& to, Update const& update) const {
  RepartitionField const field{from, to, update};
  apply(std::span(&field, 1));
}

Pending RepartitionPlan::start_adjoint(FieldView const& from, FieldView const& to, Update const& update) const {
  RepartitionField const field{from, to, update};
  return start_adjoint(std::span(&field, 1));
}

void RepartitionPlan::apply_adjoint(FieldView const& from, FieldView const& to, Update const& update) const {
  RepartitionField const field{from, to, update};
  apply_adjoint(std::span(&field, 1));
}

Pending RepartitionPlan::start_inverse(FieldView const& from, FieldView const& to, Update const& update) const {
  RepartitionField const field{from, to, update};
  return start_inverse(std::span(&field, 1));
}

void RepartitionPlan::apply_inverse(FieldView const& from, FieldView const& to, Update const& update) const {
  RepartitionField const field{from, to, update};
  apply_inverse(std::span(&field, 1));
}

}  // namespace graticule
