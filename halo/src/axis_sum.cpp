// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/axis_sum.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
#include <graticule/repartition/detail/convert_cells.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>
#include <graticule/repartition/detail/overlap.hpp>
#include <graticule/repartition/detail/permutation_map.hpp>
#include <graticule/repartition/detail/pull.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include "axis_sum_kernels.hpp"
#include "covers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <utility>

namespace graticule {

using detail::DivideRows;
using detail::for_each_index;
using detail::RoundToDouble;
using detail::RoundTotals;
using detail::rows_of;
using detail::Scratch;
using detail::sum_plainly;
using detail::SumExactly;
using detail::with_float;

namespace {

Index words_of(DType dtype, AxisSumMethod how) {
  if (how == AxisSumMethod::fast) return 1;
  return dtype == DType::f32 ? detail::ExactSum<float>::num_words : detail::ExactSum<double>::num_words;
}

Box with_axis(Box box, int axis, Index lo, Index hi) {
  box.set(axis, lo, hi);
  return box;
}

/// Owners of the ring sums: one cell per ring, [0, 1) along the sum axis. If the axis before the sum axis is cut as
/// well, the ranks of a ring divide its rows; otherwise the owners of the first columns take all.
Layout owners_of_rings(Layout const& layout, int sum_axis) {
  auto extents = layout.global().extents();
  extents[sum_axis] = std::min<Index>(extents[sum_axis], 1);
  auto const* grid = layout.grid();
  if (grid == nullptr) {
    std::vector<Box> boxes;
    for (int r = 0; r < layout.num_ranks(); ++r) {
      Box const owned = layout.owned(r);
      bool const first = !owned.empty() && owned.lo(sum_axis) == 0;
      boxes.push_back(first ? with_axis(owned, sum_axis, 0, 1)
                            : Box(Indices::filled(extents.size(), 0), Indices::filled(extents.size(), 0)));
    }
    return Layout::from_boxes(extents, boxes);
  }
  std::vector<Cuts> cuts;
  for (int a = 0; a < layout.ndim(); ++a) cuts.push_back(*layout.cuts(a));
  auto const k = std::size_t(sum_axis);
  auto grid_extents = grid->extents();
  if (sum_axis > 0) {
    // Ranks (p, q) of the two axes are numbered p Q + q, as the parts of the finer cuts.
    std::vector<Index> rows;
    for (int p = 0; p < cuts[k - 1].num_parts(); ++p) {
      auto const shares = balanced_cuts(cuts[k - 1].size(p), cuts[k].num_parts()).sizes();
      rows.insert(rows.end(), shares.begin(), shares.end());
    }
    cuts[k - 1] = Cuts(rows);
    grid_extents[sum_axis - 1] *= grid_extents[sum_axis];
    grid_extents[sum_axis] = 1;
    cuts[k] = Cuts({extents[sum_axis]});
  } else {
    std::vector<Index> sizes(std::size_t(cuts[k].num_parts()), 0);
    if (extents[sum_axis] > 0) sizes[std::size_t(cuts[k].part_of(0))] = 1;
    cuts[k] = Cuts(sizes);
  }
  return {ProcessGrid(grid_extents), cuts};
}

Indices identity(int ndim) {
  Indices result;
  for (int a = 0; a < ndim; ++a) result.push_back(a);
  return result;
}

struct Geometry {
  Layout owners;
  Box owned;
  Box part;  ///< owned cells of the region
  Box sums;
  Index ring_extent = 1;  ///< cells of a whole ring of the region
};

Geometry make_geometry(Comm const& comm, Layout const& layout, int sum_axis, AxisSumOptions const& options) {
  if (sum_axis < 0 || sum_axis >= layout.ndim())
    throw Error("BadAxis", "the axis of a sum must be one of " + std::to_string(layout.ndim()) + ", got " +
                               detail::axis_text(sum_axis, layout.ndim()));
  Box const region = options.region.value_or(layout.global());
  if (region.ndim() != layout.ndim() || !layout.global().contains(region))
    throw Error("OutOfRange",
                "the region must lie in the global box " + to_string(layout.global()) + ", got " + to_string(region));
  Geometry result{owners_of_rings(layout, sum_axis), layout.owned(comm.rank()), {}, {}, region.extent(sum_axis)};
  result.part = intersection(result.owned, region);
  result.sums = with_axis(result.part, sum_axis, 0, result.part.empty() ? 0 : 1);
  return result;
}

Geometry agreed_geometry(Comm const& comm, Layout const& layout, int sum_axis, AxisSumOptions const& options) {
  Geometry result{layout, {}, {}, {}, 1};
  run_agreed(comm, [&] {
    if (layout.has_holes())
      throw Error(
          "Unsupported",
          "sums along an axis need a layout without holes; sums with a weight for each cell take any layout, and a "
          "repartition moves fields to one without holes");
    result = make_geometry(comm, layout, sum_axis, options);
  });
  return result;
}

std::uint64_t fingerprint(Layout const& layout, int sum_axis, AxisSumOptions const& options) {
  Hash hash;
  hash.add(layout.fingerprint()).add(sum_axis).add(int(options.how)).add(int(options.scale));
  Box const region = options.region.value_or(layout.global());
  return hash.add(region.lo()).add(region.hi()).value();
}

}  // namespace

struct AxisSumPlan::State {
  State(Comm const& on, Layout const& layout, int axis, AxisSumOptions const& with)
      : comm(on),
        options(with),
        sum_axis(axis),
        geometry(agreed_geometry(on, layout, axis, with)),
        owner_box(geometry.owners.owned(on.rank())),
        plan(on,
             {geometry.owners,
              {{owner_box, {Target{geometry.sums, {geometry.sums}}}, detail::permutation_map(identity(layout.ndim()))}},
              fingerprint(layout, axis, with),
              AfterAdjoint::keep}) {}

  /// Two calls of the plan: to the rank that adds up a ring, and back.
  enum class Round : std::uint8_t { collect, spread };

  /// Memory of one field in a call. `totals` and `values` belong to the rings that this rank adds up.
  struct Buffers {
    Scratch partial;
    Scratch totals;
    Scratch values;
    Scratch cotangents;
    FieldView partial_view;
    FieldView totals_view;
    FieldView values_view;
  };

  /// What a call writes.
  enum class Writes : std::uint8_t { sums, cells };
  void check(std::span<AxisSumField const> fields, Writes writes) const;
  void make_buffers(std::span<AxisSumField const> fields) const;
  /// Sums of the rows of `view`, which covers `cover`, over its cells of `part`: what is to be added to the owners'
  /// totals.
  [[nodiscard]] std::vector<PullField> add_rows(std::span<FieldView const> views, Box const& cover,
                                                Box const& part) const;
  void round_totals(std::span<FieldView const> sums) const;
  /// Totals, rounded, to `sums` of all ranks of each ring.
  void spread(std::span<FieldView const> sums) const;
  /// Runs the action; if it throws, this rank takes no part in the given rounds, and its peers are notified.
  void or_refuse(std::initializer_list<Round> rounds, std::function<void()> const& action) const;
  [[nodiscard]] double divisor() const {
    return options.scale == AxisSumScale::mean ? double(geometry.ring_extent) : 1.0;
  }

  Comm comm;
  AxisSumOptions options;
  int sum_axis;
  Geometry geometry;
  Box owner_box;
  PullPlan plan;
  mutable std::vector<Buffers> buffers;
  mutable detail::QueueOfCalls calls;
  mutable bool busy = false;  ///< from `start()` to `wait()`
};

namespace {

/// Dense memory of the cells of `box` with `batch` elements each, which vary fastest.
FieldView ring_view(void* data, DType dtype, Box const& box, Index batch, MemorySpace space) {
  FieldView view{data, dtype, box.extents(), {}, identity(box.ndim()), space};
  view.extents.push_back(batch);
  view.strides = row_major_strides(view.extents);
  return view;
}

/// The same with the batch axes of `like`.
FieldView ring_view_like(void* data, FieldView const& like, Box const& box) {
  FieldView view{data, like.dtype, like.batch_extents(), {}, {}, like.space};
  int const num_batch = view.extents.size();
  view.strides = row_major_strides(view.extents);
  Index stride = like.num_batch();
  for (int a = 0; a < box.ndim(); ++a) {
    view.extents.push_back(box.extent(a));
    view.strides.push_back(0);
    view.grid_axes.push_back(num_batch + a);
  }
  for (int a = box.ndim() - 1; a >= 0; --a) {
    view.strides[num_batch + a] = stride;
    stride *= std::max<Index>(box.extent(a), 1);
  }
  return view;
}

/// Adds to each cell of `part` the element of `ring` that has the same coordinates on the axes that `varies` lists.
void add_to_cells(FieldView const& cells, Box const& cover, Box const& part, FieldView const& ring,
                  std::array<bool, max_ndim> const& varies, DeviceQueue const& queue) {
  if (part.empty()) return;
  auto const to = cells.part(cover, part);
  Indices extents = cells.batch_extents();
  Indices to_strides;
  Indices from_strides;
  for (int m = 0; m < cells.ndim(); ++m)
    if (std::find(cells.grid_axes.begin(), cells.grid_axes.end(), Index(m)) == cells.grid_axes.end())
      to_strides.push_back(cells.strides[m]);
  for (int b = 0; b < extents.size(); ++b) from_strides.push_back(ring.strides[b]);
  for (int a = 0; a < part.ndim(); ++a) {
    extents.push_back(part.extent(a));
    to_strides.push_back(to.strides[int(to.grid_axes[a])]);
    from_strides.push_back(varies[std::size_t(a)] ? ring.strides[int(ring.grid_axes[a])] : 0);
  }
  auto const task =
      detail::make_strided(detail::StridedOp::add, to.dtype, extents, to.data, to_strides, ring.data, from_strides);
  detail::run_strided(std::span(&task, 1), cells.space, queue);
}

void zero(FieldView const& view, DeviceQueue const& queue) {
  auto const task =
      detail::make_strided(detail::StridedOp::fill, view.dtype, view.extents, view.data, view.strides, nullptr, {}, 0);
  detail::run_strided(std::span(&task, 1), view.space, queue);
}

}  // namespace

namespace {

/// @throws `AliasedFields` when an element that is written belongs to two views of a call
void require_apart(std::span<AxisSumField const> fields, FieldView AxisSumField::*written,
                   FieldView AxisSumField::*read) {
  for (std::size_t f = 0; f < fields.size(); ++f)
    for (std::size_t other = 0; other < fields.size(); ++other) {
      auto const& view = fields[f].*written;
      if (detail::share_memory(view, fields[other].*read) ||
          (other < f && detail::share_memory(view, fields[other].*written)))
        throw Error("AliasedFields",
                    "cells or sums of fields " + std::to_string(other) + " and " + std::to_string(f) +
                        " have elements in common; memory that a call writes belongs to one view only");
    }
}

}  // namespace

void AxisSumPlan::State::check(std::span<AxisSumField const> fields, Writes writes) const {
  if (busy) throw Error("WrongState", "a call was made before wait() completed the previous one");
  for (auto const& [cells, sums] : fields) {
    with_float(cells.dtype, [](auto*) {});
    detail::check_covers(cells, geometry.owned, "cells");
    detail::check_covers(sums, geometry.sums, "sums");
    if (cells.dtype != sums.dtype || !(cells.batch_extents() == sums.batch_extents()))
      throw Error("FieldMismatch",
                  "cells of " + to_string(cells.dtype) + " " + to_string(cells.extents) + ", sums of " +
                      to_string(sums.dtype) + " " + to_string(sums.extents) +
                      ": batch axes must be equal, and types too, unless f32 in host memory gets sums of f64");
    if (cells.space != sums.space || cells.space != fields.front().cells.space)
      throw Error("FieldMismatch", "fields of one call lie in different memory spaces");
    auto const& written = writes == Writes::sums ? sums : cells;
    if (!geometry.part.empty() && detail::shares_own_memory(written))
      throw Error("FieldMismatch", std::string(writes == Writes::sums ? "sums" : "cells") + " of " +
                                       to_string(written.dtype) + " " + to_string(written.extents) +
                                       ": axes with strides " + to_string(written.strides) +
                                       ": its cells share memory and cannot be written");
  }
  if (geometry.part.empty()) return;
  if (writes == Writes::sums)
    require_apart(fields, &AxisSumField::sums, &AxisSumField::cells);
  else
    require_apart(fields, &AxisSumField::cells, &AxisSumField::sums);
}

void AxisSumPlan::State::make_buffers(std::span<AxisSumField const> fields) const {
  if (!fields.empty()) calls.enter(fields.front().sums.space);
  if (buffers.size() < fields.size()) buffers.resize(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& field = fields[f].sums;
    auto& to = buffers[f];
    Index const batch = field.num_batch();
    Index const words = batch * words_of(field.dtype, options.how);
    DType const dtype = options.how == AxisSumMethod::exact ? DType::i64 : DType::f64;
    auto const bytes = [](Box const& box, Index elements) { return std::size_t(box.num_cells() * elements) * 8; };
    to.partial_view = ring_view(to.partial.resize(bytes(geometry.sums, words), field.space, calls.queue()), dtype,
                                geometry.sums, words, field.space);
    to.totals_view = ring_view(to.totals.resize(bytes(owner_box, words), field.space, calls.queue()), dtype, owner_box,
                               words, field.space);
    to.values_view =
        ring_view_like(to.values.resize(bytes(owner_box, batch), field.space, calls.queue()), field, owner_box);
  }
}

void AxisSumPlan::State::or_refuse(std::initializer_list<Round> rounds, std::function<void()> const& action) const {
  try {
    action();
  } catch (...) {
    for (Round const round : rounds) {
      // The plan has no kind -1: it rejects the call and notifies the peers.
      PullField const none{{}, {}, Parity::even, -1};
      try {
        (round == Round::collect ? plan.start_adjoint(std::span(&none, 1)) : plan.start(std::span(&none, 1))).wait();
      } catch (Error const&) {
        // The first reason is thrown.
      }
    }
    throw;
  }
}

std::vector<PullField> AxisSumPlan::State::add_rows(std::span<FieldView const> views, Box const& cover,
                                                    Box const& part) const {
  std::vector<PullField> pulls;
  for (std::size_t f = 0; f < views.size(); ++f) {
    auto& to = buffers[f];
    auto const rows = rows_of(views[f], cover, part, sum_axis);
    with_float(views[f].dtype, [&]<class T>(T*) {
      if (options.how == AxisSumMethod::exact)
        for_each_index(views[f].space, calls.queue(), rows.number, rows.row_extent + 64,
                       SumExactly<T>{rows, static_cast<std::int64_t*>(to.partial_view.data)});
      else
        sum_plainly<T>(views[f].space, calls.queue(), rows, static_cast<double*>(to.partial_view.data));
    });
    zero(to.totals_view, calls.queue());
    pulls.push_back({to.totals_view, std::span(&to.partial_view, 1)});
  }
  return pulls;
}

void AxisSumPlan::State::round_totals(std::span<FieldView const> sums) const {
  for (std::size_t f = 0; f < sums.size(); ++f) {
    auto& to = buffers[f];
    Index const rows = owner_box.num_cells() * sums[f].num_batch();
    with_float(sums[f].dtype, [&]<class T>(T*) {
      for_each_index(sums[f].space, calls.queue(), rows, 64,
                     RoundTotals<T>{to.totals_view.data, static_cast<T*>(to.values_view.data), divisor(),
                                    options.how == AxisSumMethod::exact});
    });
  }
}

void AxisSumPlan::State::spread(std::span<FieldView const> sums) const {
  std::vector<PullField> pulls;
  for (std::size_t f = 0; f < sums.size(); ++f) pulls.push_back({buffers[f].values_view, std::span(&sums[f], 1)});
  plan.apply(pulls, calls.queue());
  if (!sums.empty()) calls.leave(sums.front().space);
}

AxisSumPlan::AxisSumPlan(Comm const& comm, Layout const& layout, int sum_axis, AxisSumOptions const& options)
    : state_(std::make_shared<State>(comm, layout, sum_axis, options)) {}

Box const& AxisSumPlan::cells() const noexcept { return state_->geometry.owned; }

Box const& AxisSumPlan::sums() const noexcept { return state_->geometry.sums; }

void AxisSumPlan::apply(FieldView const& cells, FieldView const& sums) const {
  AxisSumField const field{cells, sums};
  apply(std::span(&field, 1));
}

void AxisSumPlan::apply_adjoint(FieldView const& cells, FieldView const& sums, Cotangents cotangents) const {
  AxisSumField const field{cells, sums};
  apply_adjoint(std::span(&field, 1), cotangents);
}

AxisSumPlan::Running AxisSumPlan::start(FieldView const& cells, FieldView const& sums) const {
  AxisSumField const field{cells, sums};
  return start(std::span(&field, 1));
}

void AxisSumPlan::apply(std::span<AxisSumField const> fields) const { start(fields).wait(); }

namespace {

/// Cells of f32 whose sums are f64, as f64: exact sums of them lose nothing.
class Widened {
 public:
  explicit Widened(std::span<AxisSumField const> fields) : given_(fields) {
    if (std::none_of(fields.begin(), fields.end(), is_narrow)) return;
    fields_.assign(fields.begin(), fields.end());
    for (auto& field : fields_) {
      if (!is_narrow(field)) continue;
      auto const& wide = memory_.emplace_back(field.cells, DType::f64).view();
      detail::convert_cells(field.cells, wide);
      field.cells = wide;
    }
  }
  [[nodiscard]] std::span<AxisSumField const> fields() const {
    return fields_.empty() ? given_ : std::span<AxisSumField const>(fields_);
  }
  /// Rounds cells that were written to the caller's.
  void write_back() const {
    for (std::size_t f = 0; f < fields_.size(); ++f)
      if (is_narrow(given_[f])) detail::convert_cells(fields_[f].cells, given_[f].cells);
  }

 private:
  static bool is_narrow(AxisSumField const& field) {
    return field.cells.dtype == DType::f32 && field.sums.dtype == DType::f64 &&
           field.cells.space == MemorySpace::host && field.sums.space == MemorySpace::host &&
           field.cells.data != nullptr && field.cells.strides.size() == field.cells.ndim();
  }
  std::span<AxisSumField const> given_;
  std::vector<AxisSumField> fields_;
  std::deque<detail::DenseField> memory_;
};

}  // namespace

AxisSumPlan::Running AxisSumPlan::start(std::span<AxisSumField const> given) const {
  using enum State::Round;
  Widened const widened(given);
  auto const fields = widened.fields();
  std::vector<FieldView> sums;
  std::vector<PullField> pulls;
  state_->or_refuse({collect, spread}, [&] {
    state_->check(fields, State::Writes::sums);
    state_->make_buffers(fields);
    std::vector<FieldView> cells;
    for (auto const& field : fields) {
      cells.push_back(field.cells);
      sums.push_back(field.sums);
    }
    pulls = state_->add_rows(cells, state_->geometry.owned, state_->geometry.part);
  });
  Pending pending;
  state_->or_refuse({spread}, [&] { pending = state_->plan.start_adjoint(pulls, state_->calls.queue()); });
  return {state_, std::move(sums), std::move(pending)};
}

AxisSumPlan::Running::Running(std::shared_ptr<State> state, std::vector<FieldView> sums, Pending pending)
    : state_(std::move(state)), sums_(std::move(sums)), pending_(std::move(pending)) {
  state_->busy = true;
}

AxisSumPlan::Running::~Running() {
  try {
    if (detail::mpi_is_over()) return;
    auto rule = stall_rule();
    rule.error_seconds = detail::hurries() ? detail::seconds_to_end() : rule.error_seconds;
    detail::StallScope const hurried(rule);
    wait();
  } catch (...) {
    // As for `Pending`: no one remains to be notified.
  }
}

void AxisSumPlan::Running::wait() {
  if (!state_) return;
  auto const state = std::move(state_);
  state->busy = false;
  state->or_refuse({State::Round::spread}, [&] {
    pending_.wait();
    state->round_totals(sums_);
  });
  state->spread(sums_);
}

void AxisSumPlan::apply_adjoint(std::span<AxisSumField const> given, Cotangents cotangents) const {
  using enum State::Round;
  Widened const widened(given);
  auto const fields = widened.fields();
  auto const& geometry = state_->geometry;
  std::vector<FieldView> scaled;  // the cotangents as they are added to cells, one per ring
  std::vector<FieldView> sums;
  auto const prepare = [&] {
    state_->check(fields, State::Writes::cells);
    state_->make_buffers(fields);
    for (std::size_t f = 0; f < fields.size(); ++f) {
      auto const& view = sums.emplace_back(fields[f].sums);
      auto const bytes = std::size_t(geometry.sums.num_cells() * view.num_batch() * size_of(view.dtype));
      auto& memory = state_->buffers[f].cotangents;
      scaled.push_back(ring_view_like(memory.resize(bytes, view.space, state_->calls.queue()), view, geometry.sums));
    }
  };
  if (cotangents == Cotangents::of_each_rank) {
    state_->or_refuse({collect, spread}, prepare);
    state_->or_refuse({spread}, [&] {
      state_->plan.apply_adjoint(state_->add_rows(sums, geometry.sums, geometry.sums), state_->calls.queue());
      state_->round_totals(sums);
    });
    state_->spread(scaled);
  } else {
    prepare();
    for (std::size_t f = 0; f < fields.size(); ++f) {
      auto const rows = rows_of(sums[f], geometry.sums, geometry.sums, state_->sum_axis);
      with_float(sums[f].dtype, [&]<class T>(T*) {
        for_each_index(sums[f].space, state_->calls.queue(), rows.number, 1,
                       DivideRows<T>{rows, static_cast<T*>(scaled[f].data), state_->divisor()});
      });
    }
  }
  std::array<bool, max_ndim> varies{};
  varies.fill(true);
  varies[std::size_t(state_->sum_axis)] = false;
  for (std::size_t f = 0; f < fields.size(); ++f)
    add_to_cells(fields[f].cells, geometry.owned, geometry.part, scaled[f], varies, state_->calls.queue());
  widened.write_back();
}

namespace {

template <class T>
void copy_and_wait(void* to, std::vector<T> const& from, DeviceQueue const& queue) {
  detail::copy_to_device(queue, to, from.data(), from.size() * sizeof(T));
  detail::fence(queue);
}

/// Throws on all ranks what `check` throws on any, or where they have other types or batch axes. Cost: one all-reduce.
void require_agreed(Comm const& comm, FieldView const& cells, std::function<void()> const& check) {
  std::exception_ptr failure;
  Hash hash;
  try {
    check();
    hash.add(int(cells.dtype)).add(cells.batch_extents());
  } catch (...) {
    failure = std::current_exception();
  }
  auto const shape = Index(hash.value() >> 1U);
  std::array<Index, 3> most{failure ? 1 : 0, shape, -shape};
  comm.max(most);
  if (most[0] != 0) agree(comm, failure);
  if (most[1] != -most[2])
    require_same(comm, "FieldMismatch", hash.value(),
                 "cells of " + to_string(cells.dtype) + " with batch axes " + to_string(cells.batch_extents()));
}

double exact_sum(std::vector<double> const& values) {
  detail::ExactSum<double> sum;
  sum.add(values.data(), Index(values.size()), 1);
  return sum.rounded();
}

}  // namespace

AreaSum::AreaSum(Comm const& comm, Layout const& layout, int sum_axis, int row_axis, std::span<double const> weights,
                 AxisSumScale scale)
    : rings_(comm, layout, sum_axis), row_axis_(row_axis), weights_(weights.begin(), weights.end()) {
  run_agreed(comm, [&] {
    if (row_axis < 0 || row_axis >= layout.ndim() || row_axis == sum_axis)
      throw Error("BadAxis", "rows and rings must lie along two of " + std::to_string(layout.ndim()) +
                                 " axes, got rows along " + detail::axis_text(row_axis, layout.ndim()) +
                                 " and rings along " + detail::axis_text(sum_axis, layout.ndim()));
    if (Index(weights_.size()) != layout.extent(row_axis))
      throw Error("ShapeMismatch", "a weight is needed for each of " + std::to_string(layout.extent(row_axis)) +
                                       " rows, got " + std::to_string(weights_.size()));
    for (std::size_t r = 0; r < weights_.size(); ++r)
      if (!std::isfinite(weights_[r]))
        throw Error("NotFinite", "the weight of row " + std::to_string(detail::place_number(Index(r))) + " is " +
                                     std::to_string(weights_[r]));
    if (scale == AxisSumScale::mean && exact_sum(weights_) == 0)
      throw Error("TooFewValues", "a mean with weights of rows that sum to 0");
  });
  Hash hash;
  hash.add(row_axis).add(int(scale)).add(weights_);
  std::string text = scale == AxisSumScale::mean ? "a mean with weights" : "a sum with weights";
  for (std::size_t r = 0; r < std::min(weights_.size(), std::size_t(8)); ++r) text += " " + std::to_string(weights_[r]);
  require_same(
      comm, "ArgumentDisagreement", hash.value(),
      text + (weights_.size() > 8 ? " ..." : "") + " of rows along " + detail::axis_text(row_axis, layout.ndim()));
  if (scale == AxisSumScale::sum) return;
  double cells = 1;
  for (int a = 0; a < layout.ndim(); ++a)
    if (a != row_axis) cells *= double(layout.extent(a));
  total_weight_ = exact_sum(weights_) * cells;
}

std::vector<double> AreaSum::apply(FieldView const& cells) const {
  auto const& state = *rings_.state_;
  require_agreed(state.comm, cells, [&] {
    with_float(cells.dtype, [](auto*) {});
    detail::check_covers(cells, state.geometry.owned, "cells");
  });
  // Only type, batch axes and memory space of the second view matter.
  AxisSumField const field{cells, cells};
  state.make_buffers(std::span(&field, 1));
  state.plan.apply_adjoint(state.add_rows(std::span(&cells, 1), state.geometry.owned, state.geometry.part),
                           state.calls.queue());
  auto& buffer = state.buffers.front();
  Index const batch = cells.num_batch();
  Index const rings = state.owner_box.num_cells();
  with_float(cells.dtype, [&]<class T>(T*) {
    for_each_index(cells.space, state.calls.queue(), rings * batch, 64,
                   RoundToDouble<T>{static_cast<std::int64_t const*>(buffer.totals_view.data),
                                    static_cast<double*>(buffer.values_view.data)});
  });
  std::vector<double> sums(std::size_t(rings * batch));
  if (cells.space == MemorySpace::device) {
    detail::copy_to_host(state.calls.queue(), sums.data(), buffer.values_view.data, sums.size() * sizeof(double));
    detail::fence(state.calls.queue());
  } else if (!sums.empty()) {
    std::memcpy(sums.data(), buffer.values_view.data, sums.size() * sizeof(double));
  }
  // Rings lie in row-major order of their box: `inner` of them in a row follow each other.
  Index inner = 1;
  for (int a = row_axis_ + 1; a < state.owner_box.ndim(); ++a) inner *= state.owner_box.extent(a);
  constexpr Index num_words = detail::ExactSum<double>::num_words;
  std::vector<Index> words(std::size_t(batch * num_words), 0);
  std::vector<double> products(std::size_t(rings), 0.0);
  for (Index b = 0; b < batch; ++b) {
    for (Index r = 0; r < rings; ++r) {
      Index const row = state.owner_box.lo(row_axis_) + r / inner % state.owner_box.extent(row_axis_);
      products[std::size_t(r)] = weights_[std::size_t(row)] * sums[std::size_t(r * batch + b)];
    }
    detail::ExactSum<double> sum;
    sum.add(products.data(), rings, 1);
    sum.store(words.data() + b * num_words);
  }
  state.comm.sum(words);
  std::vector<double> result;
  for (Index b = 0; b < batch; ++b)
    result.push_back(detail::ExactSum<double>(words.data() + b * num_words).rounded() / total_weight_);
  return result;
}

void AreaSum::apply_adjoint(FieldView const& cells, std::span<double const> cotangents) const {
  auto const& state = *rings_.state_;
  Box const& owned = state.geometry.owned;
  with_float(cells.dtype, [](auto*) {});
  detail::check_covers(cells, owned, "cells");
  if (Index(cotangents.size()) != cells.num_batch())
    throw Error("FieldMismatch", "a cotangent is needed for each value of cells of " + to_string(cells.extents) +
                                     ", got " + std::to_string(cotangents.size()));
  state.calls.enter(cells.space);
  auto const& queue = state.calls.queue();
  Box rows(Indices::filled(owned.ndim(), 0), Indices::filled(owned.ndim(), 1));
  rows.set(row_axis_, owned.lo(row_axis_), owned.hi(row_axis_));
  with_float(cells.dtype, [&]<class T>(T*) {
    std::vector<T> terms;
    for (Index row = rows.lo(row_axis_); row < rows.hi(row_axis_); ++row)
      for (double const cotangent : cotangents)
        terms.push_back(T(weights_[std::size_t(row)] * (cotangent / total_weight_)));
    if (state.buffers.empty()) state.buffers.resize(1);
    auto* const memory = state.buffers.front().cotangents.resize(terms.size() * sizeof(T), cells.space, queue);
    if (cells.space == MemorySpace::device)
      copy_and_wait(memory, terms, queue);
    else if (!terms.empty())
      std::memcpy(memory, terms.data(), terms.size() * sizeof(T));
    std::array<bool, max_ndim> varies{};
    varies[std::size_t(row_axis_)] = true;
    add_to_cells(cells, owned, owned, ring_view_like(memory, cells, rows), varies, queue);
  });
}

}  // namespace graticule
