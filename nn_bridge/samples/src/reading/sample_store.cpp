// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/sample_store.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace graticule::samples {
namespace {

/// Memory of a stored field of a sample in addition to its cells.
constexpr Index overhead_bytes = 256;

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

SampleStore::SampleStore(SampleReader reader, Index keeps_first, std::function<void(Index, std::size_t)> on_read)
    : reader_(std::move(reader)), keeps_first_(keeps_first), on_read_(std::move(on_read)) {}

void SampleStore::set_budget(Index bytes) {
  budget_ = bytes;
  Index all = 0;
  for (std::size_t field = 0; field < reader_.num_fields(); ++field)
    all += reader_.num_samples() * (reader_.stored_bytes(field) + overhead_bytes);
  all_fit_ = all <= budget_;
}

bool SampleStore::is_worth_holding(Index sample, Index bytes) const noexcept {
  bool const trains = sample < keeps_first_ || sample >= reader_.num_in_file();
  return (trains || all_fit_) && counts_.bytes_held + bytes + overhead_bytes <= budget_;
}

void SampleStore::fetch(Index sample, std::size_t field, std::span<double> values) {
  Index const key = sample * Index(reader_.num_fields()) + Index(field);
  if (auto const found = held_.find(key); found != held_.end()) {
    ++counts_.num_hits;
    return reader_.unpack(sample, field, found->second, values);
  }
  if (on_read_) on_read_(sample, field);
  StoredCells cells = reader_.read(sample, field);
  ++counts_.num_reads;
  Index const bytes = cells.num_bytes();
  counts_.bytes_read += bytes;
  reader_.unpack(sample, field, cells, values);
  if (!is_worth_holding(sample, bytes)) return;
  held_.emplace(key, std::move(cells));
  counts_.bytes_held += bytes + overhead_bytes;
}

}  // namespace graticule::samples
