// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cells.hpp>
#include <graticule/repartition/plan.hpp>

#include "case.hpp"
#include "mock.hpp"
#include "options.hpp"
#include "timing.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace graticule::bench {

namespace {

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
  // The plan moves the same volume as a copy; the fastest one is the limit.
  auto candidates = every_copy("memcpy of the same volume", reinterpret_cast<std::byte*>(copy.data()),
                               reinterpret_cast<std::byte const*>(from.data()), from.size() * sizeof(T));
  for (auto const& candidate : std::vector<Candidate>{
           {"bare messages of the same bytes", [&] { raw.exchange(); }},
           {"packing and unpacking, no messages", [&] { mock.run(); }},
           {"RepartitionPlan", [&] { plan.apply(from_view, to_view); }, {fastest_copy}},
           {"RepartitionPlan, inverse", [&] { plan.apply_inverse(from_view, to_view); }, {fastest_copy}},
           {"RepartitionPlan, adjoint", [&] { plan.apply_adjoint(from_view, to_view, {.beta = 0.0}); }}})
    candidates.push_back(candidate);
  auto const title = std::to_string(options.num_levels) + " levels of " + c.text() + ", from " +
                     to_string(*first.grid()) + " to " + to_string(*second.grid()) + ", transport " + options.transport;
  show(context, title, interleave(context, candidates, options.timing));
  show_phases(
      context, title, options.timing, [&] { return plan.stats(); }, [&] { plan.apply(from_view, to_view); });
  report_transport(context, plan.paths(), c.cell_bytes());
  context.report.set_partition(first, {"first", "second", "third"});
}

}  // namespace

void run_repartition(app::Context& context, Options const& options) {
  auto const c = case_of(options, context.comm, 1, DType::f64);
  with_element(c.dtype, [&](auto element) { compare_case<decltype(element)>(context, options, c); });
}

}  // namespace graticule::bench
