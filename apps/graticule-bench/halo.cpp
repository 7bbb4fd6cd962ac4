// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/detail/halo_boxes.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/cells.hpp>

#include "case.hpp"
#include "mock.hpp"
#include "options.hpp"
#include "timing.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace graticule::bench {

namespace {

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
  with_element(c.dtype, [&](auto element) { compare_case<decltype(element)>(context, options, c); });
}

}  // namespace graticule::bench
