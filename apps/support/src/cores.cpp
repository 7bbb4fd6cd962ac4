// SPDX-License-Identifier: BSD-3-Clause
#include "cores.hpp"

#include <graticule/partition/detail/check_mpi.hpp>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>

namespace graticule::app {

namespace {

constexpr int most_cpus = 4096;
/// One entry per core that may be used, at the number of its first hardware thread.
using Cores = std::array<int, most_cpus>;

/// The first hardware thread of the core that holds `cpu`.
int first_thread_of(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  if (!(file >> first)) return cpu;
  return first >= 0 && first < most_cpus ? first : cpu;
}

Cores own_cores() {
  Cores cores{};
  auto* const mask = CPU_ALLOC(most_cpus);
  if (mask == nullptr) return cores;
  auto const size = CPU_ALLOC_SIZE(most_cpus);
  CPU_ZERO_S(size, mask);
  if (::sched_getaffinity(0, size, mask) == 0)
    for (int cpu = 0; cpu < most_cpus; ++cpu)
      if (CPU_ISSET_S(std::size_t(cpu), size, mask)) cores[std::size_t(first_thread_of(cpu))] = 1;
  CPU_FREE(mask);
  return cores;
}

}  // namespace

int cores_per_rank(Comm const& comm) {
  auto const own = own_cores();
  Cores users{};
  comm.barrier();
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm.handle(), MPI_COMM_TYPE_SHARED, comm.rank(), MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  check_mpi(MPI_Allreduce(own.data(), users.data(), most_cpus, MPI_INT, MPI_SUM, node), "MPI_Allreduce");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  double share = 0;
  for (std::size_t core = 0; core < own.size(); ++core)
    if (own[core] != 0) share += 1.0 / users[core];
  return std::max(1, int(share + 1e-9));
}

}  // namespace graticule::app
