// SPDX-License-Identifier: BSD-3-Clause
// In a program that starts nothing itself, the outermost runtime starts and ends MPI and Kokkos.
#include <graticule/partition/error.hpp>
#include <graticule/repartition/runtime.hpp>

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

/// What a runtime of `num_threads` says to this value of the variable, before anything starts.
std::string refused(int argc, char** argv, char const* threads, int num_threads) {
  setenv("KOKKOS_NUM_THREADS", threads, 1);
  std::string text = "nothing was thrown";
  try {
    graticule::Runtime const runtime(argc, argv, num_threads);
  } catch (graticule::Error const& error) {
    text = error.rule() + (error.fault() == graticule::Fault::usage ? " (usage): " : ": ") + error.text();
  }
  unsetenv("KOKKOS_NUM_THREADS");
  int started = 0;
  MPI_Initialized(&started);
  return started || Kokkos::is_initialized() ? "something was started; " + text : text;
}

bool begins_with(std::string const& text, char const* expected) {
  if (text.rfind(expected, 0) == 0) return true;
  std::fprintf(stderr, "'%s', not '%s'\n", text.c_str(), expected);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  bool const refuses =
      begins_with(refused(argc, argv, "3", 2), "BadOption (usage): KOKKOS_NUM_THREADS is 3, and 2 threads") &&
      begins_with(refused(argc, argv, "many", 2), "BadOption (usage): KOKKOS_NUM_THREADS is 'many'") &&
      begins_with(refused(argc, argv, "", 0), "BadOption (usage): KOKKOS_NUM_THREADS is ''") &&
      begins_with(refused(argc, argv, "2x", 0), "BadOption (usage): KOKKOS_NUM_THREADS is '2x'") &&
      begins_with(refused(argc, argv, "-1", 0), "BadOption (usage): KOKKOS_NUM_THREADS is '-1'");
  if (!refuses) return 1;
  setenv("KOKKOS_NUM_THREADS", "1", 1);
  int started = 0;
  int level = 0;
  bool kokkos_started = false;
  bool kept = false;
  int ended_early = 0;
  {
    graticule::Runtime const outer(argc, argv, 1);
    MPI_Initialized(&started);
    MPI_Query_thread(&level);
    kokkos_started = Kokkos::is_initialized();
    { graticule::Runtime const inner(argc, argv); }
    MPI_Finalized(&ended_early);
    kept = Kokkos::is_initialized();
  }
  int ended = 0;
  MPI_Finalized(&ended);
  bool const right = started && level >= MPI_THREAD_SERIALIZED && kokkos_started && kept && !ended_early && ended &&
                     !Kokkos::is_initialized();
  if (!right)
    std::fprintf(
        stderr,
        "MPI started %d at level %d, Kokkos started %d; ended by an inner runtime: MPI %d, Kokkos %d; ended %d\n",
        started, level, int(kokkos_started), ended_early, int(!kept), ended);
  return right ? 0 : 1;
}
