// SPDX-License-Identifier: BSD-3-Clause
#include "check_mode.hpp"

#include "patience.hpp"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

namespace graticule::detail {

namespace {

struct Settings {
  bool calls = false;
  bool cells = false;
  double stall_seconds = 300;
};

Settings read_settings() {
  Settings settings;
  char const* const check = std::getenv("GRATICULE_CHECK");
  std::string const value = check ? check : "";
  settings.calls = value == "comm" || value == "all";
  settings.cells = value == "cells" || value == "all";
  if (!settings.calls && !settings.cells && !value.empty() && value != "none")
    throw Error(Fault::usage, "BadCheck", "GRATICULE_CHECK is '" + value + "'; known are none, comm, cells and all");
  if (char const* const seconds = std::getenv("GRATICULE_STALL_SECONDS"); seconds && *seconds) {
    char* end = nullptr;
    settings.stall_seconds = std::strtod(seconds, &end);
    if (*end != '\0' || !std::isfinite(settings.stall_seconds) || settings.stall_seconds < 0)
      throw Error(Fault::usage, "BadStallSeconds",
                  "GRATICULE_STALL_SECONDS is '" + std::string(seconds) + "', not a number of seconds");
  }
  return settings;
}

Settings const& settings() {
  static Settings const once = read_settings();
  return once;
}

}  // namespace

namespace {

/// Waits for `requests`; names those that do not end in time by `describe`.
void wait_all(Comm const& comm, std::vector<MPI_Request>& requests, std::function<std::string()> const& describe) {
  Patience patience(comm.oversubscribed(), describe);
  for (auto& request : requests) {
    int done = 0;
    while (!done) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (!done) patience.pause();
    }
  }
}

/// The hashes of all ranks, on rank 0. It alone waits for them.
std::vector<std::uint64_t> collect(Comm const& comm, int tag, std::uint64_t hash, std::string const& described) {
  std::vector<std::uint64_t> hashes(std::size_t(comm.num_ranks()), hash);
  std::vector<MPI_Request> requests;
  for (int r = 1; r < comm.num_ranks(); ++r)
    check_mpi(MPI_Irecv(&hashes[std::size_t(r)], 1, MPI_UINT64_T, r, tag, comm.handle(), &requests.emplace_back()),
              "MPI_Irecv");
  wait_all(comm, requests, [&] {
    std::string text = "rank 0 waits before " + described + " for the same call of rank";
    for (int r = 1; r < comm.num_ranks(); ++r)
      if (requests[std::size_t(r) - 1] != MPI_REQUEST_NULL) text += " " + std::to_string(r);
    return text;
  });
  return hashes;
}

}  // namespace

void compare_calls(Comm const& comm, int tag, std::uint64_t hash, std::string const& described) {
  int differs = 0;
  if (comm.rank() == 0) {
    auto const hashes = collect(comm, tag, hash, described);
    for (auto const other : hashes) differs |= other != hash ? 1 : 0;
    for (int r = 1; r < comm.num_ranks(); ++r)
      check_mpi(MPI_Send(&differs, 1, MPI_INT, r, tag, comm.handle()), "MPI_Send");
  } else {
    std::vector<MPI_Request> requests(2);
    check_mpi(MPI_Isend(&hash, 1, MPI_UINT64_T, 0, tag, comm.handle(), &requests[0]), "MPI_Isend");
    check_mpi(MPI_Irecv(&differs, 1, MPI_INT, 0, tag, comm.handle(), &requests[1]), "MPI_Irecv");
    wait_all(comm, requests, [&] {
      return "rank " + std::to_string(comm.rank()) + " waits before " + described +
             " for rank 0, which compares the calls of all ranks,";
    });
  }
  if (differs) require_same(comm, "CallDisagreement", hash, described);
}

bool checks_calls() { return settings().calls; }
bool checks_cells() { return settings().cells; }
double stall_seconds() { return settings().stall_seconds; }

}  // namespace graticule::detail
