// SPDX-License-Identifier: BSD-3-Clause
// Halos and transposes of fields in memory of the host or of a device, against copies and bare messages.
#include <graticule/app/numbers.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/repartition/kokkos_view.hpp>
#include <graticule/repartition/plan.hpp>

#include "options.hpp"
#include "timing.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace graticule::bench {

namespace {

/// The checked command line of a measurement.
struct Case {
  Indices extents;  ///< latitudes and longitudes
  Index channels = 1;
  DType dtype = DType::f32;
  ProcessGrid grid{1, 1};
  std::vector<Width> widths;  ///< of the halo, per axis

  [[nodiscard]] Index cell_bytes() const { return channels * size_of(dtype); }
  /// `64 x 721 x 1440 f32, 4x1 ranks`
  [[nodiscard]] std::string text() const {
    return std::to_string(channels) + " x " + std::to_string(extents[0]) + " x " + std::to_string(extents[1]) + " " +
           to_string(dtype) + ", " + to_string(grid) + " ranks";
  }
};

std::vector<Width> widths_of(Options const& options) {
  auto const both = app::count_from(options.widths);
  auto const widths = both ? Indices{*both, *both} : app::two_counts_from(options.widths).value_or(Indices{0, 0});
  if (widths[0] + widths[1] == 0)
    refuse("--widths " + options.widths + " is neither a number of cells nor ROWSxCOLUMNS such as 1x2");
  return {{widths[0], widths[0]}, {widths[1], widths[1]}};
}

/// @throws `BadOption` (usage)
Case case_of(Options const& options, Comm const& comm) {
  Case result;
  result.extents = {options.num_rows, options.num_columns};
  result.channels = options.num_channels;
  result.dtype = options.dtype == "f64" ? DType::f64 : DType::f32;
  result.grid = options.partition == "auto" ? bands(comm) : app::parse_partition(options.partition, comm.num_ranks());
  result.widths = widths_of(options);
  return result;
}

/// Contiguous `MPI_Isend` and `MPI_Irecv` of the bytes that a plan moves between the same ranks.
class RawMessages {
 public:
  /// @throws `BadOption` (usage) for what one MPI call does not take
  RawMessages(Comm const& comm, std::span<PeerPath const> paths, Index cell_bytes) : comm_(comm) {
    run_agreed(comm, [&] {
      for (auto const& path : paths)
        if (std::max(path.send_cells, path.receive_cells) > std::numeric_limits<int>::max() / cell_bytes)
          refuse("messages of more than 2 GiB; choose a smaller grid");
    });
    auto const add = [&](std::vector<Buffer>& to, int peer, Index cells) {
      if (cells > 0) to.push_back({peer, std::vector<std::byte>(std::size_t(cells * cell_bytes))});
    };
    for (auto const& path : paths) {
      add(sends_, path.peer, path.send_cells);
      add(receives_, path.peer, path.receive_cells);
    }
    requests_.resize(sends_.size() + receives_.size());
  }

  void exchange() {
    constexpr int tag = 30010;
    std::size_t r = 0;
    for (auto& [peer, bytes] : receives_)
      check_mpi(MPI_Irecv(bytes.data(), int(bytes.size()), MPI_BYTE, peer, tag, comm_.handle(), &requests_[r++]),
                "MPI_Irecv");
    for (auto& [peer, bytes] : sends_)
      check_mpi(MPI_Isend(bytes.data(), int(bytes.size()), MPI_BYTE, peer, tag, comm_.handle(), &requests_[r++]),
                "MPI_Isend");
    check_mpi(MPI_Waitall(int(r), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

 private:
  struct Buffer {
    int peer;
    std::vector<std::byte> bytes;
  };
  Comm comm_;
  std::vector<Buffer> sends_;
  std::vector<Buffer> receives_;
  std::vector<MPI_Request> requests_;
};

/// Seconds of each phase of a call, of the slowest rank, on average over the repetitions; printed and in the report
/// under `phases`. Collective.
template <class Plan>
void show_phases(app::Context& context, std::string const& title, Timing const& timing, Plan const& plan,
                 std::function<void()> const& call) {
  auto const seconds = [&] {
    auto const now = plan.stats();
    return std::array<double, 4>{now.pack_seconds, now.local_seconds, now.wait_seconds, now.unpack_seconds};
  };
  auto mean = seconds();
  for (int i = 0; i < timing.num_repetitions; ++i) {
    context.comm.barrier();
    call();
  }
  auto const after = seconds();
  for (std::size_t p = 0; p < mean.size(); ++p) mean[p] = (after[p] - mean[p]) / timing.num_repetitions;
  context.comm.max(mean);
  context.report.data()["results"][title]["phases"] = {
      {"pack_and_post", mean[0]}, {"local", mean[1]}, {"wait", mean[2]}, {"unpack", mean[3]}};
  if (context.comm.rank() == 0)
    std::printf("  phases, warm: pack and post %.1f us, local %.1f us, wait %.1f us, unpack %.1f us\n", 1e6 * mean[0],
                1e6 * mean[1], 1e6 * mean[2], 1e6 * mean[3]);
}

/// `transport` of the report. Collective.
void report_transport(app::Context& context, std::span<PeerPath const> paths, Index cell_bytes) {
  app::Report::Sent sent{"one call", 0, 0};
  for (auto const& path : paths) {
    sent.num_messages += path.send_cells > 0 ? 1 : 0;
    sent.num_bytes += double(path.send_cells * cell_bytes);
  }
  context.report.set_transport(context.comm, context.comm, paths, sent);
}

using DeviceSpace = Kokkos::DefaultExecutionSpace::memory_space;

/// Bytes in memory of the host, or of a device.
template <class Space>
using Bytes = Kokkos::View<std::byte*, Space>;

template <class Space>
Bytes<Space> bytes_of(std::size_t num_bytes) {
  return Bytes<Space>(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("graticule-bench")), num_bytes);
}

/// A build without devices computes on the host alone.
template <class Space>
constexpr bool on_host = std::is_same_v<Space, Kokkos::HostSpace>;

template <class Space>
void copy_bytes(Bytes<Space> const& to, Bytes<Space> const& from) {
  if (on_host<Space>)
    std::memcpy(to.data(), from.data(), from.size());
  else
    Kokkos::deep_copy(to, from);
}

/// A field [channel, cells of a box].
template <class T, class Space>
class Field {
 public:
  Field(Box const& box, Index channels) : box_(box), channels_(channels), memory_(bytes_of<Space>(num_bytes())) {}

  using Number = std::function<T(Index channel, Indices const& cell)>;
  void fill(Number const& number) const {
    auto values = numbers(number);
    Kokkos::deep_copy(memory_, host(values));
  }
  [[nodiscard]] bool equals(Number const& number) const {
    std::vector<T> values(std::size_t(channels_ * box_.num_cells()));
    Kokkos::deep_copy(host(values), memory_);
    return values == numbers(number);
  }

  [[nodiscard]] FieldView view() const {
    std::vector<Index> sizes{channels_};
    for (int a = 0; a < box_.ndim(); ++a) sizes.push_back(box_.extent(a));
    auto* const data = reinterpret_cast<T*>(memory_.data());
    auto result = field_view(data, Indices(std::span<Index const>(sizes)), box_.ndim());
    result.space = on_host<Space> ? MemorySpace::host : MemorySpace::device;
    return result;
  }
  [[nodiscard]] Bytes<Space> const& memory() const { return memory_; }

 private:
  [[nodiscard]] std::size_t num_bytes() const { return std::size_t(channels_ * box_.num_cells()) * sizeof(T); }
  [[nodiscard]] auto host(std::vector<T>& values) const {
    return Kokkos::View<std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
        reinterpret_cast<std::byte*>(values.data()), num_bytes());
  }
  [[nodiscard]] std::vector<T> numbers(Number const& number) const {
    std::vector<T> values;
    for (Index channel = 0; channel < channels_; ++channel)
      for_each_cell(box_, [&](Indices const& cell) { values.push_back(number(channel, cell)); });
    return values;
  }
  Box box_;
  Index channels_;
  Bytes<Space> memory_;
};

/// A number of each global cell that every type holds exactly.
Index number_of(Index channel, Indices const& cell, Indices const& extents) {
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

/// Times copies, bare messages of the same bytes (on the host), and calls of a plan, the first of which also shows its
/// phases; on a device also what they take in a queue. `queued_copy` is the copy there. Collective.
template <class Plan>
void compare(app::Context& context, Options const& options, Case const& c, Plan const& plan, std::string const& title,
             std::vector<Candidate> const& copies, std::vector<Candidate> const& calls,
             std::function<void(Kokkos::DefaultExecutionSpace const&)> const& queued_copy) {
  bool const is_host = options.device.is_host();
  std::optional<RawMessages> raw;
  auto candidates = copies;
  if (is_host) {
    raw.emplace(context.comm, plan.paths(), c.cell_bytes());
    candidates.push_back({"bare messages of the same bytes", [&] { raw->exchange(); }});
  }
  candidates.insert(candidates.end(), calls.begin(), calls.end());
  show(context, title, interleave(context, candidates, options.timing));
  if (!is_host) {
    Kokkos::DefaultExecutionSpace const space;
    DeviceQueueScope const scope(device_queue(space));
    std::vector<Candidate> queued{{copies.front().name, [&] { queued_copy(space); }}};
    queued.insert(queued.end(), calls.begin(), calls.end());
    show_queued(context, title, queued);
  }
  show_phases(context, title, options.timing, plan, calls.front().run);
  if (!is_host) {
    tell_path(context, title, plan.stats());
    context.report.data()["device"] = options.device.report(context.comm);
  }
  report_transport(context, plan.paths(), c.cell_bytes());
}

template <class T, class Space>
void halo_of_case(app::Context& context, Options const& options, Case const& c) {
  Layout const layout(c.grid, c.extents);
  HaloPlan const plan(context.comm, layout, c.widths, Boundary::uniform(2, Edge::periodic));
  Field<T, Space> const field(plan.local(), c.channels);
  auto const number = [&](Index channel, Indices const& cell) { return T(number_of(channel, cell, c.extents)); };
  field.fill(
      [&](Index channel, Indices const& cell) { return plan.owned().contains(cell) ? number(channel, cell) : T(-1); });
  auto const view = field.view();
  plan.exchange(view);
  require(context.comm, field.equals(number), "cells of the halo are not those of their owners");

  auto const bytes = std::size_t((plan.local().num_cells() - plan.owned().num_cells()) * c.cell_bytes());
  auto const from = bytes_of<Space>(bytes);
  auto const to = bytes_of<Space>(bytes);
  compare(context, options, c, plan,
          "halo of widths " + std::to_string(c.widths[0].lower) + "x" + std::to_string(c.widths[1].lower) +
              options.place() + ", " + c.text() + ", transport " + options.transport,
          {{on_host<Space> ? "memcpy of the same bytes" : "copy of the same bytes on the device",
            [&] { copy_bytes<Space>(to, from); }}},
          {{"HaloPlan", [&] { plan.exchange(view); }}, {"HaloPlan, adjoint", [&] { plan.exchange_adjoint(view); }}},
          [&](auto const& space) { Kokkos::deep_copy(space, to, from); });
  context.report.set_partition(layout, {"latitude", "longitude"});
}

/// The axes that are cut move on by one, as in the transposes of a three-dimensional Fourier transform.
template <class T, class Space>
void repartition_of_case(app::Context& context, Options const& options, Case const& c) {
  Indices const extents{options.num_rows, options.num_columns, options.num_levels};
  auto const& ranks = c.grid.extents();
  Layout const first(ProcessGrid{ranks[0], ranks[1], 1}, extents);
  Layout const second(ProcessGrid{1, ranks[0], ranks[1]}, extents);
  RepartitionPlan const plan(context.comm, first, second);
  Field<T, Space> const from(plan.source_box(), c.channels);
  Field<T, Space> const to(plan.target_box(), c.channels);
  Field<T, Space> const copy(plan.source_box(), c.channels);
  auto const number = [&](Index channel, Indices const& cell) { return T(number_of(channel, cell, extents)); };
  from.fill(number);
  auto const from_view = from.view();
  auto const to_view = to.view();
  plan.apply(from_view, to_view);
  require(context.comm, to.equals(number), "cells are not those of their owners");

  // The plan moves the same volume as a copy; on the host the fastest one is the limit.
  auto const role = Candidate::Role::as_copy;
  std::vector<Candidate> calls{{"RepartitionPlan", [&] { plan.apply(from_view, to_view); }, role},
                               {"RepartitionPlan, inverse", [&] { plan.apply_inverse(from_view, to_view); }, role}};
  std::vector<Candidate> copies{
      {"copy of the same volume on the device", [&] { copy_bytes<Space>(copy.memory(), from.memory()); }}};
  if (on_host<Space>) {
    calls.push_back({"RepartitionPlan, adjoint", [&] { plan.apply_adjoint(from_view, to_view, {.beta = 0.0}); }});
    copies = every_copy("memcpy of the same volume", copy.memory().data(), from.memory().data(), from.memory().size());
  }
  compare(context, options, c, plan,
          std::to_string(options.num_levels) + " levels of " + c.text() + options.place() + ", from " +
              to_string(*first.grid()) + " to " + to_string(*second.grid()) + ", transport " + options.transport,
          copies, calls, [&](auto const& space) { Kokkos::deep_copy(space, copy.memory(), from.memory()); });
  context.report.set_partition(first, {"first", "second", "third"});
}

/// Calls `action(T(), Space(), case)` for the elements and the memory of the options.
template <class Action>
void with_case(app::Context& context, Options const& options, Action&& action) {
  auto const c = case_of(options, context.comm);
  auto const with_space = [&](auto element) {
    options.device.is_host() ? action(element, Kokkos::HostSpace(), c) : action(element, DeviceSpace(), c);
  };
  c.dtype == DType::f64 ? with_space(double()) : with_space(float());
}

}  // namespace

void run_halo(app::Context& context, Options const& options) {
  with_case(context, options, [&](auto element, auto space, Case const& c) {
    halo_of_case<decltype(element), decltype(space)>(context, options, c);
  });
}

void run_repartition(app::Context& context, Options const& options) {
  with_case(context, options, [&](auto element, auto space, Case const& c) {
    repartition_of_case<decltype(element), decltype(space)>(context, options, c);
  });
}

}  // namespace graticule::bench
