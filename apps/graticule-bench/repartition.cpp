// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cells.hpp>
#include <graticule/partition/relabel.hpp>
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "all_to_all.hpp"
#include "case.hpp"
#include "mock.hpp"
#include "options.hpp"
#include "timing.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace graticule::bench {

namespace {

/// A field of one rank over `box`, last axis contiguous, in ordinary or node-shared memory.
class Field {
 public:
  Field(Box box, bool shared) : box_(std::move(box)) {
    auto const count = std::size_t(box_.num_cells());
    if (shared)
      memory_ = NodeMemory(count * sizeof(double));
    else
      private_.resize(count);
    data_ = shared ? memory_.data<double>() : private_.data();
    std::fill_n(data_, count, 0.0);
  }
  Field(Field const&) = delete;
  Field& operator=(Field const&) = delete;

  /// The number of each cell of the global grid; `axes[a]` is the axis of `extents` that axis `a` of the box stands
  /// for.
  void number(Indices const& extents, Indices const& axes) {
    Index at = 0;
    for (Index i = box_.lo(0); i < box_.hi(0); ++i)
      for (Index j = box_.lo(1); j < box_.hi(1); ++j)
        for (Index k = box_.lo(2); k < box_.hi(2); ++k) {
          Indices cell = axes;
          cell[int(axes[0])] = i;
          cell[int(axes[1])] = j;
          cell[int(axes[2])] = k;
          data_[at++] = double((cell[0] * extents[1] + cell[1]) * extents[2] + cell[2]);
        }
  }
  [[nodiscard]] double* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return std::size_t(box_.num_cells()) * sizeof(double); }
  [[nodiscard]] FieldView view() const { return field_view(data_, box_.extents(), 3); }
  [[nodiscard]] bool equals(Field const& other) const { return std::memcmp(data_, other.data_, bytes()) == 0; }
  void clear() { std::memset(data_, 0, bytes()); }
  [[nodiscard]] CopiedRows copied_to(double* to) const {
    return {reinterpret_cast<std::byte*>(to), reinterpret_cast<std::byte const*>(data_), 1, bytes(), bytes()};
  }

 private:
  Box box_;
  NodeMemory memory_;
  std::vector<double> private_;
  double* data_ = nullptr;
};

RepartitionPlan with(RepartitionPlan plan, Transport transport) {
  plan.set_transport(transport);
  return plan;
}

void add_to(double* to, double const* from, Index count) {
  for (Index i = 0; i < count; ++i) to[i] += from[i];
}

std::string size_text(Indices const& extents, Comm const& comm) {
  return std::to_string(extents[0]) + " x " + std::to_string(extents[1]) + " x " + std::to_string(extents[2]) +
         " f64, " + std::to_string(comm.num_ranks()) + " ranks";
}

/// From bands of the first axis to bands of the second: what a Fourier transform or a column physics needs.
void compare_transposes(app::Context& context, Options const& options, Indices const& extents) {
  auto const& comm = context.comm;
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1, 1}, extents);
  Layout const columns(ProcessGrid{1, n, 1}, extents);
  RepartitionPlan const shared(comm, rows, columns);
  auto const messages = with(RepartitionPlan(comm, rows, columns), Transport::point_to_point);
  Field from(shared.source_box(), false);
  Field in_place(shared.source_box(), true);
  Field to(shared.target_box(), false);
  Field expected(shared.target_box(), false);
  for (auto* field : {&from, &in_place}) field->number(extents, {0, 1, 2});
  expected.number(extents, {0, 1, 2});
  AllToAll collective(comm, rows, columns, from.data(), to.data());
  AllToAll contiguous(comm, rows, columns, from.data(), to.data());
  std::vector<double> copy(std::size_t(std::max(from.bytes(), to.bytes()) / sizeof(double)));
  auto const check = [&](char const* what, auto const& move) {
    to.clear();
    move();
    require(comm, to.equals(expected), what);
  };
  check("RepartitionPlan, node-shared", [&] { shared.apply(from.view(), to.view()); });
  check("RepartitionPlan, NodeMemory", [&] { shared.apply(in_place.view(), to.view()); });
  check("RepartitionPlan, point-to-point", [&] { messages.apply(from.view(), to.view()); });
  check("MPI_Alltoallw", [&] { collective.with_types(); });
  check("MPI_Alltoallv with packing", [&] { collective.packed(); });

  std::string const add = "adding the same volume, no messages";
  auto candidates = every_copy("memcpy of the same volume", from.copied_to(copy.data()));
  for (auto const& candidate : std::vector<Candidate>{
           {"RepartitionPlan, node-shared", [&] { shared.apply(from.view(), to.view()); }, {fastest_copy}},
           {"RepartitionPlan, source in NodeMemory", [&] { shared.apply(in_place.view(), to.view()); }, {fastest_copy}},
           {"RepartitionPlan, point-to-point", [&] { messages.apply(from.view(), to.view()); }, {fastest_copy}},
           {"adjoint, node-shared", [&] { shared.apply_adjoint(from.view(), to.view()); }, {add}},
           {add, [&] { add_to(copy.data(), from.data(), Index(from.bytes() / sizeof(double))); }},
           {"bare MPI_Alltoall, contiguous buffers", [&] { contiguous.bare(); }},
           {"packing by memcpy and MPI_Alltoallv", [&] { collective.packed(); }},
           {"MPI_Alltoallw with subarray types", [&] { collective.with_types(); }}})
    candidates.push_back(candidate);
  show(context, "bands of the first axis to bands of the second, " + size_text(extents, comm),
       interleave(context, candidates, options.timing));
}

void compare_identity(app::Context& context, Options const& options, Indices const& extents) {
  auto const& comm = context.comm;
  Layout const rows(ProcessGrid{comm.num_ranks(), 1, 1}, extents);
  RepartitionPlan const plan(comm, rows, rows);
  Field from(plan.source_box(), false);
  Field to(plan.target_box(), false);
  auto candidates = every_copy("memcpy", from.copied_to(to.data()));
  candidates.push_back({"RepartitionPlan", [&] { plan.apply(from.view(), to.view()); }, {fastest_copy}});
  show(context, "to the same layout, " + size_text(extents, comm), interleave(context, candidates, options.timing));
}

/// All three axes permuted where the cut stays on the same axis: no rank needs another's cells.
void compare_permutations(app::Context& context, Options const& options, Indices const& extents) {
  auto const& comm = context.comm;
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1, 1}, extents);
  Field from(rows.owned(comm.rank()), false);
  from.number(extents, {0, 1, 2});
  Field to(rows.owned(comm.rank()), false);
  Index const row = extents[2];
  Index const pitch = row + 8;
  Index const num_rows = Index(from.bytes() / sizeof(double)) / row;
  std::vector<double> padded(std::size_t(num_rows * pitch));
  std::vector<double> copied(padded.size());
  auto candidates =
      every_copy("rows of " + std::to_string(row) + " elements",
                 {reinterpret_cast<std::byte*>(copied.data()), reinterpret_cast<std::byte const*>(padded.data()),
                  std::size_t(num_rows), std::size_t(row) * sizeof(double), std::size_t(pitch) * sizeof(double)});
  std::vector<std::unique_ptr<RepartitionPlan>> plans;
  std::vector<std::unique_ptr<Field>> targets;
  for (Indices const& axes :
       {Indices{0, 2, 1}, Indices{1, 0, 2}, Indices{1, 2, 0}, Indices{2, 0, 1}, Indices{2, 1, 0}}) {
    Indices permuted = axes;
    Indices grid = axes;
    for (int a = 0; a < 3; ++a) {
      permuted[a] = extents[int(axes[a])];
      grid[a] = axes[a] == 0 ? n : 1;
    }
    Layout const layout(ProcessGrid(grid), permuted);
    auto const& plan = *plans.emplace_back(
        std::make_unique<RepartitionPlan>(comm, rows, layout, RepartitionOptions{.permutation = axes}));
    auto const& target = *targets.emplace_back(std::make_unique<Field>(plan.target_box(), false));
    Field expected(plan.target_box(), false);
    expected.number(extents, axes);
    plan.apply(from.view(), target.view());
    require(comm, target.equals(expected), "a permutation of axes");
    candidates.push_back({"axes " + to_string(axes), [&] { plan.apply(from.view(), target.view()); }, {fastest_copy}});
  }
  show(context, "axes permuted within each rank, " + size_text(extents, comm),
       interleave(context, candidates, options.timing));
}

/// The same boxes on other ranks: nothing moves once the ranks are relabelled.
void count_relabelled(app::Context& context, Indices const& extents) {
  auto const& comm = context.comm;
  std::vector<int> backwards;
  for (int r = comm.num_ranks() - 1; r >= 0; --r) backwards.push_back(r);
  Layout const rows(ProcessGrid{comm.num_ranks(), 1, 1}, extents);
  Layout const reversed(ProcessGrid::on_ranks({comm.num_ranks(), 1, 1}, backwards), extents);
  auto const relabelled = relabel(rows, reversed);
  RepartitionPlan const before(comm, rows, reversed);
  RepartitionPlan const after(comm, rows, relabelled.layout);
  std::array<Index, 2> peers{before.counts().num_send_peers, after.counts().num_send_peers};
  comm.max(peers);
  context.report.data()["results"]["ranks in reverse order"] = {{"messages", peers[0]},
                                                                {"messages_relabelled", peers[1]}};
  if (comm.rank() == 0)
    std::printf("ranks in reverse order: %lld messages per rank, %lld relabelled\n", static_cast<long long>(peers[0]),
                static_cast<long long>(peers[1]));
}

/// The parts of `box` that each rank of `layout` owns.
std::vector<Box> parts_of(Box const& box, Layout const& layout) {
  std::vector<Box> parts;
  for (int r = 0; r < layout.num_ranks(); ++r)
    if (Box const part = intersection(box, layout.owned(r)); !part.empty()) parts.push_back(part);
  return parts;
}

/// The case of the command line: the axes that are cut move on by one, as in the transposes of a three-dimensional
/// Fourier transform.
template <class T>
void compare_case(app::Context& context, Options const& options, Case const& c) {
  auto const& comm = context.comm;
  auto const [extents, first, second] = transposition_of(options, c);
  RepartitionPlan const plan(comm, first, second);
  auto const cells = [&](Box const& box) { return std::size_t(c.channels * box.num_cells()); };
  auto const batch_and = [&](Box const& box) {
    return Indices{c.channels, box.extent(0), box.extent(1), box.extent(2)};
  };
  auto const number = [&](Index channel, Indices const& cell) {
    return T((channel * 131 + cell[0] * 17 + cell[1] * 3 + cell[2]) % 8191);
  };
  auto const each_cell = [&](std::vector<T>& field, Box const& box, auto const& visit) {
    std::size_t at = 0;
    for (Index channel = 0; channel < c.channels; ++channel)
      for_each_cell(box, [&](Indices const& cell) { visit(field[at++], number(channel, cell)); });
  };
  std::vector<T> from(cells(plan.source_box()));
  std::vector<T> to(cells(plan.target_box()));
  auto const from_view = field_view(from.data(), batch_and(plan.source_box()), 3);
  auto const to_view = field_view(to.data(), batch_and(plan.target_box()), 3);
  each_cell(from, plan.source_box(), [](T& value, T numbered) { value = numbered; });
  plan.apply(from_view, to_view);
  bool right = true;
  each_cell(to, plan.target_box(), [&](T value, T numbered) { right = right && value == numbered; });
  require(comm, right, "cells are not those of their owners");

  auto const memory = [&](std::vector<T>& field, Box const& box) {
    return PackingOnly::Memory{reinterpret_cast<std::byte*>(field.data()), box, c.channels, Index(sizeof(T))};
  };
  PackingOnly mock(memory(from, plan.source_box()), parts_of(plan.source_box(), second), memory(to, plan.target_box()),
                   parts_of(plan.target_box(), first));
  RawMessages raw(comm, plan.paths(), c.cell_bytes());
  std::vector<T> copy(from.size());
  auto const title = std::to_string(options.num_levels) + " levels of " + c.text() + ", from " +
                     to_string(*first.grid()) + " to " + to_string(*second.grid()) + ", transport " + options.transport;
  show(context, title,
       interleave(context,
                  {{"memcpy of the same volume", [&] { std::copy(from.begin(), from.end(), copy.begin()); }},
                   {"bare messages of the same bytes", [&] { raw.exchange(); }},
                   {"packing and unpacking, no messages", [&] { mock.run(); }},
                   {"RepartitionPlan", [&] { plan.apply(from_view, to_view); }},
                   {"RepartitionPlan, inverse", [&] { plan.apply_inverse(from_view, to_view); }},
                   {"RepartitionPlan, adjoint", [&] { plan.apply_adjoint(from_view, to_view, {.beta = 0.0}); }}},
                  options.timing));
  show_phases(
      context, title, options.timing, [&] { return plan.stats(); }, [&] { plan.apply(from_view, to_view); });
  report_transport(context, plan.paths(), c.cell_bytes());
  context.report.set_partition(first, {"first", "second", "third"});
}

}  // namespace

void run_repartition(app::Context& context, Options const& options) {
  Indices const extents{options.num_rows, options.num_columns, options.num_levels};
  auto const c = case_of(options, context.comm, 1, DType::f64);
  with_element(c.dtype, [&](auto element) { compare_case<decltype(element)>(context, options, c); });
  // What the plan is compared with beyond that knows bands of one field of f64 only.
  if (options.partition != "auto" || options.transport != "auto" || c.dtype != DType::f64 || c.channels != 1) return;
  compare_transposes(context, options, extents);
  compare_identity(context, options, extents);
  compare_permutations(context, options, extents);
  count_relabelled(context, extents);
}

}  // namespace graticule::bench
