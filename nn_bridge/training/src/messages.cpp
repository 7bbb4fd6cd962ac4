// SPDX-License-Identifier: BSD-3-Clause
#include "messages.hpp"

#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

namespace graticule::nn::detail {

bool environment_checks_calls() {
  char const* const check = std::getenv("GRATICULE_CHECK");
  std::string const value = check ? check : "";
  return value == "comm" || value == "all";
}

double environment_stall_seconds() {
  char const* const text = std::getenv("GRATICULE_STALL_SECONDS");
  if (text == nullptr || *text == '\0') return 300;
  char* end = nullptr;
  double const seconds = std::strtod(text, &end);
  if (*end != '\0' || !std::isfinite(seconds) || seconds < 0)
    throw Error(Fault::usage, "BadStallSeconds",
                "GRATICULE_STALL_SECONDS is '" + std::string(text) + "', not a number of seconds");
  return seconds;
}

void wait_until(Comm const& comm, std::function<bool()> const& done, std::function<std::string()> const& describe,
                Stall stall) {
  using Clock = std::chrono::steady_clock;
  auto const limit = environment_stall_seconds();
  auto const begin = Clock::now();
  bool reported = false;
  for (unsigned count = 1; !done(); ++count) {
    if (!comm.oversubscribed() && (count & 255U) != 0) continue;
    if (comm.oversubscribed() || Clock::now() - begin > std::chrono::milliseconds(1)) std::this_thread::yield();
    if (limit == 0 || reported || Clock::now() - begin < std::chrono::duration<double>(limit)) continue;
    if (stall == Stall::fail) throw Error("StalledExchange", describe());
    std::fprintf(stderr, "graticule: after %g s %s\n", limit, describe().c_str());
    reported = true;
  }
}

namespace {

constexpr Index most_bytes = Index(1) << 30;

}  // namespace

void Messages::send(Comm const& team, void const* data, Index bytes, int to, int tag, MessageCounts& counts) {
  for (Index done = 0; done < bytes; done += most_bytes) {
    auto const part = std::min(most_bytes, bytes - done);
    check_mpi(MPI_Isend(static_cast<std::byte const*>(data) + done, int(part), MPI_BYTE, to, tag, team.handle(),
                        &sends_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
    ++counts.messages;
    counts.bytes += part;
  }
}

void Messages::receive(Comm const& team, void* data, Index bytes, int from, int tag) {
  for (Index done = 0; done < bytes; done += most_bytes)
    check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + done, int(std::min(most_bytes, bytes - done)), MPI_BYTE, from,
                        tag, team.handle(), &receives_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
}

namespace {

bool all_done(std::vector<MPI_Request>& requests) {
  int done = 1;
  if (!requests.empty())
    check_mpi(MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (done) requests.clear();
  return done != 0;
}

}  // namespace

bool Messages::test() {
  bool const received = all_done(receives_);
  return all_done(sends_) && received;
}

void Messages::wait(Comm const& team, std::string const& what, Stall stall) {
  try {
    wait_until(
        team, [&] { return test(); },
        [&] { return "rank " + std::to_string(team.rank()) + " waits for the other ranks' " + what; }, stall);
  } catch (...) {
    abandoned_ = true;
    throw;
  }
}

namespace {

/// The messages of one comparison: MPI may write to them after it was given up.
struct Compared {
  std::array<Index, 2> mine{};
  std::vector<std::array<Index, 2>> all;  ///< on rank 0
  int differs = 0;
  Messages messages;
};

}  // namespace

void CallComparison::compare(std::string const& call) {
  if (team_.num_ranks() == 1) return;
  auto c = std::make_unique<Compared>();
  MessageCounts counts;
  c->mine = {++number_, Index(Hash().add(call).value() >> 1U)};
  constexpr Index bytes = sizeof c->mine;
  try {
    if (team_.rank() == 0) {
      c->all.resize(std::size_t(team_.num_ranks()));
      for (int r = 1; r < team_.num_ranks(); ++r) c->messages.receive(team_, &c->all[std::size_t(r)], bytes, r, tag_);
      c->messages.wait(team_, "calls, before " + call, Stall::fail);
      c->differs = std::any_of(c->all.begin() + 1, c->all.end(), [&](auto const& other) { return other != c->mine; });
      for (int r = 1; r < team_.num_ranks(); ++r)
        c->messages.send(team_, &c->differs, sizeof c->differs, r, tag_, counts);
    } else {
      c->messages.receive(team_, &c->differs, sizeof c->differs, 0, tag_);
      c->messages.send(team_, &c->mine, bytes, 0, tag_, counts);
    }
    c->messages.wait(team_, "calls, before " + call, Stall::fail);
  } catch (...) {
    keep_for_good(std::move(c));
    throw;
  }
  if (c->differs) require_same(team_, "CallDisagreement", Hash().add(call).add(number_).value(), call);
}

}  // namespace graticule::nn::detail
