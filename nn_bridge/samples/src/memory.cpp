// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/memory.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace graticule::samples {
namespace {

/// The least limit in `folder` and those above it, up to `top`; without one, `most`.
Index limit_in(std::filesystem::path folder, std::filesystem::path const& top, char const* name, Index most) {
  for (;; folder = folder.parent_path()) {
    Index limit = 0;
    // Version 2 says `max` where there is none, which is no number; version 1 a very large one.
    if (std::ifstream(folder / name) >> limit && limit > 0) most = std::min(most, limit);
    if (folder == top || folder == folder.root_path()) return most;
  }
}

}  // namespace

Index node_memory_bytes() {
  Index bytes = Index(::sysconf(_SC_PHYS_PAGES)) * Index(::sysconf(_SC_PAGESIZE));
  std::ifstream groups("/proc/self/cgroup");
  // hierarchy:controllers:/path, without a controller in version 2
  for (std::string line; std::getline(groups, line);) {
    auto const first = line.find(':');
    auto const second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    auto const controllers = line.substr(first + 1, second - first - 1);
    auto const path = line.substr(second + 1);
    std::filesystem::path const root = "/sys/fs/cgroup";
    if (controllers.empty()) bytes = limit_in(root.string() + path, root, "memory.max", bytes);
    if (controllers == "memory")
      bytes = limit_in((root / "memory").string() + path, root / "memory", "memory.limit_in_bytes", bytes);
  }
  return bytes;
}

Index default_memory_bytes(Comm const& comm) { return node_memory_bytes() / 4 / comm.num_node_ranks(); }

}  // namespace graticule::samples
