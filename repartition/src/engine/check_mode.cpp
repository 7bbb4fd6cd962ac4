// SPDX-License-Identifier: BSD-3-Clause
#include "check_mode.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace graticule::detail {

namespace {

/// The messages of one comparison.
struct Comparison {
  std::uint64_t hash = 0;
  std::vector<std::uint64_t> hashes;  ///< on rank 0, of all ranks
  int differs = 0;
  std::vector<MPI_Request> requests;
};

/// Waits for the messages; names those that do not come in time by `describe`.
void wait_all(Comm const& comm, std::unique_ptr<Comparison>& c, std::function<std::string()> const& describe) {
  Patience patience(comm, describe);
  try {
    for (auto& request : c->requests) {
      int done = 0;
      while (!done) {
        check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (!done) patience.pause();
      }
    }
  } catch (...) {
    // What did not come in time may come yet, and MPI writes it then.
    keep_for_good(std::move(c));
    throw;
  }
}

/// Gets the hashes of all ranks on rank 0, which alone waits for them.
void collect(Comm const& comm, int tag, std::unique_ptr<Comparison>& c, std::string const& described) {
  c->hashes.assign(std::size_t(comm.num_ranks()), c->hash);
  for (int r = 1; r < comm.num_ranks(); ++r)
    check_mpi(
        MPI_Irecv(&c->hashes[std::size_t(r)], 1, MPI_UINT64_T, r, tag, comm.handle(), &c->requests.emplace_back()),
        "MPI_Irecv");
  auto const& requests = c->requests;
  wait_all(comm, c, [&] {
    std::string text = "rank 0 waits before " + described + " for the same call of rank";
    for (int r = 1; r < comm.num_ranks(); ++r)
      if (requests[std::size_t(r) - 1] != MPI_REQUEST_NULL) text += " " + std::to_string(r);
    return text;
  });
}

}  // namespace

void compare_calls(Comm const& comm, int tag, std::uint64_t hash, std::string const& described) {
  auto c = std::make_unique<Comparison>();
  c->hash = hash;
  if (comm.rank() == 0) {
    collect(comm, tag, c, described);
    for (auto const other : c->hashes) c->differs |= other != hash ? 1 : 0;
    for (int r = 1; r < comm.num_ranks(); ++r)
      check_mpi(MPI_Send(&c->differs, 1, MPI_INT, r, tag, comm.handle()), "MPI_Send");
  } else {
    c->requests.resize(2);
    check_mpi(MPI_Isend(&c->hash, 1, MPI_UINT64_T, 0, tag, comm.handle(), &c->requests[0]), "MPI_Isend");
    check_mpi(MPI_Irecv(&c->differs, 1, MPI_INT, 0, tag, comm.handle(), &c->requests[1]), "MPI_Irecv");
    wait_all(comm, c, [&] {
      return "rank " + std::to_string(comm.rank()) + " waits before " + described +
             " for rank 0, which compares the calls of all ranks,";
    });
  }
  if (c->differs) require_same(comm, "CallDisagreement", hash, described);
}

}  // namespace graticule::detail
