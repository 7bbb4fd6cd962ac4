// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/repartition/node_memory.hpp>

#include "by_hand.hpp"
#include "case.hpp"
#include "mock.hpp"
#include "options.hpp"
#include "timing.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

namespace graticule::bench {

namespace {

/// A field with halo of one rank, in ordinary or node-shared memory, whose owned cells hold numbers.
class Field {
 public:
  Field(HaloPlan const& plan, Index channels, bool shared)
      : owned_(plan.owned()), box_(plan.local()), channels_(channels) {
    auto const count = std::size_t(channels * box_.num_cells());
    if (shared)
      memory_ = NodeMemory(count * sizeof(float));
    else
      private_.resize(count);
    data_ = shared ? memory_.data<float>() : private_.data();
    reset();
  }
  Field(Field const&) = delete;
  Field& operator=(Field const&) = delete;

  /// Numbers in owned cells, zeros in the halo.
  void reset() {
    std::fill_n(data_, channels_ * box_.num_cells(), 0.0F);
    for (Index c = 0; c < channels_; ++c)
      for (Index i = owned_.lo(0); i < owned_.hi(0); ++i)
        for (Index j = owned_.lo(1); j < owned_.hi(1); ++j) at(c, i, j) = float((c * 131 + i * 17 + j) % 8191);
  }

  [[nodiscard]] float* data() const { return data_; }
  [[nodiscard]] FieldView view() const { return field_view(data_, {channels_, box_.extent(0), box_.extent(1)}, 2); }
  [[nodiscard]] bool equals(Field const& other) const {
    return std::equal(data_, data_ + channels_ * box_.num_cells(), other.data_);
  }

 private:
  float& at(Index c, Index i, Index j) {
    return data_[(c * box_.extent(0) + i - box_.lo(0)) * box_.extent(1) + j - box_.lo(1)];
  }

  Box owned_;
  Box box_;
  Index channels_;
  NodeMemory memory_;
  std::vector<float> private_;
  float* data_ = nullptr;
};

std::string size_of_grid(Options const& options, Index channels) {
  return std::to_string(channels) + " x " + std::to_string(options.num_rows) + " x " +
         std::to_string(options.num_columns) + " f32";
}

std::string ranks_of(Comm const& comm) { return std::to_string(comm.num_ranks()) + " ranks"; }

HaloPlan with(HaloPlan plan, Transport transport) {
  plan.set_transport(transport);
  return plan;
}

/// Rows of a ring of bands: every way of doing the same exchange.
void compare_rows(app::Context& context, Options const& options, Index channels) {
  auto const& comm = context.comm;
  Layout const layout(bands(comm), {options.num_rows, options.num_columns});
  std::vector<Width> const widths{{options.width, options.width}, {0, 0}};
  auto const ring = Boundary::uniform(2, Edge::periodic);
  auto const messages = with(HaloPlan(comm, layout, widths, ring), Transport::point_to_point);
  HaloPlan const shared(comm, layout, widths, ring);
  Field field(messages, channels, false);
  Field in_place(shared, channels, true);
  // The copy rate of rows depends on their remains in the shared caches, so each of the two fields serves as many
  // candidates. Every candidate has its own buffers, so that none profits from the caches of another.
  RowShape const shape{channels, messages.owned().extent(0), options.num_columns, options.width};
  RowsByHand hand(comm, in_place.data(), shape);
  RowsByHand contiguous(comm, field.data(), shape);
  RowsByHand table(comm, field.data(), shape);
  RowsByHand packing(comm, field.data(), shape);
  RowsByHand adding(comm, field.data(), shape);
  std::string const copy = "memcpy of the same bytes, no messages";
  std::string const add = "adding and zeroing the same bytes, no messages";
  std::string const copy_between = "memcpy of the same bytes from another field, no messages";
  std::string const add_between = "adding and zeroing the same bytes of another field, no messages";

  Field const expected(messages, channels, false);
  messages.exchange(expected.view());
  auto const check = [&](Field& given, std::function<void()> const& exchange) {
    given.reset();
    exchange();
    require(comm, given.equals(expected), "the ways of exchanging the same rows differ");
  };
  check(in_place, [&] { hand.exchange(); });
  check(field, [&] { table.exchange_by_index_table(); });
  check(field, [&] { shared.exchange(field.view()); });
  check(in_place, [&] { shared.exchange(in_place.view()); });

  show(
      context,
      "rows of width " + std::to_string(options.width) + ", " + size_of_grid(options, channels) + ", " + ranks_of(comm),
      interleave(
          context,
          {{"contiguous persistent messages, no packing", [&] { contiguous.messages_only(); }},
           {"hand-written persistent, memcpy packing", [&] { hand.exchange(); }},
           {"HaloPlan, point-to-point", [&] { messages.exchange(field.view()); }, {copy, copy}},
           {"HaloPlan, node-shared", [&] { shared.exchange(field.view()); }, {copy, copy}},
           {"HaloPlan, node-shared, field in NodeMemory", [&] { shared.exchange(in_place.view()); }, {copy_between}},
           {"adjoint, point-to-point", [&] { messages.exchange_adjoint(in_place.view()); }, {copy, add}},
           {"adjoint, node-shared", [&] { shared.exchange_adjoint(field.view()); }, {copy, add}},
           {"adjoint, node-shared, field in NodeMemory",
            [&] { shared.exchange_adjoint(in_place.view()); },
            {add_between}},
           {"packing through index tables, messages", [&] { table.exchange_by_index_table(); }},
           {copy, [&] { packing.copy_only(); }},
           {add, [&] { adding.add_only(); }},
           {copy_between, [&] { hand.copy_from(packing); }},
           {add_between, [&] { hand.add_from(adding); }},
           {"packing and unpacking by memcpy, no messages", [&] { packing.packing_only(); }}},
          options.timing));
  context.report.data()["workspaces"] = shared.num_workspaces();
}

/// Columns of an uncut ring of longitudes: what packing costs against the same strided copy in plain loops.
void compare_columns(app::Context& context, Options const& options, Index channels) {
  auto const& comm = context.comm;
  Layout const layout(bands(comm), {options.num_rows, options.num_columns});
  std::vector<Width> const widths{{0, 0}, {options.width, options.width}};
  HaloPlan const plan(comm, layout, widths, Boundary::uniform(2, Edge::periodic));
  Field const field(plan, channels, false);
  ColumnsByHand const hand(field.data(), channels * plan.owned().extent(0), options.num_columns, options.width);
  {
    Field const expected(plan, channels, false);
    ColumnsByHand(expected.data(), channels * plan.owned().extent(0), options.num_columns, options.width).copy();
    plan.exchange(field.view());
    require(comm, field.equals(expected), "the plan's columns and the plain loops differ");
  }

  show(context,
       "columns of width " + std::to_string(options.width) + ", " + size_of_grid(options, channels) + ", " +
           ranks_of(comm) + ", uncut",
       interleave(context,
                  {{"strided copy in plain loops, side by side", [&] { hand.copy(); }},
                   {"HaloPlan, columns", [&] { plan.exchange(field.view()); }},
                   {"HaloPlan, adjoint of the columns", [&] { plan.exchange_adjoint(field.view()); }}},
                  options.timing));
}

/// Columns cut between the ranks: packed and sent.
void compare_cut_columns(app::Context& context, Options const& options, Index channels) {
  auto const& comm = context.comm;
  Layout const layout(ProcessGrid{1, comm.num_ranks()}, {options.num_rows, options.num_columns});
  std::vector<Width> const widths{{0, 0}, {options.width, options.width}};
  auto const ring = Boundary::uniform(2, Edge::periodic);
  auto const messages = with(HaloPlan(comm, layout, widths, ring), Transport::point_to_point);
  HaloPlan const shared(comm, layout, widths, ring);
  Field const field(messages, channels, false);
  Field const in_place(shared, channels, true);
  ColumnsByHand hand(in_place.data(), channels * messages.owned().extent(0), messages.owned().extent(1), options.width);
  show(context,
       "columns of width " + std::to_string(options.width) + ", " + size_of_grid(options, channels) + ", " +
           ranks_of(comm) + ", cut between them",
       interleave(context,
                  {{"gather and scatter in plain loops, no messages", [&] { hand.gather_and_scatter(); }},
                   {"HaloPlan, point-to-point", [&] { messages.exchange(field.view()); }},
                   {"HaloPlan, node-shared", [&] { shared.exchange(field.view()); }},
                   {"HaloPlan, node-shared, field in NodeMemory", [&] { shared.exchange(in_place.view()); }}},
                  options.timing));
}

/// Ten small fields: one call against ten.
void compare_number_of_calls(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  constexpr int num_fields = 10;
  Layout const layout(bands(comm), {90, 180});
  std::vector<Width> const widths{{1, 1}, {1, 1}};
  auto const sphere = Boundary::sphere(Edge::pole_face);
  auto const messages = with(HaloPlan(comm, layout, widths, sphere), Transport::point_to_point);
  HaloPlan const shared(comm, layout, widths, sphere);
  std::vector<std::unique_ptr<Field>> fields;
  std::vector<HaloField> views;
  for (int f = 0; f < num_fields; ++f) {
    fields.push_back(std::make_unique<Field>(shared, 1, false));
    views.push_back({fields.back()->view()});
  }
  auto const one_call = [&](HaloPlan const& plan) { return [&] { plan.exchange(views); }; };
  auto const ten_calls = [&](HaloPlan const& plan) {
    return [&] {
      for (auto const& view : views) plan.exchange(std::span(&view, 1));
    };
  };
  // What a call costs beyond the memory that it touches: with warm caches.
  Timing const warm{options.timing.num_repetitions, "warm"};
  show(context, "ten fields of 90 x 180 f32, width 1, poles and periodic longitude, warm, " + ranks_of(comm),
       interleave(context,
                  {{"ten calls, point-to-point", ten_calls(messages)},
                   {"one call, point-to-point", one_call(messages)},
                   {"ten calls, node-shared", ten_calls(shared)},
                   {"one call, node-shared", one_call(shared)}},
                  warm));
}

/// Remaining waiting time for messages when the interior is computed during the exchange.
void compare_overlap(app::Context& context, Options const& options, Index channels) {
  auto const& comm = context.comm;
  Layout const layout(bands(comm), {options.num_rows, options.num_columns});
  std::vector<Width> const widths{{options.width, options.width}, {0, 0}};
  auto const ring = Boundary::uniform(2, Edge::periodic);
  HaloPlan const plan(comm, layout, widths, ring);
  Field const field(plan, channels, false);
  // Enough work to hide a message, yet so little that ranks do not drift apart by more than that.
  Index const num_computed = std::max<Index>(1, channels / 16);
  std::vector<float> result(std::size_t(num_computed * plan.local().num_cells()));
  Index const row = options.num_columns;
  auto const compute = [&] {
    Index const cells = num_computed * plan.local().num_cells();
    for (Index i = row; i < cells - row; ++i)
      result[std::size_t(i)] = 0.25F * (field.data()[i - row] + field.data()[i + row] + 2 * field.data()[i]);
  };
  auto const samples = interleave(context,
                                  {{"exchange alone", [&] { plan.exchange(field.view()); }},
                                   {"interior alone", compute},
                                   {"exchange, then interior",
                                    [&] {
                                      plan.exchange(field.view());
                                      compute();
                                    }},
                                   {"start, interior, wait",
                                    [&] {
                                      auto pending = plan.start(field.view());
                                      compute();
                                      pending.wait();
                                    }}},
                                  options.timing);
  auto const waited = [&](auto const& step) {
    auto const before = plan.stats().wait_seconds;
    for (int i = 0; i < options.timing.num_repetitions; ++i) {
      comm.barrier();
      step();
    }
    std::array<double, 1> seconds{(plan.stats().wait_seconds - before) / options.timing.num_repetitions};
    comm.max(seconds);
    return seconds[0];
  };
  auto const title = "overlap, rows of width " + std::to_string(options.width) + ", " +
                     size_of_grid(options, channels) + ", " + ranks_of(comm);
  show(context, title, samples);
  double const alone = waited([&] { plan.exchange(field.view()); });
  double const hidden = waited([&] {
    auto pending = plan.start(field.view());
    compute();
    pending.wait();
  });
  auto& data = context.report.data()["results"][title];
  data["waiting_for_messages_seconds"] = {{"exchange alone", alone}, {"start, interior, wait", hidden}};
  if (comm.rank() == 0)
    std::printf("  waiting for messages: %.1f us alone, %.1f us with the interior between, %.1f %% of the exchange\n",
                1e6 * alone, 1e6 * hidden, 100 * hidden / samples[0].median());
}

/// A number of each global cell that every type holds exactly.
Index number_of(Index channel, Indices const& cell, Indices const& extents) {
  auto const wrapped = [&](int a) { return ((cell[a] % extents[a]) + extents[a]) % extents[a]; };
  return (channel * 131 + wrapped(0) * 17 + wrapped(1)) % 8191;
}

/// A box of `owned` of the same extents as `part` of the halo, beside it; `part` itself where `owned` is too small.
Box beside(Box const& part, Box const& owned) {
  Box result = part;
  for (int a = 0; a < part.ndim(); ++a) {
    if (part.extent(a) > owned.extent(a)) return part;
    Index const lo = std::clamp(part.lo(a), owned.lo(a), owned.hi(a) - part.extent(a));
    result.set(a, lo, lo + part.extent(a));
  }
  return result;
}

/// The case of the command line, round both axes: the plan against copies, bare messages, and packing alone.
template <class T>
void compare_case(app::Context& context, Options const& options, Case const& c) {
  auto const& comm = context.comm;
  Layout const layout(c.grid, c.extents);
  HaloPlan const plan(comm, layout, c.widths, Boundary::uniform(2, Edge::periodic));
  Box const& local = plan.local();
  std::vector<T> field(std::size_t(c.channels * local.num_cells()));
  auto const view = field_view(field.data(), {c.channels, local.extent(0), local.extent(1)}, 2);
  auto const each_cell = [&](auto const& visit) {
    std::size_t at = 0;
    for (Index channel = 0; channel < c.channels; ++channel)
      for_each_cell(local, [&](Indices const& cell) { visit(field[at++], channel, cell); });
  };
  each_cell([&](T& value, Index channel, Indices const& cell) {
    value = plan.owned().contains(cell) ? T(number_of(channel, cell, c.extents)) : T(-1);
  });
  plan.exchange(view);
  bool right = true;
  each_cell([&](T value, Index channel, Indices const& cell) {
    right = right && value == T(number_of(channel, cell, c.extents));
  });
  require(comm, right, "cells of the halo are not those of their owners");

  auto const parts = halo_boxes(plan.owned(), local, Corners::fill);
  std::vector<Box> packed;
  for (auto const& part : parts) packed.push_back(beside(part, plan.owned()));
  PackingOnly::Memory const memory{reinterpret_cast<std::byte*>(field.data()), local, c.channels, Index(sizeof(T))};
  PackingOnly mock(memory, packed, memory, parts);
  RawMessages raw(comm, plan.paths(), c.cell_bytes());
  std::vector<std::byte> from(mock.num_bytes());
  std::vector<std::byte> to(mock.num_bytes());
  auto const title = "halo of widths " + std::to_string(c.widths[0].lower) + "x" + std::to_string(c.widths[1].lower) +
                     ", " + c.text() + ", transport " + options.transport;
  show(context, title,
       interleave(context,
                  {{"memcpy of the same bytes", [&] { std::copy(from.begin(), from.end(), to.begin()); }},
                   {"bare messages of the same bytes", [&] { raw.exchange(); }},
                   {"packing and unpacking, no messages", [&] { mock.run(); }},
                   {"HaloPlan", [&] { plan.exchange(view); }},
                   {"HaloPlan, adjoint", [&] { plan.exchange_adjoint(view); }}},
                  options.timing));
  show_phases(
      context, title, options.timing, [&] { return plan.stats(); }, [&] { plan.exchange(view); });
  report_transport(context, plan.paths(), c.cell_bytes());
  context.report.set_partition(layout, {"latitude", "longitude"});
}

}  // namespace

void run_halo(app::Context& context, Options const& options) {
  auto const c = case_of(options, context.comm, 64, DType::f32);
  // The hand-written exchanges that the plan is compared with know bands, f32 and their direct neighbors only.
  bool const by_hand =
      options.partition == "auto" && options.transport == "auto" && options.widths.empty() && c.dtype == DType::f32;
  if (by_hand && options.width > options.num_rows / context.comm.num_ranks())
    throw Error(Fault::usage, "BadHaloWidth",
                "--width " + std::to_string(options.width) + " exceeds the " +
                    std::to_string(options.num_rows / context.comm.num_ranks()) + " rows that a rank may have");
  with_element(c.dtype, [&](auto element) { compare_case<decltype(element)>(context, options, c); });
  if (!by_hand) return;
  compare_rows(context, options, c.channels);
  compare_columns(context, options, c.channels);
  compare_cut_columns(context, options, c.channels);
  compare_number_of_calls(context, options);
  compare_overlap(context, options, c.channels);
}

}  // namespace graticule::bench
