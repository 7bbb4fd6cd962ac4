// SPDX-License-Identifier: BSD-3-Clause
#include "recovery.hpp"

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/identity.hpp>
#include <graticule/partition/failure.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

namespace graticule::training::detail {

namespace {

/// Larger buffers are copied once they have changed: those are constants that may be as large as the model.
constexpr std::size_t small_buffer_bytes = std::size_t(1) << 20;

MPI_Group group_of(Comm const& comm) {
  MPI_Group group = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm.handle(), &group), "MPI_Comm_group");
  return group;
}

/// Ranks of `part` in `team`; none where one is not in it.
std::optional<std::vector<int>> places_in(Comm const& part, Comm const& team) {
  auto own = group_of(part);
  auto all = group_of(team);
  std::vector<int> ranks(std::size_t(part.num_ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> places(ranks.size());
  check_mpi(MPI_Group_translate_ranks(own, int(ranks.size()), ranks.data(), all, places.data()),
            "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&own), "MPI_Group_free");
  check_mpi(MPI_Group_free(&all), "MPI_Group_free");
  if (std::find(places.begin(), places.end(), MPI_UNDEFINED) != places.end()) return std::nullopt;
  return places;
}

bool is_among(std::vector<Comm> const& comms, Comm const& comm) {
  return std::any_of(comms.begin(), comms.end(), [&](Comm const& known) { return known.handle() == comm.handle(); });
}

/// A communicator of a domain, and its ranks in the first team that has all of them.
struct Candidate {
  Comm comm;
  std::int64_t identity;
  std::size_t team;
  std::vector<int> places;
};

/// `own` of each rank. Collective.
std::vector<std::vector<Index>> gathered(Comm const& team, std::vector<Index> own) {
  auto const counts = team.gather_to_all(Index(own.size()));
  auto const most = std::size_t(*std::max_element(counts.begin(), counts.end()));
  std::vector<Index> all(most * counts.size());
  own.resize(most);
  if (most > 0) team.gather_to_all(own.data(), Index(most * sizeof(Index)), all.data());
  std::vector<std::vector<Index>> lists;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    auto const begin = all.begin() + std::ptrdiff_t(r * most);
    lists.emplace_back(begin, begin + counts[r]);
  }
  return lists;
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
    if (comm.num_ranks() > 1 && !is_among(all, comm)) all.push_back(comm);
  };
  for (auto const& team : teams_) add(team);
  for (auto const& domain : nn::detail::live_domains()) {
    if (domain.comm().num_ranks() == 1) continue;
    if (std::any_of(teams_.begin(), teams_.end(),
                    [&](Comm const& team) { return places_in(domain.comm(), team).has_value(); }))
      for (auto const& comm : domain.comms()) add(comm);
  }
  return all;
}

void Recovery::announce(std::exception_ptr const& failure) const { announce_failure(comms(), failure); }

void Recovery::renew() const {
  std::vector<Comm> teams;
  for (auto const& team : teams_) {
    if (team.num_ranks() == 1 || is_among(teams, team)) continue;
    teams.push_back(team);
    team.renew();
  }
  // One that was split off its domain's is left with that of before.
  std::vector<Candidate> candidates;
  std::vector<Comm> seen = teams;
  for (auto const& domain : nn::detail::live_domains()) {
    auto const& comm = domain.comm();
    if (comm.num_ranks() == 1 || is_among(seen, comm)) continue;
    seen.push_back(comm);
    for (std::size_t t = 0; t < teams.size(); ++t) {
      auto places = places_in(comm, teams[t]);
      if (!places) continue;
      candidates.push_back({comm, graticule::detail::identity(comm), t, std::move(*places)});
      break;
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](Candidate const& a, Candidate const& b) { return a.identity < b.identity; });
  for (std::size_t t = 0; t < teams.size(); ++t) {
    std::vector<Index> own;
    for (auto const& candidate : candidates)
      if (candidate.team == t) own.push_back(candidate.identity);
    auto const lists = gathered(teams[t], std::move(own));
    for (auto const& candidate : candidates) {
      auto const is_alive = [&](int place) {
        auto const& list = lists[std::size_t(place)];
        return std::binary_search(list.begin(), list.end(), candidate.identity);
      };
      if (candidate.team == t && std::all_of(candidate.places.begin(), candidate.places.end(), is_alive))
        candidate.comm.renew();
    }
  }
  torch::NoGradGuard const no_grad;
  for (auto const& [buffer, copy, version] : buffers_)
    if (copy.defined() && copy.sizes() == buffer.sizes()) buffer.detach().copy_(copy);
  for (auto const& [domain, num_draws] : draws_) domain.set_num_draws(num_draws);
}

}  // namespace graticule::training::detail
