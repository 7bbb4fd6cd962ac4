// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/lanes.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/stall_rule.hpp>

#include <algorithm>
#include <cstddef>

namespace graticule::messages {

namespace {

/// Counts of MPI are `int`.
constexpr Index most_bytes = Index(1) << 30;

}  // namespace

void wait_until(Comm const& comm, std::function<bool()> const& done, std::function<std::string()> const& describe,
                Stall stall) {
  auto rule = stall_rule();
  if (stall == Stall::fail && rule.error_seconds == 0) rule.error_seconds = rule.report_seconds;
  detail::StallScope const scope(rule);
  detail::Patience patience(comm, describe);
  while (!done()) patience.pause();
}

Lanes::~Lanes() {
  // MPI may still write to it, and read from it.
  if (!requests_.empty()) detail::keep_for_good(std::move(kept_));
}

void Lanes::post(int to, void const* data, Index bytes) {
  for (Index done = 0; done < bytes; done += most_bytes) {
    auto const part = std::min(most_bytes, bytes - done);
    check_mpi(MPI_Isend(static_cast<std::byte const*>(data) + done, int(part), MPI_BYTE, to, tag_, comm_.handle(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
    peers_.push_back(to);
    ++sent_.messages;
    sent_.bytes += part;
  }
}

void Lanes::take(int from, void* data, Index bytes) {
  for (Index done = 0; done < bytes; done += most_bytes) {
    check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + done, int(std::min(most_bytes, bytes - done)), MPI_BYTE, from,
                        tag_, comm_.handle(), &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
    peers_.push_back(from);
  }
}

bool Lanes::test() {
  int done = 1;
  if (!requests_.empty())
    check_mpi(MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (!done) return false;
  requests_.clear();
  peers_.clear();
  return true;
}

void Lanes::wait(std::string const& what, Stall stall) {
  if (test()) return;
  try {
    wait_until(
        comm_, [this] { return test(); }, [&] { return "rank " + std::to_string(comm_.rank()) + " waits " + what; },
        stall);
  } catch (...) {
    abandoned_ = true;
    throw;
  }
}

std::vector<int> Lanes::missing() const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    check_mpi(MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE), "MPI_Request_get_status");
    if (!done) ranks.push_back(peers_[i]);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace graticule::messages
