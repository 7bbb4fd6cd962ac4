// SPDX-License-Identifier: BSD-3-Clause
#include "node_groups.hpp"

#include <algorithm>
#include <string>

namespace graticule::training::detail {

namespace {

NodeGroup make_group(Comm const& part, int num_node_ranks) {
  NodeGroup group{part, {}};
  double total = 0;
  for (auto const size : part.gather_to_all(num_node_ranks)) {
    group.weights.push_back(double(size));
    total += double(size);
  }
  for (auto& weight : group.weights) weight /= total;
  return group;
}

int lowest_rank_of_this_node(Comm const& world) {
  int rank = 0;
  while (!world.on_this_node(rank)) ++rank;
  return rank;
}

}  // namespace

NodeGroups node_groups(Comm const& world, std::optional<int> node, UnequalNodes unequal) {
  run_agreed(world, [&] {
    if (node && *node < 0)
      throw Error("BadOption", "DASO needs a node of number 0 or more, got " + std::to_string(*node));
  });
  int const number = node.value_or(lowest_rank_of_this_node(world));
  NodeGroups result{world.split(number, world.rank()), 1, {}};
  int const own = result.node.num_ranks();
  auto const sizes = world.gather_to_all(own);
  auto const smallest = std::min_element(sizes.begin(), sizes.end());
  auto const largest = std::max_element(sizes.begin(), sizes.end());
  bool const equal = *smallest == *largest;
  if (!equal && unequal == UnequalNodes::refuse)
    throw Error("BadProcessGrid", "rank " + std::to_string(smallest - sizes.begin()) + " is on a node of " +
                                      std::to_string(*smallest) + " ranks, rank " +
                                      std::to_string(largest - sizes.begin()) + " on one of " +
                                      std::to_string(*largest));
  result.num_groups = int(*largest);
  result.groups.resize(std::size_t(result.num_groups));
  int const place = result.node.rank();
  if (equal) {
    result.groups[std::size_t(place)] = make_group(world.split(place, world.rank()), own);
    return result;
  }
  for (int g = 0; g < result.num_groups; ++g) {
    bool const member = result.member(g) == place;
    auto const part = world.split(member ? 0 : 1, world.rank());
    if (member) result.groups[std::size_t(g)] = make_group(part, own);
  }
  return result;
}

}  // namespace graticule::training::detail
