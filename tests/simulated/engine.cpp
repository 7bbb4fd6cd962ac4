// SPDX-License-Identifier: BSD-3-Clause
// The engine on simulated ranks: every ghost cell, every moved cell, sums bit by bit, errors of one rank. Prints for
// each phase the messages and bytes of the rank that sends most, simulated and real seconds. For scripts/simulate.
//
//   engine [LATITUDES LONGITUDES [PART...]]    cells and sums without PART
//
// PART: cells (halos and repartitions), sums (and errors), comparisons (of calls, which sums include), plan (one halo),
// halo (the same, also with 32 levels, for weak scaling), transposition and pencils (for strong scaling: rows to
// columns, and blocks of rows and columns to blocks of columns and 64 levels, also with 8 variables).
#include <graticule/halo/plan.hpp>
#include <graticule/messages/detail/call_comparison.hpp>
#include <graticule/messages/detail/ordered_sum.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/partition/relabel.hpp>
#include <graticule/partition/shared_layout.hpp>
#include <graticule/partition/stall.hpp>
#include <graticule/repartition/detail/plan_text.hpp>
#include <graticule/repartition/dump.hpp>
#include <graticule/repartition/plan.hpp>

#include "reference.hpp"
#include "smpi_calls.hpp"

#include <Kokkos_Core.hpp>
#include <mpi.h>
#include <smpi/smpi_helpers_internal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

using namespace graticule;
using simulated::counts;

namespace {

long num_wrong = 0;  ///< of this rank

void require(bool right) { num_wrong += right ? 0 : 1; }

long peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6);
  return 0;
}

double real_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Runs a part of the program on all ranks, and prints what it took.
template <class Action>
void phase(char const* name, Action&& action) {
  PMPI_Barrier(MPI_COMM_WORLD);
  auto const before = counts();
  long const wrong_before = num_wrong;
  double const real = real_seconds();
  double const begin = PMPI_Wtime();
  action();
  double const seconds = PMPI_Wtime() - begin;
  auto const after = counts();
  std::array<double, 4> const own{seconds, double(after.messages - before.messages), double(after.bytes - before.bytes),
                                  double(after.tests - before.tests)};
  std::array<double, 4> most{};
  PMPI_Allreduce(own.data(), most.data(), int(own.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  long const wrong = num_wrong - wrong_before;
  long all_wrong = 0;
  PMPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  std::printf("%-28s %4.0f messages %8.0f bytes %6.0f tests %9.4f ms simulated %7.2f s real %ld wrong\n", name, most[1],
              most[2], most[3], 1e3 * most[0], real_seconds() - real, all_wrong);
  std::fflush(stdout);
}

/// Simulated seconds of the slowest rank.
template <class Action>
double longest(Action&& action) {
  PMPI_Barrier(MPI_COMM_WORLD);
  double const begin = PMPI_Wtime();
  action();
  double seconds = PMPI_Wtime() - begin;
  PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double number(Indices const& cell) {
  return double(((cell[0] + 100) * 100000 + cell[1]) * 100 + (cell.size() > 2 ? cell[2] : 0));
}

/// A field of one rank that covers `box`, filled with NaN.
struct Field {
  explicit Field(Box const& covered)
      : box(covered), values(std::size_t(covered.num_cells()), std::numeric_limits<double>::quiet_NaN()) {}

  [[nodiscard]] FieldView view() { return field_view(values.data(), box.extents(), box.ndim()); }
  double& at(Indices const& cell) {
    Index at = 0;
    for (int a = 0; a < box.ndim(); ++a) at = at * box.extent(a) + cell[a] - box.lo(a);
    return values[std::size_t(at)];
  }

  Box box;
  std::vector<double> values;
};

/// Memory for a field of every rank, whose values do not matter: ranks are in one process, and all get the same.
class SharedMemory {
 public:
  explicit SharedMemory(Index count) {
    PMPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) own_.assign(std::size_t(count), 1.0);
    data_ = own_.data();
    PMPI_Bcast(&data_, int(sizeof data_), MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  SharedMemory(SharedMemory const&) = delete;
  SharedMemory& operator=(SharedMemory const&) = delete;
  ~SharedMemory() { PMPI_Barrier(MPI_COMM_WORLD); }

  /// Levels, or variables, of the cells of a box.
  [[nodiscard]] FieldView view(Index levels, Box const& box) const {
    auto extents = Indices::filled(box.ndim() + 1, levels);
    for (int a = 0; a < box.ndim(); ++a) extents[a + 1] = box.extent(a);
    return field_view(data_, extents, box.ndim());
  }

 private:
  std::vector<double> own_;
  double* data_ = nullptr;
};

/// Exchanges a field of two components' parities, and compares every cell.
void check_halo(Comm const& comm, HaloPlan const& plan, Layout const& layout, Boundary const& boundary) {
  for (auto const parity : {Parity::even, Parity::odd}) {
    Field field(plan.local());
    for_each_cell(plan.owned(), [&](Indices const& cell) { field.at(cell) = number(cell); });

    plan.exchange(std::array{HaloField{field.view(), parity}});

    auto const extents = layout.global().extents();
    for_each_cell(plan.local(), [&](Indices const& cell) {
      auto const image = test::image_of(cell, extents, boundary);
      bool const odd = (image.odd_folds && parity == Parity::odd) != image.negated;
      bool const is_filled = test::is_filled(cell, layout.owned(comm.rank()), Corners::fill, extents, boundary);
      double expected = number(cell);
      if (is_filled && image.kind == test::Image::Kind::cell) expected = (odd ? -1 : 1) * number(image.cell);
      if (is_filled && image.kind == test::Image::Kind::constant) expected = image.constant;
      bool const untouched = is_filled && image.kind == test::Image::Kind::nothing;
      require(untouched ? std::isnan(field.at(cell)) : field.at(cell) == expected);
    });
  }
}

bool num_ranks_of_dump_exceeded(Comm const& comm) { return comm.num_ranks() > 512; }

/// A plan, one exchange of which every cell is compared, and three more.
void try_halo(Comm const& comm, std::string const& name, Layout const& layout, Boundary const& boundary,
              Index levels = 0) {
  std::vector<Width> const widths{{1, 1}, {2, 1}};
  std::unique_ptr<HaloPlan> plan;
  long const before = peak_kilobytes();
  phase(("plan: " + name).c_str(), [&] { plan = std::make_unique<HaloPlan>(comm, layout, widths, boundary); });
  long const grown = peak_kilobytes() - before;
  phase(("cells: " + name).c_str(), [&] { check_halo(comm, *plan, layout, boundary); });
  Field field(plan->local());
  auto const sent_before = counts();
  auto const stats_before = plan->stats().point_to_point;
  phase(("3 exchanges: " + name).c_str(), [&] {
    for (int i = 0; i < 3; ++i) plan->exchange(field.view());
  });
  // Rank 0 would hold the text of all.
  std::string refusal;
  try {
    if (num_ranks_of_dump_exceeded(comm)) static_cast<void>(plan_text(plan->pull_plan()));
  } catch (Error const& error) {
    refusal = error.rule();
  }
  require(refusal == (num_ranks_of_dump_exceeded(comm) ? "Unsupported" : ""));
  // As many messages and bytes as the plan counts, and the number at the head of each message.
  auto const stats = plan->stats().point_to_point;
  auto const peers = plan->counts().num_send_peers;
  auto const num_messages = counts().messages - sent_before.messages;
  require(num_messages == 3 * peers);
  require(num_messages == stats.num_messages - stats_before.num_messages);
  require(counts().bytes - sent_before.bytes == stats.bytes - stats_before.bytes + num_messages * Index(sizeof(Index)));
  if (comm.rank() == 0)
    std::printf("  memory of the plan: %.2f MB per rank\n", double(grown) / 1024 / comm.num_ranks());
  if (levels == 0) return;
  SharedMemory const memory(levels * plan->local().num_cells());
  auto const deep = memory.view(levels, plan->local());
  plan->exchange(deep);
  // The time of the simulator grows with the number of messages.
  int const number = comm.num_ranks() > 256 ? 2 : 10;
  phase((std::to_string(levels) + " levels, " + std::to_string(number) + " exchanges").c_str(), [&] {
    for (int i = 0; i < number; ++i) plan->exchange(deep);
  });
}

/// The bytes that the fullest rank sends to the other ranks of its node of 8, and beyond.
void print_bytes(Comm const& comm, Layout const& from, Layout const& to, Index levels) {
  constexpr int num_node_ranks = 8;
  std::array<double, 2> most{};
  auto const own = from.owned(comm.rank());
  for (int r = 0; r < comm.num_ranks(); ++r)
    if (r != comm.rank())
      most[r / num_node_ranks == comm.rank() / num_node_ranks ? 0 : 1] +=
          double(levels) * double(sizeof(double)) * double(intersection(own, to.owned(r)).num_cells());
  PMPI_Allreduce(MPI_IN_PLACE, most.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (comm.rank() == 0)
    std::printf("  bytes of the fullest rank: %.0f to ranks of a node of %d, %.0f beyond\n", most[0], num_node_ranks,
                most[1]);
}

void try_repartition(Comm const& comm, std::string const& name, Layout const& from, Layout const& to,
                     Index levels = 0) {
  std::unique_ptr<RepartitionPlan> plan;
  phase(("plan: " + name).c_str(), [&] { plan = std::make_unique<RepartitionPlan>(comm, from, to); });
  phase(("cells: " + name).c_str(), [&] {
    Field source(from.owned(comm.rank()));
    Field target(to.owned(comm.rank()));
    for_each_cell(source.box, [&](Indices const& cell) { source.at(cell) = number(cell); });
    plan->apply(source.view(), target.view());
    for_each_cell(target.box, [&](Indices const& cell) { require(target.at(cell) == number(cell)); });
  });
  if (levels == 0) return;
  auto const source_box = from.owned(comm.rank());
  auto const target_box = to.owned(comm.rank());
  SharedMemory const source(levels * source_box.num_cells());
  SharedMemory const target(levels * target_box.num_cells());
  phase((std::to_string(levels) + " levels: " + name).c_str(),
        [&] { plan->apply(source.view(levels, source_box), target.view(levels, target_box)); });
  print_bytes(comm, from, to, levels);
}

/// The boxes of `to` on the ranks that hold most of their cells, as rank 0 finds them.
Layout relabelled(Comm const& comm, Layout const& from, Layout const& to) {
  std::optional<Layout> shared;
  phase("layout from rank 0", [&] {
    std::optional<PartLayout> own;
    if (comm.rank() == 0) own.emplace(PartLayout{relabel(from, to).layout, comm});
    shared.emplace(shared_layout(comm, own));
  });
  return *shared;
}

/// A list of boxes: all ranks search it.
Layout as_list(Layout const& layout) {
  std::vector<Box> boxes;
  for (int r = 0; r < layout.num_ranks(); ++r) boxes.push_back(layout.owned(r));
  return Layout::from_boxes(layout.global().extents(), boxes);
}

double term(int rank, Index i) {
  return std::sin(double(7 * i + 1)) * std::pow(10.0, double((rank * 5 + i) % 17) - 8.0);
}

void try_sums(Comm const& comm) {
  constexpr Index count = 4096;
  std::vector<double> expected(std::size_t(count), 0.0);
  // Only rank 0 and the last compute what all should get: in one process that is much work.
  bool const compares = comm.rank() == 0 || comm.rank() == comm.num_ranks() - 1;
  for (int r = 0; compares && r < comm.num_ranks(); ++r)
    for (Index i = 0; i < count; ++i) expected[std::size_t(i)] += term(r, i);
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(term(comm.rank(), i));
  messages::OrderedSum sum(comm, sizeof(double));
  phase("ordered sum of 4,096", [&] {
    sum.start(reinterpret_cast<std::byte*>(values.data()), count, [](messages::SumPart const& part) {
      for (Index i = 0; i < part.count; ++i) {
        double total = 0;
        for (auto* const one : part.terms) total += reinterpret_cast<double const*>(one)[i];
        for (auto* const result : part.results) reinterpret_cast<double*>(result)[i] = total;
      }
    });
    std::function<std::string()> const describe = [] { return std::string("waits for a sum"); };
    detail::Patience patience(comm, describe);
    while (!sum.advance()) patience.pause();
  });
  std::uint64_t hash = 1469598103934665603U;
  for (double const value : values) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 1099511628211U;
  }
  std::uint64_t first = hash;
  PMPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  require(hash == first);
  if (compares) require(std::memcmp(values.data(), expected.data(), std::size_t(count) * sizeof(double)) == 0);

  phase("maximum", [&] {
    std::array<Index, 1> most{comm.rank()};
    comm.max(most);
    require(most[0] == comm.num_ranks() - 1);
  });
  phase("sum of 8 numbers", [&] {
    std::array<Index, 8> ones{};
    ones.fill(1);
    comm.sum(ones);
    for (Index const one : ones) require(one == comm.num_ranks());
  });
  phase("gathering of 8 bytes", [&] {
    auto const ranks = comm.gather_to_all(Index(comm.rank()));
    for (int r = 0; r < comm.num_ranks(); ++r) require(ranks[std::size_t(r)] == r);
  });
}

std::string text_of_comparison(messages::CallComparison& comparison, std::string const& call) {
  try {
    comparison.compare(call);
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}

void try_comparisons(Comm const& comm) {
  int const last = comm.num_ranks() - 1;
  messages::CallComparison comparison(comm);
  phase("comparison of calls", [&] { require(text_of_comparison(comparison, "a forward").empty()); });
  messages::CallComparison direct(comm, comm.num_ranks());
  phase("comparison by rank 0 alone", [&] { require(text_of_comparison(direct, "a forward").empty()); });
  phase("calls that differ", [&] {
    require(text_of_comparison(comparison, comm.rank() == last ? "a backward" : "a forward") ==
            "CallDisagreement: rank 0 has a forward, rank " + std::to_string(last) + " has a backward");
  });
}

/// The last rank reports to another than rank 0, and is late.
void try_late_call(Comm const& comm) {
  auto const kept = stall_rule();
  set_stall_rule({.report_seconds = 0, .error_seconds = 0.05});
  messages::CallComparison comparison(comm);
  phase("call of a late rank", [&] {
    int const last = comm.num_ranks() - 1;
    if (comm.rank() == last) smpi_usleep(1500000);
    auto const text = text_of_comparison(comparison, "a forward");
    require(text.find("rank 0 waits before a forward for the same call of rank 1 (or of ") != std::string::npos ||
            text.find("rank 0 waits before a forward for the same call of rank 3 (or of ") != std::string::npos);
    require(text.find(" waits for the same call of rank " + std::to_string(last)) != std::string::npos);
  });
  set_stall_rule(kept);
}

void try_errors(Comm const& comm) {
  int const last = comm.num_ranks() - 1;
  phase("agreed error of a rank", [&] {
    std::string text;
    try {
      run_agreed(comm, [&] {
        if (comm.rank() == last) throw Error("BadCells", "cell 7 is bad");
      });
    } catch (Error const& error) {
      text = error.what();
    }
    require(text == (comm.rank() == last ? "BadCells: cell 7 is bad"
                                         : "BadCells: rank " + std::to_string(last) + ": cell 7 is bad"));
  });
  double const way = longest([&] {
    std::array<Index, 1> most{comm.rank()};
    comm.max(most);
  });
  std::array<double, 2> times{};  // when the last rank fails, and when this one has learnt of it
  phase("failure of a rank", [&] {
    if (comm.rank() == last) {
      // The others wait before it fails.
      smpi_usleep(2000);
      times[0] = PMPI_Wtime();
      return announce_failure(std::span(&comm, 1), "cell 7 is bad");
    }
    std::string text;
    try {
      comm.barrier();
    } catch (Error const& error) {
      text = error.what();
    }
    times[1] = PMPI_Wtime();
    require(text == "PeerFailed: rank " + std::to_string(last) + ": cell 7 is bad");
  });
  PMPI_Allreduce(MPI_IN_PLACE, times.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  double const round_trips = (times[1] - times[0]) / (2 * way);
  require(round_trips > 0 && round_trips < 10);
  if (comm.rank() == 0)
    std::printf("  the last rank has ended its wait %.4f ms after the failure: %.2f round trips\n",
                1e3 * (times[1] - times[0]), round_trips);
  phase("renewal", [&] {
    comm.renew();
    comm.barrier();
  });
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int num_ranks = 1;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // One library for all ranks.
  if (!Kokkos::is_initialized()) Kokkos::initialize();
  Index const latitudes = argc > 2 ? std::atol(argv[1]) : 721;
  Index const longitudes = argc > 2 ? std::atol(argv[2]) : 1440;
  int side = int(std::sqrt(double(num_ranks)));
  while (num_ranks % side != 0) --side;
  std::unique_ptr<Comm> comm;
  phase("first communicator", [&] { comm = std::make_unique<Comm>(MPI_COMM_WORLD); });

  Indices const extents{latitudes, longitudes};
  Layout const bands(ProcessGrid(Indices{num_ranks, 1}), extents);
  Layout const blocks(ProcessGrid(Indices{side, num_ranks / side}), extents);
  auto const poles = Boundary::sphere(Edge::pole_row);
  auto const seam = Boundary::tripolar(Edge::constant, Edge::tripolar_face);
  std::set<std::string> parts(argv + std::min(argc, 3), argv + argc);
  if (parts.empty()) parts = {"cells", "sums"};
  if (parts.contains("plan")) try_halo(*comm, "poles, blocks", blocks, poles);
  if (parts.contains("halo")) try_halo(*comm, "poles, blocks", blocks, poles, 32);
  if (parts.contains("transposition"))
    try_repartition(*comm, "rows to columns", bands, Layout(ProcessGrid(Indices{1, num_ranks}), extents), 8);
  if (parts.contains("pencils")) {
    Indices const deep{latitudes, longitudes, 64};
    try_repartition(*comm, "pencils", Layout(ProcessGrid(Indices{side, num_ranks / side, 1}), deep),
                    Layout(ProcessGrid(Indices{1, side, num_ranks / side}), deep), 8);
  }
  if (parts.contains("cells")) {
    try_halo(*comm, "poles, blocks", blocks, poles);
    try_halo(*comm, "seam, blocks", blocks, seam);
    try_repartition(*comm, "bands to blocks", bands, blocks);
    try_repartition(*comm, "relabelled", bands, relabelled(*comm, bands, blocks));
    // The time of the simulator grows with the square of the number of messages.
    if (num_ranks <= 256) {
      try_halo(*comm, "poles, bands", bands, poles);
      try_halo(*comm, "seam, bands", bands, seam);
      try_repartition(*comm, "blocks to bands", blocks, as_list(bands));
    }
  }
  if (parts.contains("comparisons")) try_comparisons(*comm);
  if (parts.contains("sums")) {
    phase("next communicator", [&] { Comm const next(MPI_COMM_WORLD); });
    try_sums(*comm);
    try_comparisons(*comm);
    try_errors(*comm);
    // Ranks that wait look for answers in each microsecond.
    if (num_ranks > 17 && num_ranks <= 64) try_late_call(*comm);
  }

  long all_wrong = 0;
  PMPI_Allreduce(&num_wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf("%d ranks, %ld x %ld: %ld wrong; peak memory of all ranks together %.2f GB\n", num_ranks,
                long(latitudes), long(longitudes), all_wrong, double(peak_kilobytes()) / (1 << 20));
  std::fflush(stdout);
  comm.reset();
  MPI_Finalize();
  return all_wrong == 0 ? 0 : 1;
}
