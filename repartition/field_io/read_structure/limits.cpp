// SPDX-License-Identifier: BSD-3-Clause
#include "limits.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <vector>

namespace graticule::detail {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_shadow_memory = true;  // of terabytes, which a limit would forbid
#else
constexpr bool has_shadow_memory = false;
#endif

void limit(__rlimit_resource what, rlim_t most) {
  rlimit limits{};
  if (::getrlimit(what, &limits) != 0) return;
  limits.rlim_cur = std::min(limits.rlim_cur, most);
  ::setrlimit(what, &limits);
}

}  // namespace

void close_all_but(int kept) {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return;
  std::vector<int> open;
  while (dirent const* entry = ::readdir(folder))
    if (int const id = std::atoi(entry->d_name); id > STDERR_FILENO && id != kept && id != ::dirfd(folder))
      open.push_back(id);
  ::closedir(folder);
  for (int const id : open) ::close(id);
}

void limit_this_process(StructureLimits const& limits) {
  // UCX, which comes with MPI, would print a backtrace first.
  for (int const signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGALRM}) std::signal(signal, SIG_DFL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, rlim_t(limits.processor_seconds));
  ::alarm(unsigned(limits.seconds));
  if (!has_shadow_memory) limit(RLIMIT_AS, limits.memory_bytes);
}

}  // namespace graticule::detail
