// SPDX-License-Identifier: BSD-3-Clause
#include "node_members.hpp"

#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/check_mpi.hpp>

#include "comm_state.hpp"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <thread>

namespace graticule::detail {

namespace {

#ifdef __linux__
using Cores = cpu_set_t;
#else
struct Cores {};
#endif

/// A rank of this node, and the cores that it may run on.
struct Member {
  int rank = 0;
  int known = 0;  ///< the cores are
  Cores cores{};
};

bool by_rank(Member const& a, Member const& b) noexcept { return a.rank < b.rank; }

/// The ranks of MPI_COMM_WORLD on this node, ascending; none before they are known.
struct WorldMembers {
  std::mutex mutex;
  std::vector<Member> members;
};

WorldMembers& world_members() {
  static WorldMembers members;
  return members;
}

Member self(MPI_Comm comm) {
  Member own;
  check_mpi(MPI_Comm_rank(comm, &own.rank), "MPI_Comm_rank");
#ifdef __linux__
  CPU_ZERO(&own.cores);
  own.known = sched_getaffinity(0, sizeof own.cores, &own.cores) == 0 ? 1 : 0;
#endif
  return own;
}

NodeMembers summary(std::vector<Member> const& members) {
  NodeMembers result;
  bool known = true;
#ifdef __linux__
  cpu_set_t all;
  CPU_ZERO(&all);
#endif
  for (Member const& member : members) {
    result.ranks.push_back(member.rank);
    known = known && member.known != 0;
#ifdef __linux__
    CPU_OR(&all, &all, &member.cores);
#endif
  }
#ifdef __linux__
  if (known) result.num_cores = CPU_COUNT(&all);
#endif
  if (!known) result.num_cores = int(std::thread::hardware_concurrency());
  return result;
}

/// @return for each rank of `from` that of `to`; MPI_UNDEFINED where it has none
std::vector<int> translated(MPI_Comm from, MPI_Comm to) {
  int size = 0;
  check_mpi(MPI_Comm_size(from, &size), "MPI_Comm_size");
  MPI_Group from_group = MPI_GROUP_NULL;
  MPI_Group to_group = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(from, &from_group), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(to, &to_group), "MPI_Comm_group");
  std::vector<int> ranks(std::size_t(size), 0);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> result(ranks.size());
  check_mpi(MPI_Group_translate_ranks(from_group, size, ranks.data(), to_group, result.data()),
            "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&from_group), "MPI_Group_free");
  check_mpi(MPI_Group_free(&to_group), "MPI_Group_free");
  return result;
}

void remember(MPI_Comm comm, std::vector<Member> members) {
  if (!have_same_ranks(comm, MPI_COMM_WORLD)) {
    int world_size = 0;
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world_size), "MPI_Comm_size");
    auto const world_ranks = translated(comm, MPI_COMM_WORLD);
    bool const all = int(world_ranks.size()) == world_size &&
                     std::find(world_ranks.begin(), world_ranks.end(), MPI_UNDEFINED) == world_ranks.end();
    if (!all) return;
    for (Member& member : members) member.rank = world_ranks[std::size_t(member.rank)];
  }
  std::sort(members.begin(), members.end(), by_rank);
  auto& known = world_members();
  std::scoped_lock const lock(known.mutex);
  known.members = std::move(members);
}

}  // namespace

bool have_same_ranks(MPI_Comm a, MPI_Comm b) {
  int result = MPI_UNEQUAL;
  check_mpi(MPI_Comm_compare(a, b, &result), "MPI_Comm_compare");
  return result == MPI_IDENT || result == MPI_CONGRUENT;
}

NodeMembers ask_node_members(MPI_Comm comm) {
  auto const own = self(comm);
  MPI_Comm node = MPI_COMM_NULL;
  check_made(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, own.rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int size = 0;
  check_mpi(MPI_Comm_size(node, &size), "MPI_Comm_size");
  std::vector<Member> members{std::size_t(size), Member{}};
  check_mpi(MPI_Allgather(&own, int(sizeof own), MPI_BYTE, members.data(), int(sizeof own), MPI_BYTE, node),
            "MPI_Allgather");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  auto result = summary(members);
  remember(comm, std::move(members));
  return result;
}

std::optional<NodeMembers> known_node_members(MPI_Comm comm) {
  auto& known = world_members();
  if (have_same_ranks(comm, MPI_COMM_WORLD)) {
    std::scoped_lock const lock(known.mutex);
    return known.members.empty() ? std::nullopt : std::optional(summary(known.members));
  }
  auto const world_ranks = translated(comm, MPI_COMM_WORLD);
  if (std::find(world_ranks.begin(), world_ranks.end(), MPI_UNDEFINED) != world_ranks.end()) return std::nullopt;
  std::scoped_lock const lock(known.mutex);
  if (known.members.empty()) return std::nullopt;
  std::vector<Member> members;
  for (std::size_t r = 0; r < world_ranks.size(); ++r) {
    Member const sought{.rank = world_ranks[r]};
    auto const found = std::lower_bound(known.members.begin(), known.members.end(), sought, by_rank);
    if (found == known.members.end() || found->rank != sought.rank) continue;
    members.push_back(*found);
    members.back().rank = int(r);
  }
  return summary(members);
}

}  // namespace graticule::detail
