// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/block_grid.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/joint_text.hpp>
#include <graticule/partition/detail/speech.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

namespace graticule {

struct BlockGrid::Description {
  Indices extents;
  int num_faces = 1;
  std::vector<Block> blocks;                     ///< by number
  std::vector<int> first_block;                  ///< by rank, and the number of all
  std::vector<std::vector<int>> of_face;         ///< numbers of its blocks
  std::vector<Layout> cells;                     ///< of a face: each of its blocks as if a rank owned it
  std::vector<std::optional<FaceJoint>> beyond;  ///< by face, axis and side
  std::optional<Layout> layout;
};

namespace {

std::string text_of(FaceJoint::Side const& side) {
  return "face " + std::to_string(detail::place_number(side.face)) + " " +
         (side.side == AxisEnd::lower ? "below" : "above") + " " + detail::axis_text(side.axis, 2);
}

std::size_t place_of(FaceJoint::Side const& side) {
  return std::size_t(side.face) * 4 + std::size_t(side.axis) * 2 + (side.side == AxisEnd::upper ? 1 : 0);
}

std::string name_of(Block const& block, std::size_t number) {
  return std::to_string(detail::place_number(Index(number))) + " (of rank " + std::to_string(block.rank) + ")";
}

void check_block(Block const& block, std::size_t number, Box const& face, int num_faces) {
  auto const name = "block " + name_of(block, number);
  if (block.rank < 0) throw Error("OutOfRange", name + ": ranks are counted from 0");
  if (block.face < 0 || block.face >= num_faces)
    throw Error("OutOfRange", name + " lies on face " + std::to_string(detail::place_number(block.face)) +
                                  ", the grid has " + std::to_string(num_faces));
  if (block.box.ndim() != face.ndim())
    throw Error("AxesMismatch",
                name + " is " + to_string(block.box) + ", the grid has " + std::to_string(face.ndim()) + " axes");
  if (block.box.empty()) throw Error("BadLayout", name + " is " + to_string(block.box) + ", which has no cells");
  if (!face.contains(block.box))
    throw Error("BadLayout", name + " is " + to_string(block.box) + ", which exceeds " + to_string(face));
}

/// @throws `BadLayout` when two blocks of one face have cells in common; they are named by their place in the list
void require_disjoint(std::span<Block const> blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  auto const key = [&](std::size_t b) { return std::pair(blocks[b].face, blocks[b].box.lo(0)); };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto const& block = blocks[order[i]];
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      auto const& other = blocks[order[j]];
      if (other.face != block.face || other.box.lo(0) >= block.box.hi(0)) break;
      if (auto const common = intersection(block.box, other.box); !common.empty())
        throw Error("BadLayout", "blocks " + name_of(block, order[i]) + " and " + name_of(other, order[j]) +
                                     " both have " + to_string(common));
    }
  }
}

Layout layout_of_cells(Indices const& extents, std::span<Block const> blocks, std::vector<int> const& numbers) {
  std::vector<Box> boxes;
  boxes.reserve(numbers.size());
  for (int const b : numbers) boxes.push_back(blocks[std::size_t(b)].box);
  return Layout::with_holes(extents, boxes);
}

std::vector<std::optional<FaceJoint>> checked_joints(Indices const& extents, int num_faces,
                                                     std::span<FaceJoint const> joints) {
  std::vector<std::optional<FaceJoint>> beyond(std::size_t(num_faces) * 4);
  if ((num_faces > 1 || !joints.empty()) && extents.size() != 2)
    throw Error("BadLayout", "faces of " + std::to_string(extents.size()) + " axes; they need 2");
  if (joints.empty()) return {};
  auto const add = [&](FaceJoint::Side const& one, FaceJoint::Side const& other, Along along) {
    auto& place = beyond[place_of(one)];
    if (place && !(place->other == other && one == other))
      throw Error("BadLayout", text_of(one) + " meets " + text_of(place->other) + " and " + text_of(other));
    place = FaceJoint{one, other, along};
  };
  for (auto const& joint : joints) {
    for (auto const* side : {&joint.one, &joint.other})
      if (side->face < 0 || side->face >= num_faces || side->axis < 0 || side->axis > 1)
        throw Error("OutOfRange", "a joint has face " + std::to_string(detail::place_number(side->face)) + " of " +
                                      std::to_string(num_faces) + " and axis " +
                                      std::to_string(detail::axis_number(side->axis, 2)) + " of 2");
    Index const cells = extents[1 - joint.one.axis];
    Index const others = extents[1 - joint.other.axis];
    if (cells != others)
      throw Error("BadLayout", text_of(joint.one) + " has " + std::to_string(cells) + " cells and meets " +
                                   text_of(joint.other) + ", which has " + std::to_string(others));
    add(joint.one, joint.other, joint.along);
    if (!(joint.one == joint.other)) add(joint.other, joint.one, joint.along);
  }
  return beyond;
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

BlockGrid::BlockGrid(Indices const& extents, std::span<Block const> blocks) : BlockGrid(extents, 1, {}, blocks) {}

BlockGrid::BlockGrid(Indices const& extents, int num_faces, std::span<FaceJoint const> joints,
                     std::span<Block const> blocks) {
  if (num_faces < 1) throw Error("OutOfRange", "a grid must have at least 1 face, got " + std::to_string(num_faces));
  if (extents.size() < 1 || extents.size() >= max_ndim)
    throw Error("AxesMismatch", "blocks of " + std::to_string(extents.size()) + " axes; 1 to " +
                                    std::to_string(max_ndim - 1) + " are possible");
  Description result;
  Box const face = Box::from_extents(extents);
  for (std::size_t b = 0; b < blocks.size(); ++b) check_block(blocks[b], b, face, num_faces);
  result.extents = extents;
  require_disjoint(blocks);
  result.num_faces = num_faces;
  result.beyond = checked_joints(extents, num_faces, joints);
  result.blocks.assign(blocks.begin(), blocks.end());
  std::stable_sort(result.blocks.begin(), result.blocks.end(),
                   [](Block const& a, Block const& b) { return a.rank < b.rank; });
  int const num_ranks = result.blocks.empty() ? 0 : result.blocks.back().rank + 1;
  result.first_block.assign(std::size_t(num_ranks) + 1, 0);
  result.of_face.resize(std::size_t(num_faces));
  for (std::size_t b = 0; b < result.blocks.size(); ++b) {
    ++result.first_block[std::size_t(result.blocks[b].rank) + 1];
    result.of_face[std::size_t(result.blocks[b].face)].push_back(int(b));
  }
  std::partial_sum(result.first_block.begin(), result.first_block.end(), result.first_block.begin());
  for (auto const& numbers : result.of_face) result.cells.push_back(layout_of_cells(extents, result.blocks, numbers));
  result.layout = layout_of_places(result.blocks, result.first_block, extents.size());
  description_ = std::make_shared<Description const>(std::move(result));
}

int BlockGrid::ndim() const noexcept { return description_->extents.size(); }

Indices const& BlockGrid::extents() const noexcept { return description_->extents; }

int BlockGrid::num_faces() const noexcept { return description_->num_faces; }

std::span<Block const> BlockGrid::blocks() const noexcept { return description_->blocks; }

int BlockGrid::first_block(int rank) const noexcept {
  auto const& first = description_->first_block;
  return first[std::min(std::size_t(std::max(rank, 0)), first.size() - 1)];
}

int BlockGrid::num_blocks(int rank) const noexcept { return first_block(rank + 1) - first_block(rank); }

std::vector<Box> BlockGrid::boxes(int rank) const {
  std::vector<Box> result;
  for (int b = first_block(rank); b < first_block(rank + 1); ++b) {
    auto const& block = blocks()[std::size_t(b)];
    if (num_faces() == 1) {
      result.push_back(block.box);
      continue;
    }
    Indices lo{block.face};
    Indices hi{block.face + 1};
    for (int a = 0; a < ndim(); ++a) {
      lo.push_back(block.box.lo(a));
      hi.push_back(block.box.hi(a));
    }
    result.emplace_back(lo, hi);
  }
  return result;
}

bool BlockGrid::has_holes() const noexcept {
  return std::any_of(description_->cells.begin(), description_->cells.end(),
                     [](Layout const& face) { return face.has_holes(); });
}

Layout const& BlockGrid::layout() const noexcept { return *description_->layout; }

void BlockGrid::for_each_owner(int face, Box const& box, std::function<void(int, Box const&)> const& visit) const {
  auto const& numbers = description_->of_face[std::size_t(face)];
  description_->cells[std::size_t(face)].for_each_owner(
      box, [&](int place, Box const& part) { visit(numbers[std::size_t(place)], part); });
}

FaceJoint const* BlockGrid::beyond(FaceJoint::Side const& side) const noexcept {
  if (!has_joints()) return nullptr;
  auto const& joint = description_->beyond[place_of(side)];
  return joint ? &*joint : nullptr;
}

bool BlockGrid::has_joints() const noexcept { return !description_->beyond.empty(); }

std::uint64_t BlockGrid::fingerprint() const {
  Hash hash;
  hash.add(description_->extents).add(description_->num_faces).add(description_->blocks.size());
  for (auto const& block : description_->blocks)
    hash.add(block.box.lo()).add(block.box.hi()).add(block.rank).add(block.face);
  for (auto const& joint : description_->beyond) {
    hash.add(joint.has_value());
    if (joint) hash.add(joint->other.face).add(joint->other.axis).add(int(joint->other.side)).add(int(joint->along));
  }
  return hash.value();
}

std::string to_string(BlockGrid const& grid) {
  auto text = std::to_string(grid.blocks().size()) + " blocks of ";
  if (grid.num_faces() > 1) text += std::to_string(grid.num_faces()) + " faces of ";
  return text + to_string(Box::from_extents(grid.extents())) + (grid.has_holes() ? ", with holes" : "");
}

std::string detail::joint_text(FaceJoint const& joint) {
  return text_of(joint.one) + " meets " + text_of(joint.other) +
         (joint.along == Along::reversed ? ", counted in opposite directions" : "");
}

std::vector<std::string> detail::joint_texts(BlockGrid const& grid) {
  std::vector<std::string> texts;
  if (!grid.has_joints()) return texts;
  for (int f = 0; f < grid.num_faces(); ++f)
    for (int a : {0, 1})
      for (auto const end : {AxisEnd::lower, AxisEnd::upper})
        if (auto const* joint = grid.beyond({f, a, end}); joint && place_of(joint->one) <= place_of(joint->other))
          texts.push_back(joint_text(*joint));
  return texts;
}

std::vector<FaceJoint> cubed_sphere_joints() {
  auto const lower = [](int face, int axis) { return FaceJoint::Side{face, axis, AxisEnd::lower}; };
  auto const upper = [](int face, int axis) { return FaceJoint::Side{face, axis, AxisEnd::upper}; };
  std::vector<FaceJoint> joints;
  for (int f = 0; f < 4; ++f) joints.push_back({upper(f, 1), lower((f + 1) % 4, 1), Along::same});
  joints.push_back({upper(0, 0), lower(4, 0), Along::same});
  joints.push_back({upper(1, 0), upper(4, 1), Along::same});
  joints.push_back({upper(2, 0), upper(4, 0), Along::reversed});
  joints.push_back({upper(3, 0), lower(4, 1), Along::reversed});
  joints.push_back({lower(0, 0), upper(5, 0), Along::same});
  joints.push_back({lower(1, 0), upper(5, 1), Along::reversed});
  joints.push_back({lower(2, 0), lower(5, 0), Along::reversed});
  joints.push_back({lower(3, 0), lower(5, 1), Along::same});
  return joints;
}

}  // namespace graticule
