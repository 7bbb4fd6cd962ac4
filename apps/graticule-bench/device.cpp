// SPDX-License-Identifier: BSD-3-Clause
#include "device.hpp"

#include <graticule/halo/plan.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/repartition/kokkos_view.hpp>
#include <graticule/repartition/plan.hpp>

#include "case.hpp"
#include "mock.hpp"

#include <Kokkos_Core.hpp>

#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace graticule::bench {

namespace {

using DeviceBytes = Kokkos::View<std::byte*, Kokkos::DefaultExecutionSpace::memory_space>;
using HostBytes = Kokkos::View<std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using ConstHostBytes = Kokkos::View<std::byte const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

DeviceBytes device_bytes(std::size_t num_bytes) {
  return DeviceBytes(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("graticule-bench")), num_bytes);
}

/// From one place of the device to another, and waits.
void copy_on_device(DeviceBytes const& to, DeviceBytes const& from) { Kokkos::deep_copy(to, from); }

/// A field [channel, cells of a box] in memory of the device.
template <class T>
class DeviceField {
 public:
  DeviceField(Box const& box, Index channels) : box_(box), channels_(channels), memory_(device_bytes(num_bytes())) {}

  using Number = std::function<T(Index channel, Indices const& cell)>;
  void fill(Number const& number) const {
    std::vector<T> values;
    each([&](Index channel, Indices const& cell) { values.push_back(number(channel, cell)); });
    Kokkos::deep_copy(memory_, ConstHostBytes(reinterpret_cast<std::byte const*>(values.data()), num_bytes()));
  }
  [[nodiscard]] bool equals(Number const& number) const {
    std::vector<T> values(std::size_t(channels_ * box_.num_cells()));
    Kokkos::deep_copy(HostBytes(reinterpret_cast<std::byte*>(values.data()), num_bytes()), memory_);
    bool equal = true;
    std::size_t at = 0;
    each([&](Index channel, Indices const& cell) { equal = equal && values[at++] == number(channel, cell); });
    return equal;
  }

  [[nodiscard]] FieldView view() const {
    std::vector<Index> sizes{channels_};
    for (int a = 0; a < box_.ndim(); ++a) sizes.push_back(box_.extent(a));
    auto result = field_view(data(), Indices(std::span<Index const>(sizes)), box_.ndim());
    result.space = MemorySpace::device;
    return result;
  }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  [[nodiscard]] DeviceBytes const& memory() const { return memory_; }
  [[nodiscard]] std::size_t num_bytes() const { return std::size_t(channels_ * box_.num_cells()) * sizeof(T); }

 private:
  template <class Visit>
  void each(Visit const& visit) const {
    for (Index channel = 0; channel < channels_; ++channel)
      for_each_cell(box_, [&](Indices const& cell) { visit(channel, cell); });
  }
  Box box_;
  Index channels_;
  DeviceBytes memory_;
};

/// A number of each global cell that every type holds exactly.
Index device_number(Index channel, Indices const& cell, Indices const& extents) {
  Index result = channel * 131;
  for (int a = 0; a < cell.size(); ++a) result = 17 * result + ((cell[a] % extents[a]) + extents[a]) % extents[a];
  return result % 8191;
}

/// Calls that are put into a queue one after the other, as a step of a network does: how long the host of the slowest
/// rank takes for each, and how long each takes until all have completed. Collective.
void show_queued(app::Context& context, std::string const& title, std::vector<Candidate> const& candidates) {
  constexpr int num_calls = 50;
  constexpr int num_repetitions = 11;
  auto& data = context.report.data()["results"][title];
  if (context.comm.rank() == 0)
    std::printf("  %-42s %12s %12s\n", ("queued, " + std::to_string(num_calls) + " calls in a row, each").c_str(),
                "host us", "all us");
  for (auto const& candidate : candidates) {
    Samples host{candidate.name, {}};
    Samples all{candidate.name, {}};
    for (int repetition = -1; repetition < num_repetitions; ++repetition) {
      context.comm.barrier();
      double const begin = MPI_Wtime();
      for (int call = 0; call < num_calls; ++call) candidate.run();
      double const queued = MPI_Wtime();
      Kokkos::fence();
      std::array slowest{queued - begin, MPI_Wtime() - begin};
      context.comm.max(slowest);
      if (repetition < 0) continue;
      host.seconds.push_back(slowest[0] / num_calls);
      all.seconds.push_back(slowest[1] / num_calls);
    }
    data[candidate.name]["queued"] = {{"host_seconds", host.seconds}, {"seconds", all.seconds}};
    if (context.comm.rank() == 0)
      std::printf("  %-42s %12.1f %12.1f\n", candidate.name.c_str(), 1e6 * host.median(), 1e6 * all.median());
  }
}

/// Who reads memory of the device, in the report and on the screen.
void tell_path(app::Context& context, std::string const& title, PullStats const& stats) {
  auto& result = context.report.data()["results"][title];
  result["mpi_reads_device"] = stats.mpi_reads_device;
  result["peers_read_device"] = stats.peers_read_device;
  if (context.comm.rank() != 0) return;
  std::printf("  messages within a node: %s\n",
              stats.peers_read_device ? "peers read device memory" : "through pinned host memory");
  std::printf("  messages by MPI: %s\n",
              stats.mpi_reads_device ? "MPI reads device memory" : "through pinned host memory");
}

template <class T>
void halo_of_case(app::Context& context, Options const& options, Case const& c) {
  auto const& comm = context.comm;
  Layout const layout(c.grid, c.extents);
  HaloPlan const plan(comm, layout, c.widths, Boundary::uniform(2, Edge::periodic));
  DeviceField<T> const field(plan.local(), c.channels);
  auto const number = [&](Index channel, Indices const& cell) { return T(device_number(channel, cell, c.extents)); };
  field.fill(
      [&](Index channel, Indices const& cell) { return plan.owned().contains(cell) ? number(channel, cell) : T(-1); });
  plan.exchange(field.view());
  require(comm, field.equals(number), "cells of the halo on the device are not those of their owners");

  auto const bytes = std::size_t((plan.local().num_cells() - plan.owned().num_cells()) * c.cell_bytes());
  auto const from = device_bytes(bytes);
  auto const to = device_bytes(bytes);
  std::string const copy_name = "copy of the same bytes on the device";
  auto const title = "halo of widths " + std::to_string(c.widths[0].lower) + "x" + std::to_string(c.widths[1].lower) +
                     " on " + options.device.name() + ", " + c.text() + ", transport " + options.transport;
  show(context, title,
       interleave(context,
                  {{copy_name, [&] { copy_on_device(to, from); }},
                   {"HaloPlan", [&] { plan.exchange(field.view()); }},
                   {"HaloPlan, adjoint", [&] { plan.exchange_adjoint(field.view()); }}},
                  options.timing));
  {
    Kokkos::DefaultExecutionSpace const space;
    DeviceQueueScope const scope(device_queue(space));
    show_queued(context, title,
                {{copy_name, [&] { Kokkos::deep_copy(space, to, from); }},
                 {"HaloPlan", [&] { plan.exchange(field.view()); }},
                 {"HaloPlan, adjoint", [&] { plan.exchange_adjoint(field.view()); }}});
  }
  show_phases(
      context, title, options.timing, [&] { return plan.stats(); }, [&] { plan.exchange(field.view()); });
  tell_path(context, title, plan.stats());
  context.report.data()["device"] = options.device.report(comm);
  report_transport(context, plan.paths(), c.cell_bytes());
  context.report.set_partition(layout, {"latitude", "longitude"});
}

template <class T>
void repartition_of_case(app::Context& context, Options const& options, Case const& c) {
  auto const& comm = context.comm;
  auto const [extents, first, second] = transposition_of(options, c);
  RepartitionPlan const plan(comm, first, second);
  DeviceField<T> const from(plan.source_box(), c.channels);
  DeviceField<T> const to(plan.target_box(), c.channels);
  DeviceField<T> const copy(plan.source_box(), c.channels);
  auto const number = [&](Index channel, Indices const& cell) { return T(device_number(channel, cell, extents)); };
  from.fill(number);
  plan.apply(from.view(), to.view());
  require(comm, to.equals(number), "cells on the device are not those of their owners");

  std::string const copy_name = "copy of the same volume on the device";
  auto const title = std::to_string(options.num_levels) + " levels of " + c.text() + " on " + options.device.name() +
                     ", from " + to_string(*first.grid()) + " to " + to_string(*second.grid()) + ", transport " +
                     options.transport;
  show(context, title,
       interleave(context,
                  {{copy_name, [&] { copy_on_device(copy.memory(), from.memory()); }},
                   {"RepartitionPlan", [&] { plan.apply(from.view(), to.view()); }},
                   {"RepartitionPlan, inverse", [&] { plan.apply_inverse(from.view(), to.view()); }}},
                  options.timing));
  {
    Kokkos::DefaultExecutionSpace const space;
    DeviceQueueScope const scope(device_queue(space));
    show_queued(context, title,
                {{copy_name, [&] { Kokkos::deep_copy(space, copy.memory(), from.memory()); }},
                 {"RepartitionPlan", [&] { plan.apply(from.view(), to.view()); }},
                 {"RepartitionPlan, inverse", [&] { plan.apply_inverse(from.view(), to.view()); }}});
  }
  show_phases(
      context, title, options.timing, [&] { return plan.stats(); }, [&] { plan.apply(from.view(), to.view()); });
  tell_path(context, title, plan.stats());
  context.report.data()["device"] = options.device.report(comm);
  report_transport(context, plan.paths(), c.cell_bytes());
  context.report.set_partition(first, {"first", "second", "third"});
}

}  // namespace

void run_halo_on_device(app::Context& context, Options const& options) {
  auto const c = case_of(options, context.comm, 64, DType::f32);
  with_element(c.dtype, [&](auto element) { halo_of_case<decltype(element)>(context, options, c); });
}

void run_repartition_on_device(app::Context& context, Options const& options) {
  auto const c = case_of(options, context.comm, 1, DType::f64);
  with_element(c.dtype, [&](auto element) { repartition_of_case<decltype(element)>(context, options, c); });
}

}  // namespace graticule::bench
