// SPDX-License-Identifier: BSD-3-Clause
#include "recovery.hpp"

#include <graticule/nn_bridge/detail/live_domains.hpp>
#include <graticule/partition/failure.hpp>

#include <algorithm>
#include <numeric>

namespace graticule::training::detail {

namespace {

/// Larger buffers are copied once they have changed: those are constants that may be as large as the model.
constexpr std::size_t small_buffer_bytes = std::size_t(1) << 20;

MPI_Group group_of(Comm const& comm) {
  MPI_Group group = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm.handle(), &group), "MPI_Comm_group");
  return group;
}

bool lies_in(Comm const& part, Comm const& team) {
  auto own = group_of(part);
  auto all = group_of(team);
  std::vector<int> ranks(std::size_t(part.num_ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> places(ranks.size());
  check_mpi(MPI_Group_translate_ranks(own, int(ranks.size()), ranks.data(), all, places.data()),
            "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&own), "MPI_Group_free");
  check_mpi(MPI_Group_free(&all), "MPI_Group_free");
  return std::find(places.begin(), places.end(), MPI_UNDEFINED) == places.end();
}

}  // namespace

Recovery::Recovery(std::vector<Comm> teams, nn::NamedTensors const& buffers) : teams_(std::move(teams)) {
  for (auto const& [name, tensor] : buffers) buffers_.push_back({tensor, {}});
}

void Recovery::remember() {
  torch::NoGradGuard const no_grad;
  for (auto& [buffer, copy, version] : buffers_) {
    auto const now = std::int64_t(buffer._version());
    if (now == version) continue;
    if (version >= 0 || buffer.nbytes() <= small_buffer_bytes) copy = buffer.detach().clone();
    version = now;
  }
  draws_.clear();
  for (auto const& domain : nn::detail::live_domains()) draws_.emplace_back(domain, domain.num_draws());
}

std::vector<Comm> Recovery::comms() const {
  std::vector<Comm> all;
  auto const add = [&](Comm const& comm) {
    if (comm.num_ranks() > 1 &&
        std::none_of(all.begin(), all.end(), [&](Comm const& known) { return known.handle() == comm.handle(); }))
      all.push_back(comm);
  };
  for (auto const& team : teams_) add(team);
  for (auto const& domain : nn::detail::live_domains()) {
    if (domain.comm().num_ranks() == 1) continue;
    if (std::any_of(teams_.begin(), teams_.end(), [&](Comm const& team) { return lies_in(domain.comm(), team); }))
      for (auto const& comm : domain.comms()) add(comm);
  }
  return all;
}

void Recovery::announce(std::exception_ptr const& failure) const { announce_failure(comms(), failure); }

void Recovery::renew() const {
  // A communicator that was split off its domain's is left with that of before.
  std::vector<Comm> all = teams_;
  for (auto const& domain : nn::detail::live_domains()) all.push_back(domain.comm());
  for (auto const& comm : comms())
    if (std::any_of(all.begin(), all.end(), [&](Comm const& own) { return own.handle() == comm.handle(); }))
      comm.renew();
  torch::NoGradGuard const no_grad;
  for (auto const& [buffer, copy, version] : buffers_)
    if (copy.defined() && copy.sizes() == buffer.sizes()) buffer.detach().copy_(copy);
  for (auto const& [domain, num_draws] : draws_) domain.set_num_draws(num_draws);
}

}  // namespace graticule::training::detail
