// SPDX-License-Identifier: BSD-3-Clause
// Ranks that come to MPI_Finalize long before others: how many messages say so, and whether those that wait for them
// learn of it.
#include <graticule/partition/comm.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/partition/failure.hpp>

#include "mpi/pmpi_shim.hpp"

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <thread>

using graticule::Comm;

namespace {

bool waits = false;  ///< else rank 0 is late only

void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Messages of this rank up to now, but for those within collective calls of MPI.
long sends() { return graticule::test::mpi_calls().sends; }

/// The lower half is late, but for its last rank, which waits for the last rank of all, and shall learn of its end and
/// of the failure that it has announced elsewhere, but not of one that was mended.
bool learns_of_an_end(Comm const& world) {
  int const half = world.num_ranks() / 2;
  int const last = world.num_ranks() - 1;
  bool const is_waiting = world.rank() == half - 1;
  Comm const pair = world.split(is_waiting || world.rank() == last ? 1 : 0, world.rank());
  Comm const alone = world.split(world.rank(), 0);
  Comm const mended = world.split(world.rank(), 0);
  if (world.rank() < half - 1) rest(4);
  if (world.rank() == last) {
    // Never freed: a message of the barrier may come.
    static_cast<void>(new Comm(pair));
    graticule::announce_failure(std::span(&alone, 1), "cell 7 is bad");
    graticule::announce_failure(std::span(&mended, 1), "cell 8 is bad");
    mended.renew();
    graticule::test::forgive_left_objects();
  }
  if (!is_waiting) return true;
  try {
    pair.barrier();
  } catch (graticule::Error const& error) {
    graticule::test::forgive_left_objects();
    std::string const expected = "rank 1: it has ended while others wait for it, after cell 7 is bad";
    if (error.rule() == "PeerFailed" && error.text() == expected) return true;
    std::fprintf(stderr, "rank %d waits for an ended rank and gets '%s'\n", world.rank(), error.what());
    return false;
  }
  std::fprintf(stderr, "a barrier with a rank that has ended returned\n");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  waits = argc > 1 && std::string(argv[1]) == "waits";
  MPI_Init(&argc, &argv);
  bool is_right = true;
  int rank = 0;
  int num_ranks = 1;
  {
    Comm const world = Comm::world();
    rank = world.rank();
    num_ranks = world.num_ranks();
    if (waits)
      is_right = learns_of_an_end(world);
    else if (rank == 0)
      rest(3);
  }
  long const before = sends();
  MPI_Finalize();
  long const sent = sends() - before;

  int log = 0;
  while (1 << log < num_ranks) ++log;
  std::printf("rank %d of %d sent %ld messages in MPI_Finalize\n", rank, num_ranks, sent);
  if (!waits && sent > 2 * log) {
    std::fprintf(stderr, "rank %d sent more than %d messages\n", rank, 2 * log);
    is_right = false;
  }
  return is_right ? 0 : 1;
}
