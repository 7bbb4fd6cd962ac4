// SPDX-License-Identifier: BSD-3-Clause
#include "end_together.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/error.hpp>

#include <dirent.h>
#include <mpi.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace graticule::detail {

namespace {

/// Of 100 jobs, four at a time with 3 ranks each on 2 cores, 21 did not end after 5 ms, and none after 50 ms.
constexpr auto time_to_leave_the_last_call = std::chrono::milliseconds(100);

/// With the options that the library was configured with, where it tells them.
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  return {text.data(), std::size_t(length)};
}

/// MPICH over UCX with a barrier of the launcher behind the end of its connections.
bool deadlocks_by_tcp(std::string const& version) {
  if (version.find("ch4:ucx") == std::string::npos) return false;
  int major = 0;
  int minor = 0;
  // Derivatives have versions of their own.
  if (std::sscanf(version.c_str(), "MPICH Version: %d.%d", &major, &minor) != 2) return true;
  return major < 4 || (major == 4 && minor < 2);
}

bool is_connected_by_tcp(int descriptor) noexcept {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  return getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

/// True also where the descriptors of the process cannot be listed.
bool is_connected_by_tcp() noexcept {
  struct Close {
    void operator()(DIR* folder) const noexcept { closedir(folder); }
  };
  std::unique_ptr<DIR, Close> const folder(opendir("/proc/self/fd"));
  if (!folder) return true;
  while (auto const* entry = readdir(folder.get()))
    if (is_connected_by_tcp(std::atoi(entry->d_name))) return true;
  return false;
}

/// The connection of this process to its launcher, where that is Hydra and MPICH speaks the first version of PMI to it;
/// else -1.
int connection_to_launcher(std::string const& version) {
  auto const* const descriptor = std::getenv("PMI_FD");
  // Hydra sets this one for the processes of all hosts.
  if (!descriptor || !std::getenv("MPIR_CVAR_CH3_INTERFACE_HOSTNAME") ||
      version.find("MPICH configure:") == std::string::npos)
    return -1;
  for (auto const* other : {"pmi2", "pmix", "--with-pmi="})
    if (version.find(other) != std::string::npos) return -1;
  return std::atoi(descriptor);
}

int to_launcher = -1;

/// A barrier of the launcher, as MPICH itself asks for in its end: no rank is within MPI when they leave it.
bool meet_by_launcher() noexcept {
  constexpr std::string_view request = "cmd=barrier_in\n";
  constexpr std::string_view answer = "cmd=barrier_out";
  if (to_launcher < 0 || ::write(to_launcher, request.data(), request.size()) != ssize_t(request.size())) return false;
  std::array<char, 256> line{};
  for (std::size_t i = 0; i < line.size(); ++i) {
    ssize_t count = 0;
    do count = ::read(to_launcher, &line[i], 1);
    while (count < 0 && errno == EINTR);
    if (count != 1) return false;
    if (line[i] == '\n') return std::string_view(line.data(), i).substr(0, answer.size()) == answer;
  }
  return false;
}

/// Whether all ranks of MPI_COMM_WORLD come to `rest`.
bool all_rest = false;

bool is_completed(MPI_Request& request) noexcept {
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
    if (done != 0) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

/// Sends a byte from each rank to each other one. So each has a question to all of those that have one to it: one that
/// had none would go to the barrier of the launcher at once.
void send_to_all(MPI_Comm world) noexcept try {
  int size = 0;
  if (MPI_Comm_size(world, &size) != MPI_SUCCESS) return;
  std::vector<int> const counts(std::size_t(size), 1);
  std::vector<int> const first(std::size_t(size), 0);
  std::vector<int> places(std::size_t(size), 0);
  std::iota(places.begin(), places.end(), 0);
  std::vector<char> received(std::size_t(size), 0);
  char const byte = 0;
  MPI_Request exchange = MPI_REQUEST_NULL;
  if (MPI_Ialltoallv(&byte, counts.data(), first.data(), MPI_CHAR, received.data(), counts.data(), places.data(),
                     MPI_CHAR, world, &exchange) == MPI_SUCCESS)
    static_cast<void>(is_completed(exchange));
} catch (std::bad_alloc const&) {
}

int rest(MPI_Comm world, int, void*, void*) noexcept {
  // Other callbacks may have taken longer on other ranks.
  std::array<int, 2> const own{to_launcher >= 0 ? 1 : 0, is_connected_by_tcp() ? 0 : 1};
  std::array<int, 2> all{0, 1};
  MPI_Request meeting = MPI_REQUEST_NULL;
  bool const have_met =
      all_rest &&
      MPI_Iallreduce(own.data(), all.data(), int(all.size()), MPI_INT, MPI_MIN, world, &meeting) == MPI_SUCCESS &&
      is_completed(meeting);
  if (have_met && all[1] == 0) send_to_all(world);
  if (have_met && all[0] != 0 && meet_by_launcher()) return MPI_SUCCESS;
  if (own[1] == 0) std::this_thread::sleep_for(time_to_leave_the_last_call);
  return MPI_SUCCESS;
}

}  // namespace

void end_together(int num_ranks) {
  int world_size = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world_size), "MPI_Comm_size");
  auto const version = library_version();
  if (world_size == 1 || !deadlocks_by_tcp(version)) return;
  all_rest = all_rest || num_ranks == world_size;
  static bool set = false;
  if (std::exchange(set, true)) return;
  to_launcher = connection_to_launcher(version);
  // MPICH deletes the attributes of MPI_COMM_WORLD after those of MPI_COMM_SELF, whose callbacks may still call MPI.
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, rest, &key, nullptr), "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_WORLD, key, nullptr), "MPI_Comm_set_attr");
  check_mpi(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
}

}  // namespace graticule::detail
