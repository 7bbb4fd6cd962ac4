// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/block_grid.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

namespace graticule {

struct BlockGrid::Description {
  Indices extents;
  std::vector<Block> blocks;     ///< by number
  std::vector<int> first_block;  ///< by rank, and the number of all
  std::optional<Layout> cells;   ///< each block as if a rank of its number owned it
  std::optional<Layout> layout;
};

namespace {

std::string name_of(Block const& block, std::size_t number) {
  return std::to_string(detail::place_number(Index(number))) + " (of rank " + std::to_string(block.rank) + ")";
}

void check_block(Block const& block, std::size_t number, Box const& grid) {
  auto const name = "block " + name_of(block, number);
  if (block.rank < 0) throw Error("OutOfRange", name + ": ranks are counted from 0");
  if (block.box.ndim() != grid.ndim())
    throw Error("AxesMismatch",
                name + " is " + to_string(block.box) + ", the grid has " + std::to_string(grid.ndim()) + " axes");
  if (block.box.empty()) throw Error("BadLayout", name + " is " + to_string(block.box) + ", which has no cells");
  if (!grid.contains(block.box))
    throw Error("BadLayout", name + " is " + to_string(block.box) + ", which exceeds " + to_string(grid));
}

/// @throws `BadLayout` when two blocks have cells in common; they are named by their place in the list
void require_disjoint(std::span<Block const> blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return blocks[a].box.lo(0) < blocks[b].box.lo(0); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto const& block = blocks[order[i]];
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      auto const& other = blocks[order[j]];
      if (other.box.lo(0) >= block.box.hi(0)) break;
      if (auto const common = intersection(block.box, other.box); !common.empty())
        throw Error("BadLayout", "blocks " + name_of(block, order[i]) + " and " + name_of(other, order[j]) +
                                     " both have " + to_string(common));
    }
  }
}

Layout layout_of_cells(Indices const& extents, std::span<Block const> blocks) {
  std::vector<Box> boxes;
  boxes.reserve(blocks.size());
  for (auto const& block : blocks) boxes.push_back(block.box);
  return Layout::with_holes(extents, boxes);
}

/// The boxes of (number of the block, place in the block) that the ranks own.
Layout layout_of_places(std::span<Block const> blocks, std::vector<int> const& first_block, int ndim) {
  auto none = Indices::filled(ndim + 1, 0);
  auto extents = none;
  extents[0] = Index(blocks.size());
  std::vector<Box> boxes;
  for (std::size_t r = 0; r + 1 < first_block.size(); ++r) {
    Box box(none, none);
    if (first_block[r] < first_block[r + 1]) box.set(0, first_block[r], first_block[r + 1]);
    for (int b = first_block[r]; b < first_block[r + 1]; ++b)
      for (int a = 0; a < ndim; ++a) {
        box.set(a + 1, 0, std::max(box.hi(a + 1), blocks[std::size_t(b)].box.extent(a)));
        extents[a + 1] = std::max(extents[a + 1], box.hi(a + 1));
      }
    boxes.push_back(box);
  }
  return Layout::with_holes(extents, boxes);
}

}  // namespace

BlockGrid::BlockGrid(Indices const& extents, std::span<Block const> blocks) {
  if (extents.size() < 1 || extents.size() >= max_ndim)
    throw Error("AxesMismatch", "blocks of " + std::to_string(extents.size()) + " axes; 1 to " +
                                    std::to_string(max_ndim - 1) + " are possible");
  Description result;
  Box const grid = Box::from_extents(extents);
  for (std::size_t b = 0; b < blocks.size(); ++b) check_block(blocks[b], b, grid);
  result.extents = extents;
  require_disjoint(blocks);
  result.blocks.assign(blocks.begin(), blocks.end());
  std::stable_sort(result.blocks.begin(), result.blocks.end(),
                   [](Block const& a, Block const& b) { return a.rank < b.rank; });
  int const num_ranks = result.blocks.empty() ? 0 : result.blocks.back().rank + 1;
  result.first_block.assign(std::size_t(num_ranks) + 1, 0);
  for (auto const& block : result.blocks) ++result.first_block[std::size_t(block.rank) + 1];
  std::partial_sum(result.first_block.begin(), result.first_block.end(), result.first_block.begin());
  result.cells = layout_of_cells(extents, result.blocks);
  result.layout = layout_of_places(result.blocks, result.first_block, extents.size());
  description_ = std::make_shared<Description const>(std::move(result));
}

int BlockGrid::ndim() const noexcept { return description_->extents.size(); }

Indices const& BlockGrid::extents() const noexcept { return description_->extents; }

std::span<Block const> BlockGrid::blocks() const noexcept { return description_->blocks; }

int BlockGrid::first_block(int rank) const noexcept {
  auto const& first = description_->first_block;
  return first[std::min(std::size_t(std::max(rank, 0)), first.size() - 1)];
}

int BlockGrid::num_blocks(int rank) const noexcept { return first_block(rank + 1) - first_block(rank); }

std::vector<Box> BlockGrid::boxes(int rank) const {
  std::vector<Box> result;
  for (int b = first_block(rank); b < first_block(rank + 1); ++b) result.push_back(blocks()[std::size_t(b)].box);
  return result;
}

bool BlockGrid::has_holes() const noexcept { return description_->cells->has_holes(); }

Layout const& BlockGrid::layout() const noexcept { return *description_->layout; }

void BlockGrid::for_each_owner(Box const& box, std::function<void(int, Box const&)> const& visit) const {
  description_->cells->for_each_owner(box, visit);
}

std::uint64_t BlockGrid::fingerprint() const {
  Hash hash;
  hash.add(description_->extents).add(description_->blocks.size());
  for (auto const& block : description_->blocks) hash.add(block.box.lo()).add(block.box.hi()).add(block.rank);
  return hash.value();
}

std::string to_string(BlockGrid const& grid) {
  return std::to_string(grid.blocks().size()) + " blocks of " + to_string(Box::from_extents(grid.extents())) +
         (grid.has_holes() ? ", with holes" : "");
}

}  // namespace graticule
