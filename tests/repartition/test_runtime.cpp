// SPDX-License-Identifier: BSD-3-Clause
// The runtime starts and ends what the program has not, and plans work before Kokkos starts.
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/runtime.hpp>

#include "expect_error.hpp"

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

using namespace graticule;

namespace {

int num_failures = 0;

void expect(bool right, char const* claim) {
  if (right) return;
  ++num_failures;
  std::fprintf(stderr, "not so: %s\n", claim);
}

bool mpi_started() {
  int started = 0;
  MPI_Initialized(&started);
  return started != 0;
}

bool mpi_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

/// Moves a field large enough for threads from rows to columns and looks at every cell.
bool moves_a_large_field() {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  RepartitionPlan const plan(comm, Layout(ProcessGrid{n, 1}, Indices{512, 600}),
                             Layout(ProcessGrid{1, n}, Indices{512, 600}));
  auto const& source = plan.source_box();
  auto const& target = plan.target_box();
  std::vector<double> from;
  for (Index i = source.lo(0); i < source.hi(0); ++i)
    for (Index j = 0; j < 600; ++j) from.push_back(double(i * 600 + j));
  std::vector<double> to(std::size_t(target.num_cells()), -1.0);
  plan.apply(field_view(from.data(), source.extents(), 2), field_view(to.data(), target.extents(), 2));
  std::size_t at = 0;
  for (Index i = 0; i < 512; ++i)
    for (Index j = target.lo(1); j < target.hi(1); ++j)
      if (to[at++] != double(i * 600 + j)) return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  {
    MPI_Init(&argc, &argv);
    // MPI_Init gives MPI_THREAD_SINGLE where the library has the choice.
    int level = 0;
    MPI_Query_thread(&level);
    std::string elsewhere = "ThreadLevel";
    if (level < MPI_THREAD_SERIALIZED)
      std::thread([&] { elsewhere = test::rule_of([&] { Runtime const runtime(argc, argv); }); }).join();
    expect(elsewhere == "ThreadLevel", "the thread that started MPI is asked for");
    expect(!Kokkos::is_initialized(), "Kokkos has not started");
    expect(moves_a_large_field(), "a plan works without Kokkos");
    for (int i = 0; i < 3; ++i) {
      Runtime const runtime(argc, argv);
      expect(Kokkos::is_initialized() && moves_a_large_field(), "there may be several runtimes within one MPI");
    }
    expect(Kokkos::is_initialized(), "Kokkos ends with an MPI of the program");
  }
  if (!Kokkos::is_initialized()) Kokkos::initialize();
  {
    // What the program has started stays.
    Runtime const runtime(argc, argv);
    expect(Kokkos::is_initialized() && !mpi_ended(), "a runtime ends only what it started");
    expect(moves_a_large_field(), "a plan works with Kokkos");
  }
  Kokkos::finalize();
  expect(mpi_started(), "MPI has started");
  MPI_Finalize();
  return num_failures == 0 ? 0 : 1;
}
