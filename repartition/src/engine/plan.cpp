// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/numbers_in.hpp>
#include <graticule/repartition/detail/permutation_map.hpp>
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/plan_name.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>

namespace graticule {

struct RepartitionPlan::Described {
  Box source_box;
  std::vector<Box> target_boxes;
  std::vector<Box> numbers;
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
    if (selection.step[a] == 0) fail("a step must not be 0, got it on " + detail::axis_text(a, global.ndim()));
    constexpr Index longest = std::numeric_limits<int>::max();
    if (selection.step[a] > longest || selection.step[a] < -longest)
      fail("the step on " + detail::axis_text(a, global.ndim()) + " must be shorter than 2^31, got " +
           std::to_string(selection.step[a]));
    if (selection.extents[a] < 0)
      fail("extents must not be negative, got one on " + detail::axis_text(a, global.ndim()));
    empty = empty || selection.extents[a] == 0;
  }
  for (int a = 0; !empty && a < global.ndim(); ++a) {
    Index last = 0;
    if (__builtin_mul_overflow(selection.extents[a] - 1, selection.step[a], &last) ||
        __builtin_add_overflow(last, selection.first[a], &last) || last < global.lo(a) || last >= global.hi(a) ||
        selection.first[a] < global.lo(a) || selection.first[a] >= global.hi(a))
      fail(detail::axis_text(a, global.ndim()) + " leaves the grid " + to_string(global));
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
  Layout const* to;  ///< null: the targets are this rank's own
  std::vector<Box> const& targets;
  std::size_t num_targets;  ///< of the rank that has most
};

std::string cells_text(Index count, std::string const& grid, std::optional<Selection> const& selection) {
  return " of the " + grid + " grid has " + std::to_string(count) + (selection ? " selected cells" : " cells");
}

/// How to mend a selection of cells for one grid only.
std::string advice(Sides const& sides, RepartitionOptions const& options) {
  if (options.from.has_value() == options.to.has_value()) return "";
  if (options.to)
    return std::string("; `from` selects the cells of the old grid that become them") +
           (sides.to ? "" : ", in a new grid which for target boxes is the old one with its axes permuted");
  return "; `to` selects the cells that they become";
}

/// The grid of target boxes: of the selected cells alone, numbered from 0, unless `to` says what they become.
Box grid_of_targets(Layout const& from, RepartitionOptions const& options, Indices const& permutation) {
  if (options.to || !options.from) return permuted_box(from.global(), permutation);
  return permuted_box(Box::from_extents(options.from->extents), permutation);
}

PullDescription describe(Comm const& comm, Sides const& sides, RepartitionOptions const& options,
                         std::vector<Box>& numbers) {
  auto const& from = sides.from;
  Indices const permutation = or_identity(options.permutation, from.ndim());
  for (auto const& target : sides.targets)
    if (target.ndim() != from.ndim() || permutation.size() != from.ndim())
      throw Error("LayoutMismatch", to_string(from) + " cannot move to a layout of " + std::to_string(target.ndim()) +
                                        " axes in the order " + detail::axes_text(permutation, permutation.size()));
  (void)detail::permutation_map(permutation);
  auto const read = options.from.value_or(Selection::all(from.global()));
  check_selection(read, from.global(), "old");
  Box const grid = sides.to ? sides.to->global() : grid_of_targets(from, options, permutation);
  auto const to = options.to.value_or(Selection::all(grid));
  if (sides.to || options.to) check_selection(to, grid, "new");
  for (int a = 0; a < from.ndim(); ++a)
    if (Index const num_read = read.extents[int(permutation[a])]; to.extents[a] != num_read)
      throw Error("LayoutMismatch", detail::axis_text(a, from.ndim()) + cells_text(to.extents[a], "new", options.to) +
                                        ", " + detail::axis_text(permutation[a], from.ndim()) +
                                        cells_text(num_read, "old", options.from) + advice(sides, options));
  for (auto const* layout : {&from, sides.to})
    if (layout && layout->num_ranks() > comm.num_ranks())
      throw Error("BadProcessGrid", "the layout must have the communicator's " + std::to_string(comm.num_ranks()) +
                                        " ranks, got " + std::to_string(layout->num_ranks()));
  std::vector<Target> targets;
  for (auto const& target : sides.targets) {
    if (!sides.to && !options.to && !target.empty() && !grid.contains(target))
      throw Error("LayoutMismatch", "the target " + to_string(target) + " leaves the grid " + to_string(grid));
    auto const& box = numbers.emplace_back(detail::numbers_in(to, target));
    targets.push_back({box, {box}});
  }
  // Ranks with fewer targets have some without cells.
  auto const none = Box(Indices::filled(from.ndim(), 0), Indices::filled(from.ndim(), 0));
  targets.resize(sides.num_targets, {none, {none}});
  Hash hash;
  hash.add(sides.to ? sides.to->fingerprint() : 0).add(permutation);
  if (options.from) add(hash, read);
  if (options.to) add(hash, to);
  return {.source = from,
          .kinds = {{from.owned(comm.rank()), std::move(targets), selection_map(read, permutation)}},
          .fingerprint = hash.value(),
          .after_adjoint = AfterAdjoint::keep,
          .messages = Messages::segments,
          .workspace_bytes = options.workspace_bytes};
}

}  // namespace

namespace {

/// What must be the same on all ranks, in words.
std::string text_of(Layout const& from, Layout const* to, RepartitionOptions const& options) {
  auto text = to_string(from) + " to " + (to ? to_string(*to) : "target boxes");
  if (options.permutation.size() > 0) text += ", permutation " + to_string(options.permutation);
  if (options.from) text += ", from " + to_string(*options.from);
  if (options.to) text += ", to " + to_string(*options.to);
  return text;
}

template <class Described>
Described described(Comm const& comm, Layout const& from, Layout const* to, std::vector<Box> targets,
                    RepartitionOptions const& options) {
  Described result{{}, {}, {}, {}, {.source = from, .kinds = {}}};
  // A rank that needs nothing has one box without cells, so that its fields have a type.
  if (targets.empty()) targets.emplace_back(Indices::filled(from.ndim(), 0), Indices::filled(from.ndim(), 0));
  std::array<Index, 1> num_targets{Index(targets.size())};
  if (!to) comm.max(num_targets);
  run_agreed(comm, [&] {
    result.source_box = from.owned(comm.rank());
    if (to) targets.front() = to->owned(comm.rank());
    result.pull = describe(comm, {from, to, targets, std::size_t(num_targets[0])}, options, result.numbers);
    result.to = options.to;
  });
  require_same(comm, "ArgumentDisagreement",
               Hash().add(from.fingerprint()).add(result.pull.fingerprint).add(to != nullptr).value(),
               detail::plan_prefix() + text_of(from, to, options));
  result.target_boxes = std::move(targets);
  return result;
}

}  // namespace

RepartitionPlan::RepartitionPlan(Comm const& comm, Layout const& from, Layout const& to,
                                 RepartitionOptions const& options)
    : RepartitionPlan(comm, described<Described>(comm, from, &to, {}, options)) {}

RepartitionPlan::RepartitionPlan(Comm const& comm, Layout const& from, Box const& target,
                                 RepartitionOptions const& options)
    : RepartitionPlan(comm, described<Described>(comm, from, nullptr, {target}, options)) {}

RepartitionPlan::RepartitionPlan(Comm const& comm, Layout const& from, std::vector<Box> const& targets,
                                 RepartitionOptions const& options)
    : RepartitionPlan(comm, described<Described>(comm, from, nullptr, targets, options)) {}

RepartitionPlan::RepartitionPlan(Comm const& comm, Described const& described)
    : source_box_(described.source_box),
      target_boxes_(described.target_boxes),
      numbers_(described.numbers),
      num_targets_(int(described.pull.kinds.front().targets.size())),
      to_(described.to),
      plan_(comm, described.pull) {}

FieldView RepartitionPlan::selected(FieldView const& to, std::size_t target) const {
  auto const& numbers = numbers_[target];
  auto const& box = target_boxes_[target];
  if (!to_ || to.grid_axes.size() != numbers.ndim() || to.strides.size() != to.ndim() || box.empty()) return to;
  FieldView result = to;
  Index offset = 0;
  for (int a = 0; a < numbers.ndim(); ++a) {
    Index const axis = to.grid_axes[a];
    // What does not fit is refused by the plan, which sees that axes are missing; so the peers are told.
    if (axis < 0 || axis >= to.ndim() || to.extents[int(axis)] != box.extent(a)) {
      result.grid_axes = {};
      return result;
    }
    auto const m = int(axis);
    if (!numbers.empty()) offset += (to_->first[a] + numbers.lo(a) * to_->step[a] - box.lo(a)) * to.strides[m];
    result.extents[m] = numbers.extent(a);
    // The step to a cell that there is not may be of any size.
    if (numbers.extent(a) > 1) result.strides[m] = to.strides[m] * to_->step[a];
  }
  if (result.data) result.data = static_cast<std::byte*>(to.data) + offset * size_of(to.dtype);
  return result;
}

namespace {

/// The caller's views of one field: one for each target box.
std::span<FieldView const> targets_of(RepartitionField const& field) {
  return field.targets.empty() ? std::span(&field.to, 1) : field.targets;
}

/// The field of a call with one.
std::array<RepartitionField, 1> one_field(FieldView const& from, FieldView const& to, Update const& update) {
  return {RepartitionField{.from = from, .to = to, .update = update}};
}
std::array<RepartitionField, 1> one_field(FieldView const& from, std::span<FieldView const> to, Update const& update) {
  return {RepartitionField{.from = from, .to = {}, .targets = to, .update = update}};
}

}  // namespace

PullField RepartitionPlan::pulled(RepartitionField const& field, std::span<FieldView> targets) const {
  auto const given = targets_of(field);
  for (std::size_t t = 0; t < targets.size(); ++t)
    targets[t] = t < numbers_.size() ? selected(given[std::min(t, given.size() - 1)], t) : given[0].without_cells();
  return {.source = field.from,
          // Another number of views than of boxes is refused by the plan, so that the peers are told.
          .targets = given.size() == target_boxes_.size() ? targets : std::span<FieldView>(),
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
    auto const num_targets = std::size_t(num_targets_);
    bool const is_few = fields.size() * num_targets <= few;
    std::vector<FieldView> many_targets(is_few ? 0 : fields.size() * num_targets);
    std::vector<PullField> many_fields(is_few ? 0 : fields.size());
    auto const targets = is_few ? std::span<FieldView>(few_targets) : std::span(many_targets);
    auto const all = is_few ? std::span(few_fields).first(fields.size()) : std::span(many_fields);
    for (std::size_t f = 0; f < fields.size(); ++f)
      all[f] = pulled(fields[f], targets.subspan(f * num_targets, num_targets));
    return call(std::span<PullField const>(all));
  } catch (Error const& error) {
    if (error.rule() == "FieldMismatch") name_target(fields);
    throw;
  }
}

void RepartitionPlan::name_target(std::span<RepartitionField const> fields) const {
  for (auto const& field : fields) {
    auto const given = targets_of(field);
    if (given.size() != target_boxes_.size())
      throw Error("FieldMismatch", std::to_string(given.size()) + " target views, this rank has " +
                                       std::to_string(target_boxes_.size()) + " target boxes");
    for (std::size_t t = 0; t < given.size(); ++t)
      if (selected(given[t], t).grid_axes != given[t].grid_axes)
        throw Error("FieldMismatch", "target of " + to_string(given[t].dtype) + " " + to_string(given[t].extents) +
                                         ", which does not cover " + to_string(target_boxes_[t]));
  }
}

bool RepartitionPlan::is_simple() const noexcept { return !to_ && target_boxes_.size() == 1 && num_targets_ == 1; }

template <class Repeat>
bool RepartitionPlan::repeats(std::span<RepartitionField const> fields, Repeat&& repeat) const {
  constexpr std::size_t most = 8;
  if (fields.empty() || fields.size() > most || !is_simple()) return false;
  std::array<detail::KnownField, most> known;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& field = fields[f];
    if (!field.targets.empty() || field.update != Update{} || field.from_packing || field.to_packing) return false;
    known[f] = {&field.from, &field.to, Parity::even, 0};
  }
  return repeat(std::span<detail::KnownField const>(known.data(), fields.size()));
}

Pending RepartitionPlan::start(std::span<RepartitionField const> fields) const {
  Pending again;
  if (repeats(fields, [&](auto known) { return plan_.start_again(known, again); })) return again;
  return with_fields(fields, [&](auto pulled) { return plan_.start(pulled); });
}

void RepartitionPlan::apply(std::span<RepartitionField const> fields) const {
  if (repeats(fields, [&](auto known) { return plan_.apply_again(known); })) return;
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
  return start(one_field(from, to, update));
}

Pending RepartitionPlan::start(FieldView const& from, std::span<FieldView const> to, Update const& update) const {
  return start(one_field(from, to, update));
}

void RepartitionPlan::apply(FieldView const& from, FieldView const& to, Update const& update) const {
  detail::KnownField const known{&from, &to, Parity::even, 0};
  if (is_simple() && update == Update{} && plan_.apply_again(std::span(&known, 1))) return;
  apply(one_field(from, to, update));
}

void RepartitionPlan::apply(FieldView const& from, std::span<FieldView const> to, Update const& update) const {
  apply(one_field(from, to, update));
}

Pending RepartitionPlan::start_adjoint(FieldView const& from, FieldView const& to, Update const& update) const {
  return start_adjoint(one_field(from, to, update));
}

Pending RepartitionPlan::start_adjoint(FieldView const& from, std::span<FieldView const> to,
                                       Update const& update) const {
  return start_adjoint(one_field(from, to, update));
}

void RepartitionPlan::apply_adjoint(FieldView const& from, FieldView const& to, Update const& update) const {
  apply_adjoint(one_field(from, to, update));
}

void RepartitionPlan::apply_adjoint(FieldView const& from, std::span<FieldView const> to, Update const& update) const {
  apply_adjoint(one_field(from, to, update));
}

Pending RepartitionPlan::start_inverse(FieldView const& from, FieldView const& to, Update const& update) const {
  return start_inverse(one_field(from, to, update));
}

Pending RepartitionPlan::start_inverse(FieldView const& from, std::span<FieldView const> to,
                                       Update const& update) const {
  return start_inverse(one_field(from, to, update));
}

void RepartitionPlan::apply_inverse(FieldView const& from, FieldView const& to, Update const& update) const {
  apply_inverse(one_field(from, to, update));
}

void RepartitionPlan::apply_inverse(FieldView const& from, std::span<FieldView const> to, Update const& update) const {
  apply_inverse(one_field(from, to, update));
}

}  // namespace graticule
