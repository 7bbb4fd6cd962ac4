// SPDX-License-Identifier: BSD-3-Clause
// A program in which the last rank has an accident in the middle of repeated operations; `accidents.sh` runs it.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/repartition/runtime.hpp>

#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>

namespace graticule::test {

/// An operation that all ranks repeat, and what a rank does that makes another call in its place.
struct Operation {
  std::function<void()> step;
  std::function<void()> other;
};

/// Operations by name; each is set up on all ranks, before the accident.
using Operations = std::map<std::string, std::function<Operation(Comm const&)>>;

/// `PROGRAM OPERATION ACCIDENT [STEP]`: the operation six times, and at step STEP (3) the accident on the last rank:
/// none, throws, absent, late, other, killed, exits, leaves, returns. Each rank prints the error that it ends with,
/// `rank 0: RULE: ...`.
inline int run_accident(int argc, char** argv, Operations const& operations) {
  int rank = -1;
  try {
    Runtime const runtime(argc, argv);
    auto const comm = Comm::world();
    rank = comm.rank();
    auto const set_up = operations.find(argc > 2 ? argv[1] : "");
    if (set_up == operations.end()) throw Error("Accident", "no such operation");
    std::string const accident = argv[2];
    int const at = argc > 3 ? std::atoi(argv[3]) : 3;
    auto const operation = set_up->second(comm);
    for (int step = 0; step < 6; ++step) {
      bool const now = step == at && rank == comm.num_ranks() - 1;
      if (now && accident == "throws") throw Error("Accident", "of rank " + std::to_string(rank));
      if (now && accident == "killed") std::raise(SIGKILL);
      if (now && accident == "exits") std::_Exit(3);
      if (now && accident == "leaves") std::exit(3);
      if (now && accident == "returns") return 0;
      if (now && (accident == "late" || accident == "absent"))
        std::this_thread::sleep_for(std::chrono::milliseconds(accident == "late" ? 1800 : 4000));
      if (now && accident == "absent") return 0;
      (now && accident == "other" ? operation.other : operation.step)();
    }
    if (rank == 0) std::printf("complete\n");
    return 0;
  } catch (std::exception const& error) {
    std::printf("rank %d: %s\n", rank, error.what());
    std::fflush(stdout);
#ifdef OPEN_MPI
    // Its launcher ends all ranks with the first that ends with an error; the others are to print theirs.
    std::this_thread::sleep_for(std::chrono::seconds(2));
#endif
    return 1;
  }
}

}  // namespace graticule::test
