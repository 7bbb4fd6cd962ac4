// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/factorizations.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/process_grid.hpp>

#include "extents.hpp"

#include <limits>

namespace graticule {

Indices coords_of(Index number, Indices const& extents) noexcept {
  auto coords = extents;
  for (int a = extents.size() - 1; a >= 0; --a) {
    coords[a] = number % extents[a];
    number /= extents[a];
  }
  return coords;
}

Index number_of(Indices const& coords, Indices const& extents) noexcept {
  Index number = 0;
  for (int a = 0; a < extents.size(); ++a) number = number * extents[a] + coords[a];
  return number;
}

namespace {

void factorize(Index number, Indices const& chosen, Indices const& least, Indices const& most,
               std::vector<Indices>& found) {
  int const axis = chosen.size();
  if (axis == least.size()) {
    if (number == 1) found.push_back(chosen);
    return;
  }
  for (Index factor = std::min(number, most[axis]); factor >= least[axis]; --factor) {
    if (number % factor != 0) continue;
    Indices more = chosen;
    more.push_back(factor);
    factorize(number / factor, more, least, most, found);
  }
}

}  // namespace

std::vector<Indices> detail::factorizations(Index number, Indices const& least, Indices const& most) {
  if (least.size() != most.size())
    throw Error("AxesMismatch", "the least and the most factors need equally many axes, got " + to_string(least) +
                                    " and " + to_string(most));
  Indices at_least_one = least;
  for (auto& factor : at_least_one) factor = std::max<Index>(factor, 1);
  std::vector<Indices> found;
  if (number >= 1) factorize(number, {}, at_least_one, most, found);
  return found;
}

namespace {

/// Coordinates among blocks and inside a block.
struct BlockCoords {
  Indices block;
  Indices inside;
};

BlockCoords divided(Indices const& coords, Indices const& block) {
  BlockCoords result{coords, coords};
  for (int a = 0; a < coords.size(); ++a) {
    result.block[a] = coords[a] / block[a];
    result.inside[a] = coords[a] % block[a];
  }
  return result;
}

std::string times(Indices const& extents) {
  std::string text;
  for (int a = 0; a < extents.size(); ++a) {
    bool const from_last = detail::speech() == detail::Speech::fortran;
    text += (a > 0 ? "x" : "") + std::to_string(extents[from_last ? extents.size() - 1 - a : a]);
  }
  return text;
}

}  // namespace

ProcessGrid::ProcessGrid(Indices extents) : extents_(extents), block_(Indices::filled(extents.size(), 1)) {
  Index total = 1;
  for (int a = 0; a < extents.size(); ++a) {
    if (extents[a] < 1 || __builtin_mul_overflow(total, extents[a], &total) || total > std::numeric_limits<int>::max())
      throw Error("BadProcessGrid", "a process grid needs at least one rank per axis and fewer than 2^31 in all, got " +
                                        to_string(extents));
  }
  num_ranks_ = int(total);
}

ProcessGrid ProcessGrid::in_blocks(Indices const& extents, Indices const& block) {
  ProcessGrid grid(extents);
  bool fits = block.size() == extents.size();
  for (int a = 0; a < extents.size() && fits; ++a) fits = block[a] >= 1 && extents[a] % block[a] == 0;
  if (!fits)
    throw Error("BadProcessGrid",
                "blocks of " + to_string(block) + " do not divide a process grid of " + to_string(extents));
  // Blocks of whole rows, or of a part of one row, leave the ranks where they are.
  int axis = extents.size() - 1;
  while (axis >= 0 && block[axis] == extents[axis]) --axis;
  bool in_order = true;
  for (int a = 0; a < axis; ++a) in_order = in_order && block[a] == 1;
  if (!in_order) grid.block_ = block;
  return grid;
}

ProcessGrid ProcessGrid::on_ranks(Indices const& extents, std::vector<int> ranks) {
  ProcessGrid grid(extents);
  if (ranks.size() != std::size_t(grid.num_ranks_))
    throw Error("BadProcessGrid", "a process grid of " + to_string(extents) + " needs " +
                                      std::to_string(grid.num_ranks_) + " ranks, got " + std::to_string(ranks.size()));
  auto order = std::make_shared<Order>();
  bool in_order = true;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    int const rank = ranks[place];
    if (rank < 0 || rank == std::numeric_limits<int>::max())
      throw Error("BadProcessGrid",
                  "ranks must be in [0, 2^31 - 1), got " + std::to_string(rank) + " at place " + std::to_string(place));
    if (std::size_t(rank) >= order->places.size()) order->places.resize(std::size_t(rank) + 1, -1);
    int& known = order->places[std::size_t(rank)];
    if (known >= 0)
      throw Error("BadProcessGrid", "rank " + std::to_string(rank) + " appears at the places " + std::to_string(known) +
                                        " and " + std::to_string(place));
    known = int(place);
    in_order = in_order && rank == known;
  }
  if (in_order) return grid;
  order->ranks = std::move(ranks);
  grid.order_ = std::move(order);
  return grid;
}

int ProcessGrid::last_rank() const noexcept { return (order_ ? int(order_->places.size()) : num_ranks_) - 1; }

bool ProcessGrid::in_blocks() const noexcept { return detail::product(block_) > 1; }

bool ProcessGrid::in_order() const noexcept { return !order_ && !in_blocks(); }

bool ProcessGrid::has_place(int rank) const noexcept {
  if (rank < 0 || rank > last_rank()) return false;
  return !order_ || order_->places[std::size_t(rank)] >= 0;
}

int ProcessGrid::place(int rank) const {
  if (!has_place(rank))
    throw Error("OutOfRange",
                "rank " + std::to_string(rank) + " has no place in a process grid of " + to_string(extents_));
  if (order_) return order_->places[std::size_t(rank)];
  return in_blocks() ? int(number_of(coords(rank), extents_)) : rank;
}

Indices ProcessGrid::coords(int rank) const {
  if (!in_blocks()) return coords_of(place(rank), extents_);
  if (!has_place(rank))
    throw Error("OutOfRange",
                "rank " + std::to_string(rank) + " has no place in a process grid of " + to_string(extents_));
  Index const size = detail::product(block_);
  auto coords = coords_of(rank / size, divided(extents_, block_).block);
  auto const inside = coords_of(rank % size, block_);
  for (int a = 0; a < ndim(); ++a) coords[a] = coords[a] * block_[a] + inside[a];
  return coords;
}

int ProcessGrid::rank(Indices const& coords) const {
  if (coords.size() != ndim())
    throw Error("OutOfRange",
                "coordinates " + to_string(coords) + " lie outside of a process grid of " + to_string(extents_));
  for (int a = 0; a < ndim(); ++a)
    if (coords[a] < 0 || coords[a] >= extents_[a])
      throw Error("OutOfRange",
                  "coordinates " + to_string(coords) + " lie outside of a process grid of " + to_string(extents_));
  if (in_blocks()) {
    auto const at = divided(coords, block_);
    return int(number_of(at.block, divided(extents_, block_).block) * detail::product(block_) +
               number_of(at.inside, block_));
  }
  auto const place = std::size_t(number_of(coords, extents_));
  return order_ ? order_->ranks[place] : int(place);
}

int ProcessGrid::rank_at(int place) const {
  if (place < 0 || place >= num_ranks_)
    throw Error("OutOfRange", "place must be in [0, " + std::to_string(num_ranks_) + ") of a process grid of " +
                                  to_string(extents_) + ", got " + std::to_string(place));
  if (order_) return order_->ranks[std::size_t(place)];
  return in_blocks() ? rank(coords_of(place, extents_)) : place;
}

std::uint64_t ProcessGrid::fingerprint() const {
  Hash hash;
  hash.add(extents_).add(block_);
  if (order_) hash.add(order_->ranks);
  return hash.value();
}

bool operator==(ProcessGrid const& a, ProcessGrid const& b) {
  if (a.extents_ != b.extents_ || a.block_ != b.block_ || !a.order_ != !b.order_) return false;
  return a.order_ == b.order_ || a.order_->ranks == b.order_->ranks;
}

std::string to_string(ProcessGrid const& grid) {
  auto const text = times(grid.extents());
  if (grid.in_order()) return text;
  bool const in_blocks = grid.block() != Indices::filled(grid.ndim(), 1);
  return text + (in_blocks ? " (blocks of " + times(grid.block()) + ")" : " (reordered)");
}

}  // namespace graticule
