// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/factorizations.hpp>
#include <graticule/partition/detail/grid_sample.hpp>
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/placement.hpp>

#include "extents.hpp"

#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

namespace graticule {

std::vector<int> nodes_of_ranks(Comm const& comm) {
  int leader = 0;
  while (!comm.on_this_node(leader)) ++leader;
  std::map<Index, int> numbers;
  std::vector<int> nodes;
  for (Index const each : comm.gather_to_all(leader))
    nodes.push_back(numbers.try_emplace(each, int(numbers.size())).first->second);
  return nodes;
}

std::vector<int> consecutive_nodes(int num_ranks, int ranks_per_node) {
  if (num_ranks < 1 || ranks_per_node < 1)
    throw Error("BadProcessGrid", "num_ranks and ranks_per_node must be at least 1, got " + std::to_string(num_ranks) +
                                      " and " + std::to_string(ranks_per_node));
  std::vector<int> nodes(std::size_t(num_ranks), 0);
  for (int rank = 0; rank < num_ranks; ++rank) nodes[std::size_t(rank)] = rank / ranks_per_node;
  return nodes;
}

detail::GridSample detail::sample_of(Indices const& extents, int most) {
  auto const num_places = ProcessGrid(extents).num_ranks();
  std::vector<std::vector<std::pair<Index, double>>> axes;
  for (Index const extent : extents) {
    auto& axis = axes.emplace_back();
    for (Index i = 0; i < extent; ++i) {
      bool const in_the_middle = num_places > most && i >= 2 && i < extent - 2;
      if (in_the_middle && i != extent / 2) continue;
      axis.emplace_back(i, in_the_middle ? double(extent - 4) : 1);
    }
  }
  GridSample result{{0}, {1}};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    GridSample longer;
    for (std::size_t i = 0; i < result.places.size(); ++i)
      for (auto const& [coordinate, weight] : axes[a]) {
        longer.places.push_back(int(result.places[i] * extents[int(a)] + coordinate));
        longer.weights.push_back(result.weights[i] * weight);
      }
    result = std::move(longer);
  }
  return result;
}

namespace {

using Traffic = std::function<void(int, std::function<void(int, Index)> const&)>;

/// Bytes between nodes for any order of the ranks of one process grid.
class TrafficStudy {
 public:
  TrafficStudy(Indices const& extents, std::span<int const> node_of_rank, Traffic const& traffic)
      : node_of_rank_(node_of_rank), traffic_(traffic), sample_(detail::sample_of(extents)) {
    int const num_nodes = 1 + *std::max_element(node_of_rank.begin(), node_of_rank.end());
    members_.resize(std::size_t(num_nodes));
    for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank)
      members_[std::size_t(node_of_rank[rank])].push_back(int(rank));
  }

  [[nodiscard]] std::vector<std::vector<int>> const& members() const noexcept { return members_; }

  [[nodiscard]] double off_node_bytes(ProcessGrid const& grid) {
    std::vector<double> weights(members_.size(), 0);
    for (std::size_t i = 0; i < sample_.places.size(); ++i)
      weights[std::size_t(node_of_rank_[std::size_t(grid.rank_at(sample_.places[i]))])] += sample_.weights[i];
    double total = 0;
    for (std::size_t node = 0; node < members_.size(); ++node)
      if (weights[node] > 0)
        total += double(bytes_off(int(node), grid)) * (weights[node] / double(members_[node].size()));
    return total;
  }

 private:
  using Messages = std::vector<std::pair<int, Index>>;

  [[nodiscard]] Index bytes_off(int node, ProcessGrid const& grid) {
    Index total = 0;
    for (int const rank : members_[std::size_t(node)])
      for (auto const& [peer, bytes] : messages_of(grid.place(rank)))
        if (node_of_rank_[std::size_t(grid.rank_at(peer))] != node) total += bytes;
    return total;
  }

  [[nodiscard]] Messages const& messages_of(int place) {
    auto const [found, is_new] = messages_.try_emplace(place);
    auto& messages = found->second;
    if (is_new) traffic_(place, [&](int peer, Index bytes) { messages.emplace_back(peer, bytes); });
    return messages;
  }

  std::span<int const> node_of_rank_;
  Traffic const& traffic_;
  detail::GridSample sample_;
  std::vector<std::vector<int>> members_;
  std::unordered_map<int, Messages> messages_;
};

/// Coordinates of step `number` of a walk through all cells that moves to a neighbor in each step: every other row
/// backwards.
Indices walk_coords(Index number, Indices const& extents) {
  auto coords = coords_of(number, extents);
  auto const straight = coords;
  Index before = 0;
  for (int a = 0; a < extents.size(); ++a) {
    if (before % 2 != 0) coords[a] = extents[a] - 1 - coords[a];
    before = before * extents[a] + straight[a];
  }
  return coords;
}

Indices reversed(Indices values) {
  std::reverse(values.begin(), values.end());
  return values;
}

/// Places of a walk from block to block, and in each block from place to place; blocks at the ends may be smaller.
std::vector<int> walk(Indices const& extents, Indices const& block, bool last_axis_first) {
  auto const axes = last_axis_first ? reversed(extents) : extents;
  auto const size = last_axis_first ? reversed(block) : block;
  auto num_blocks = axes;
  for (int a = 0; a < axes.size(); ++a) num_blocks[a] = (axes[a] + size[a] - 1) / size[a];
  std::vector<int> places;
  for (Index b = 0; b < detail::product(num_blocks); ++b) {
    auto lo = walk_coords(b, num_blocks);
    auto inside = size;
    for (int a = 0; a < axes.size(); ++a) {
      lo[a] *= size[a];
      inside[a] = std::min(size[a], axes[a] - lo[a]);
    }
    for (Index i = 0; i < detail::product(inside); ++i) {
      auto coords = walk_coords(i, inside);
      for (int a = 0; a < axes.size(); ++a) coords[a] += lo[a];
      places.push_back(int(number_of(last_axis_first ? reversed(coords) : coords, extents)));
    }
  }
  return places;
}

/// The grid whose walk meets the nodes one after the other.
ProcessGrid along(Indices const& extents, std::vector<int> const& places,
                  std::vector<std::vector<int>> const& members) {
  std::vector<int> ranks(places.size());
  std::size_t step = 0;
  for (auto const& node : members)
    for (int const rank : node) ranks[std::size_t(places[step++])] = rank;
  return ProcessGrid::on_ranks(extents, std::move(ranks));
}

/// Shapes of blocks for walks: as many places as a node has ranks, and strips of up to 8 rows or columns.
std::vector<Indices> walk_blocks(Indices const& extents, Index node_size) {
  auto const ones = Indices::filled(extents.size(), 1);
  auto blocks = detail::factorizations(node_size, ones, extents);
  for (int a = 0; a < extents.size(); ++a)
    for (Index thickness = 1; thickness <= std::min<Index>(extents[a], 8); ++thickness) {
      auto block = ones;
      block[a] = thickness;
      blocks.push_back(block);
    }
  return blocks;
}

/// Ranks per node where nodes hold equally many consecutive ranks; 0 where they do not.
Index uniform_node_size(std::span<int const> node_of_rank, std::vector<std::vector<int>> const& members) {
  Index const size = Index(members.front().size());
  if (size == 0 || Index(node_of_rank.size()) % size != 0) return 0;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank)
    if (node_of_rank[rank] != int(Index(rank) / size)) return 0;
  return size;
}

void check(Indices const& extents, std::span<int const> node_of_rank) {
  int const num_ranks = ProcessGrid(extents).num_ranks();
  if (std::size_t(num_ranks) != node_of_rank.size())
    throw Error("BadProcessGrid", "a process grid of " + to_string(extents) + " needs the nodes of " +
                                      std::to_string(num_ranks) + " ranks, got " + std::to_string(node_of_rank.size()));
  for (int const node : node_of_rank)
    if (node < 0 || node >= num_ranks)
      throw Error("BadProcessGrid",
                  "node numbers must be in [0, " + std::to_string(num_ranks) + "), got " + std::to_string(node));
}

}  // namespace

Placement place_on_nodes(Indices const& extents, std::span<int const> node_of_rank, Traffic const& traffic) {
  check(extents, node_of_rank);
  TrafficStudy study(extents, node_of_rank, traffic);
  Placement best{ProcessGrid(extents), 0, 0};
  best.off_node_bytes = best.off_node_bytes_before = study.off_node_bytes(best.grid);
  auto const consider = [&](ProcessGrid const& grid) {
    double const bytes = study.off_node_bytes(grid);
    if (!(bytes < best.off_node_bytes * (1 - 1e-9))) return;
    best.grid = grid;
    best.off_node_bytes = bytes;
  };
  auto const& members = study.members();
  Index const node_size = uniform_node_size(node_of_rank, members);
  bool has_blocks = false;
  if (node_size > 0)
    for (auto const& block : detail::factorizations(node_size, Indices::filled(extents.size(), 1), extents)) {
      bool divides = true;
      for (int a = 0; a < extents.size(); ++a) divides = divides && extents[a] % block[a] == 0;
      if (!divides) continue;
      has_blocks = true;
      consider(ProcessGrid::in_blocks(extents, block));
    }
  // Lists of ranks are made for large grids only where no blocks fit.
  constexpr std::size_t many = 16384;
  if (has_blocks && node_of_rank.size() > many) return best;
  Index const largest = Index(std::max_element(members.begin(), members.end(), [](auto const& a, auto const& b) {
                                return a.size() < b.size();
                              })->size());
  for (auto const& block : walk_blocks(extents, largest))
    for (bool const last_axis_first : {false, true})
      consider(along(extents, walk(extents, block, last_axis_first), members));
  return best;
}

}  // namespace graticule
