// SPDX-License-Identifier: BSD-3-Clause
#include "last_images.hpp"

#include "box_rest.hpp"

#include <algorithm>

namespace graticule::detail {

namespace {

/// Both read the same cells where their boxes meet, and others elsewhere.
bool same_map(Transfer const& a, Transfer const& b) {
  auto const maps_no_cell_twice = [](AxisMap const& map) { return map.slope != 0; };
  auto const end = a.maps.begin() + a.to.ndim();
  return a.maps == b.maps && std::all_of(a.maps.begin(), end, maps_no_cell_twice);
}

}  // namespace

LastImages last_images(PullTable const& table, int rank) {
  struct Entry {
    int rank;
    Transfer const* transfer;
    std::vector<Box>* parts;
  };
  LastImages result;
  result.local.resize(table.local.size());
  result.sends.resize(table.sends.size());
  std::vector<Entry> entries;
  for (std::size_t t = 0; t < table.local.size(); ++t) entries.push_back({rank, &table.local[t], &result.local[t]});
  for (std::size_t p = 0; p < table.sends.size(); ++p) {
    auto const& transfers = table.sends[p].transfers;
    result.sends[p].resize(transfers.size());
    for (std::size_t t = 0; t < transfers.size(); ++t)
      entries.push_back({table.sends[p].peer, &transfers[t], &result.sends[p][t]});
  }
  std::stable_sort(entries.begin(), entries.end(), [](Entry const& a, Entry const& b) { return a.rank < b.rank; });
  std::vector<Box> rest;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto& parts = *entries[i].parts;
    auto const& transfer = *entries[i].transfer;
    parts.assign(1, transfer.to);
    for (std::size_t j = i + 1; j < entries.size() && !parts.empty(); ++j) {
      auto const& later = *entries[j].transfer;
      if (later.kind != transfer.kind || intersection(later.from, transfer.from).empty()) continue;
      if (!same_map(later, transfer)) {
        result.are_exact = false;
        continue;
      }
      rest.clear();
      for (auto const& part : parts) append_rest(part, later.to, rest);
      parts.swap(rest);
    }
  }
  return result;
}

}  // namespace graticule::detail
