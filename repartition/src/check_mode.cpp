// SPDX-License-Identifier: BSD-3-Clause
#include "check_mode.hpp"

#include "patience.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
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

/// The messages of one comparison.
struct Comparison {
  std::uint64_t hash = 0;
  std::vector<std::uint64_t> hashes;  ///< on rank 0, of all ranks
  int differs = 0;
  std::vector<MPI_Request> requests;
};

/// Waits for the messages; names those that do not come in time by `describe`.
void wait_all(Comm const& comm, std::unique_ptr<Comparison>& c, std::function<std::string()> const& describe) {
  Patience patience(comm.oversubscribed(), describe);
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
    static std::vector<std::unique_ptr<Comparison>> kept;
    kept.push_back(std::move(c));
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

bool checks_calls() { return settings().calls; }
bool checks_cells() { return settings().cells; }
double stall_seconds() { return settings().stall_seconds; }

double seconds_to_end() {
  constexpr double patient = 10;
  return stall_seconds() > 0 ? std::min(patient, stall_seconds()) : patient;
}

}  // namespace graticule::detail
