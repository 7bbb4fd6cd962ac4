// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/node_order.hpp>
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/placement.hpp>
#include <graticule/partition/teams.hpp>

#include <algorithm>
#include <numeric>

namespace graticule {

namespace {

std::string describe(std::vector<Teams::Axis> const& axes) {
  std::string text;
  for (auto const& axis : axes) text += (text.empty() ? "" : " x ") + axis.name + " " + std::to_string(axis.size);
  return text.empty() ? "no axis" : text;
}

/// The same axes with the free size filled in. @throws `BadProcessGrid`
std::vector<Teams::Axis> sized(std::vector<Teams::Axis> axes, int num_ranks) {
  auto const given = describe(axes);
  auto const refuse = [&](std::string const& why) {
    throw Error("BadProcessGrid", "teams of " + given + " on " + std::to_string(num_ranks) + " ranks: " + why);
  };
  if (axes.empty() || axes.size() > std::size_t(max_ndim)) refuse("1 to 8 axes are needed");
  Index product = 1;
  Teams::Axis* free = nullptr;
  for (auto& axis : axes) {
    for (auto const& other : axes)
      if (&other != &axis && other.name == axis.name) refuse("two axes have one name");
    if (axis.size < 0) refuse("a size is negative");
    if (axis.size == 0 && free != nullptr) refuse("more than one size is 0");
    if (axis.size == 0)
      free = &axis;
    else
      product *= axis.size;
    if (product > num_ranks) refuse("the sizes need more ranks");
  }
  if (num_ranks % product != 0 || (free == nullptr && product != num_ranks))
    refuse(std::to_string(num_ranks % product == 0 ? num_ranks - product : num_ranks % product) + " are left over");
  if (free != nullptr) free->size = int(num_ranks / product);
  return axes;
}

std::vector<Teams::Axis> sized_alike(Comm const& comm, std::vector<Teams::Axis> const& axes) {
  Hash hash;
  for (auto const& axis : axes) hash.add(std::string_view(axis.name)).add(axis.size);
  require_same(comm, "ArgumentDisagreement", hash.value(), "teams of " + describe(axes));
  return sized(axes, comm.num_ranks());
}

Comm by_node(Comm const& comm) {
  auto const order = detail::ranks_by_node(nodes_of_ranks(comm));
  return comm.split(0, int(std::find(order.begin(), order.end(), comm.rank()) - order.begin()));
}

}  // namespace

std::vector<int> detail::ranks_by_node(std::span<int const> node_of_rank) {
  std::vector<int> ranks(node_of_rank.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return node_of_rank[std::size_t(a)] < node_of_rank[std::size_t(b)]; });
  return ranks;
}

Teams::Teams(Comm const& comm, std::vector<Axis> axes) : axes_(sized_alike(comm, axes)), world_(by_node(comm)) {
  Indices sizes;
  for (auto const& axis : axes_) sizes.push_back(axis.size);
  auto const coords = coords_of(world_.rank(), sizes);
  for (int a = 0; a < sizes.size(); ++a) {
    auto others = coords;
    others[a] = 0;
    teams_.push_back(world_.split(int(number_of(others, sizes)), int(coords[a])));
  }
}

Comm const& Teams::team(std::string_view name) const {
  for (std::size_t a = 0; a < axes_.size(); ++a)
    if (axes_[a].name == name) return teams_[a];
  throw Error("UnknownName", "there is no team '" + std::string(name) + "'; the teams are " + describe(axes_));
}

}  // namespace graticule
