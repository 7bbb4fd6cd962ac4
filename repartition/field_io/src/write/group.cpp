// SPDX-License-Identifier: BSD-3-Clause
#include "group.hpp"

#include <graticule/messages/detail/lanes.hpp>
#include <graticule/partition/detail/patience.hpp>

#include "dense.hpp"
#include "read/pieces.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace graticule::detail {

namespace {

/// A supply as numbers, for the other members.
constexpr std::size_t num_numbers = 5 * std::size_t(max_ndim) + 1;
using Numbers = std::array<Index, num_numbers>;

Numbers numbers_of(Supply const& supply) {
  Numbers numbers{};
  auto* out = numbers.data();
  auto const put = [&](Indices const& values) {
    for (int axis = 0; axis < max_ndim; ++axis) *out++ = axis < values.size() ? values[axis] : 0;
  };
  put(supply.cells.lo());
  put(supply.cells.hi());
  put(supply.slab.start);
  put(supply.slab.steps);
  put(supply.slab.counts);
  *out = supply.most_cells;
  return numbers;
}

Supply supply_of(Numbers const& numbers, Supply const& mine) {
  auto const ndim = std::size_t(mine.cells.ndim());
  auto const* in = numbers.data();
  auto const take = [&] {
    Indices const values(std::span(in, ndim));
    in += max_ndim;
    return values;
  };
  auto const lo = take();
  auto const hi = take();
  Supply supply{.cells = Box(lo, hi), .slab = {take(), {}, {}}, .chunk = mine.chunk};
  supply.slab.steps = take();
  supply.slab.counts = take();
  supply.most_cells = *in;
  return supply;
}

/// One supply of all cells, if together they are one box of neighboring cells.
std::optional<Supply> merged(std::vector<Supply> const& supplies) {
  std::optional<Supply> all;
  Index num_cells = 0;
  for (auto const& one : supplies) {
    if (one.cells.empty()) continue;
    if (one.slab.steps != Indices::filled(one.cells.ndim(), 1)) return {};
    if (!all) all = one;
    auto& box = all->cells;
    for (int axis = 0; axis < box.ndim(); ++axis)
      box.set(axis, std::min(box.lo(axis), one.cells.lo(axis)), std::max(box.hi(axis), one.cells.hi(axis)));
    all->most_cells = std::min(all->most_cells, one.most_cells);
    num_cells += one.cells.num_cells();
  }
  if (!all || all->cells.num_cells() != num_cells) return {};
  all->slab = {all->cells.lo(), all->slab.steps, all->cells.extents()};
  return all;
}

}  // namespace

int writer_of(Comm const& comm, int writers_per_node) {
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.num_ranks(); ++rank)
    if (comm.on_this_node(rank)) ranks.push_back(rank);
  auto const count = Index(ranks.size());
  auto const num_groups = std::min<Index>(writers_per_node, count);
  auto const place = std::find(ranks.begin(), ranks.end(), comm.rank()) - ranks.begin();
  auto const group = Index(place) * num_groups / count;
  // The first place whose group is this one.
  return ranks[std::size_t((group * count + num_groups - 1) / num_groups)];
}

std::vector<Turn> turns_of(Supply const& supply, int member) {
  std::vector<Turn> turns;
  for (auto const& piece : contiguous_pieces(supply.cells, supply.chunk, supply.most_cells))
    turns.push_back({piece, part_of(supply.slab, supply.cells, piece), member});
  return turns;
}

WriterGroup::WriterGroup(Comm const& comm, int writers_per_node)
    : group_(comm.split(writer_of(comm, writers_per_node), comm.rank())),
      peers_(comm.split(group_.rank() == 0 ? 0 : 1, comm.rank())),
      tag_(group_.next_tag()) {}

std::vector<Turn> WriterGroup::turns(Supply const& mine) {
  auto const numbers = numbers_of(mine);
  std::vector<Numbers> all(std::size_t(group_.num_ranks()));
  group_.gather_to_all(numbers.data(), Index(sizeof numbers), all.data());
  std::vector<Supply> supplies;
  boxes_.clear();
  for (auto const& one : all) {
    supplies.push_back(supply_of(one, mine));
    // Turn, part of another member and a member's own copies are in memory at once; counts of MPI are `int`.
    constexpr Index most = std::numeric_limits<int>::max();
    supplies.back().most_cells = std::clamp<Index>(supplies.back().most_cells / 3, 1, most);
    boxes_.push_back(supplies.back().cells);
  }
  if (auto const together = merged(supplies)) return turns_of(*together, -1);
  std::vector<Turn> turns;
  for (int member = 0; member < group_.num_ranks(); ++member) {
    auto const own = turns_of(supplies[std::size_t(member)], member);
    turns.insert(turns.end(), own.begin(), own.end());
  }
  return turns;
}

Box WriterGroup::share(Turn const& turn, int member) const {
  if (turn.member < 0) return intersection(turn.cells, boxes_[std::size_t(member)]);
  if (turn.member == member) return turn.cells;
  return {turn.cells.lo(), turn.cells.lo()};
}

void const* WriterGroup::gather(Turn const& turn, Index value_bytes, void const* mine) {
  auto const bytes_of = [&](Box const& cells) { return cells.num_cells() * value_bytes; };
  auto const own = share(turn);
  if (mine == nullptr) part_.assign(std::size_t(bytes_of(own)), std::byte{});
  void const* const source = mine != nullptr ? mine : part_.data();
  messages::Lanes lanes(group_, tag_);
  if (!writes()) {
    lanes.post(0, source, bytes_of(own));
    lanes.wait("for its writer to take its cells");
    return nullptr;
  }
  if (own == turn.cells) return source;
  whole_.resize(std::size_t(bytes_of(turn.cells)));
  if (!own.empty()) copy_in(turn.cells, own, value_bytes, source, whole_.data());
  for (int member = 1; member < group_.num_ranks(); ++member) {
    auto const cells = share(turn, member);
    if (cells.empty()) continue;
    // Straight to its place where that is one run.
    auto const run = run_in(turn.cells, cells);
    part_.resize(run ? 0 : std::size_t(bytes_of(cells)));
    void* const target = run ? whole_.data() + *run * value_bytes : part_.data();
    lanes.take(member, target, bytes_of(cells));
    try {
      lanes.wait("for the cells of the ranks that it writes for");
    } catch (...) {
      keep_for_good(std::move(part_));
      keep_for_good(std::move(whole_));
      throw;
    }
    if (!run) copy_in(turn.cells, cells, value_bytes, part_.data(), whole_.data());
  }
  return whole_.data();
}

}  // namespace graticule::detail
