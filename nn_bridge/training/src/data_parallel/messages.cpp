// SPDX-License-Identifier: BSD-3-Clause
#include "messages.hpp"

#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

namespace graticule::training::detail {

void wait_until(Comm const& comm, std::function<bool()> const& done, std::function<std::string()> const& describe,
                Stall stall) {
  auto rule = stall_rule();
  if (stall == Stall::fail && rule.error_seconds == 0) rule.error_seconds = rule.report_seconds;
  graticule::detail::StallScope const scope(rule);
  graticule::detail::Patience patience(comm, describe);
  while (!done()) patience.pause();
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

}  // namespace graticule::training::detail
