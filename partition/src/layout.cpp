// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/layout.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

namespace graticule {

namespace {

/// Finds those of a list of disjoint boxes that a box meets: a binary tree of enclosing boxes.
class BoxTree {
 public:
  BoxTree() = default;
  explicit BoxTree(std::span<Box const> boxes) {
    for (std::size_t i = 0; i < boxes.size(); ++i)
      if (!boxes[i].empty()) order_.push_back(int(i));
    if (order_.empty()) return;
    nodes_.reserve(2 * (order_.size() / most_in_leaf + 1));
    add(boxes, 0, order_.size());
  }

  /// Calls `visit(i)` for each box `i` that meets `sought`, in any order. @param boxes as when it was made
  template <class Visit>
  void for_each(std::span<Box const> boxes, Box const& sought, Visit const& visit) const {
    if (!nodes_.empty()) look(0, boxes, sought, visit);
  }

 private:
  static constexpr std::size_t most_in_leaf = 4;

  struct Node {
    Box around;
    std::size_t begin;  ///< in the order
    std::size_t end;
    std::size_t second = 0;  ///< the second child; the first one follows its parent. 0: a leaf
  };

  std::size_t add(std::span<Box const> boxes, std::size_t begin, std::size_t end) {
    auto const box_at = [&](std::size_t i) -> Box const& { return boxes[std::size_t(order_[i])]; };
    Box around = box_at(begin);
    Box starts = around;  // of the lower corners
    for (std::size_t i = begin; i < end; ++i)
      for (int a = 0; a < around.ndim(); ++a) {
        Box const& box = box_at(i);
        around.set(a, std::min(around.lo(a), box.lo(a)), std::max(around.hi(a), box.hi(a)));
        starts.set(a, std::min(starts.lo(a), box.lo(a)), std::max(starts.hi(a), box.lo(a) + 1));
      }
    auto const node = nodes_.size();
    nodes_.push_back({around, begin, end});
    if (end - begin <= most_in_leaf || around.ndim() == 0) return node;
    // Across the axis along which most boxes may follow each other.
    int axis = 0;
    Index most = -1;
    for (int a = 0; a < around.ndim(); ++a) {
      Index const spread = starts.extent(a) - 1;
      Index thickest = 1;
      for (std::size_t i = begin; i < end; ++i) thickest = std::max(thickest, box_at(i).extent(a));
      if (spread / thickest > most) {
        most = spread / thickest;
        axis = a;
      }
    }
    auto const middle = begin + (end - begin) / 2;
    std::nth_element(order_.begin() + std::ptrdiff_t(begin), order_.begin() + std::ptrdiff_t(middle),
                     order_.begin() + std::ptrdiff_t(end),
                     [&](int a, int b) { return boxes[std::size_t(a)].lo(axis) < boxes[std::size_t(b)].lo(axis); });
    add(boxes, begin, middle);
    nodes_[node].second = add(boxes, middle, end);
    return node;
  }

  template <class Visit>
  void look(std::size_t at, std::span<Box const> boxes, Box const& sought, Visit const& visit) const {
    auto const& node = nodes_[at];
    if (intersection(node.around, sought).empty()) return;
    if (node.second != 0) {
      look(at + 1, boxes, sought, visit);
      look(node.second, boxes, sought, visit);
      return;
    }
    for (std::size_t i = node.begin; i < node.end; ++i)
      if (!intersection(boxes[std::size_t(order_[i])], sought).empty()) visit(order_[i]);
  }

  std::vector<int> order_;
  std::vector<Node> nodes_;
};

}  // namespace

struct Layout::Description {
  Box global;
  std::optional<ProcessGrid> grid;
  std::vector<Cuts> cuts;
  std::vector<Box> boxes;
  BoxTree tree;  ///< of the boxes
  bool has_holes = false;
};

namespace {

std::vector<Cuts> balanced_per_axis(ProcessGrid const& grid, Indices const& extents) {
  if (grid.ndim() != extents.size())
    throw Error("AxesMismatch", "a process grid needs as many axes as the grid, got " + to_string(grid.extents()) +
                                    " for " + to_string(extents));
  std::vector<Cuts> cuts;
  for (int a = 0; a < extents.size(); ++a) cuts.push_back(balanced_cuts(extents[a], grid.extent(a)));
  return cuts;
}

void require_disjoint(std::span<Box const> boxes, BoxTree const& tree) {
  for (int r = 0; r < int(boxes.size()); ++r) {
    Box const& box = boxes[std::size_t(r)];
    if (box.empty()) continue;
    int other = int(boxes.size());
    tree.for_each(boxes, box, [&](int met) { other = met > r ? std::min(other, met) : other; });
    if (other < int(boxes.size()))
      throw Error("BadLayout", "ranks " + std::to_string(r) + " and " + std::to_string(other) + " both own " +
                                   to_string(intersection(box, boxes[std::size_t(other)])));
  }
}

/// Cells of `within` that none of these boxes has, which agree on all axes before `axis`: the first ones in order.
std::optional<Box> first_hole(Box const& within, int axis, std::vector<Box const*> const& boxes) {
  if (boxes.empty()) return within;
  if (axis == within.ndim()) return std::nullopt;
  std::set<Index> ends{within.lo(axis), within.hi(axis)};
  for (auto const* box : boxes) ends.insert({box->lo(axis), box->hi(axis)});
  for (auto end = ends.begin(); std::next(end) != ends.end(); ++end) {
    Box slab = within;
    slab.set(axis, *end, *std::next(end));
    std::vector<Box const*> across;
    for (auto const* box : boxes)
      if (box->lo(axis) <= *end && *end < box->hi(axis)) across.push_back(box);
    if (auto const hole = first_hole(slab, axis + 1, across)) return hole;
  }
  return std::nullopt;
}

/// The first cells that no box has, in words. There are some.
std::string first_hole(Box const& global, std::span<Box const> boxes) {
  std::vector<Box const*> all;
  for (auto const& box : boxes)
    if (!box.empty()) all.push_back(&box);
  return to_string(first_hole(global, 0, all).value());
}

}  // namespace

Layout::Layout(ProcessGrid grid, std::vector<Cuts> cuts) {
  if (grid.ndim() != int(cuts.size()))
    throw Error("AxesMismatch", "a process grid of " + to_string(grid.extents()) + " needs cuts for each axis, got " +
                                    std::to_string(cuts.size()));
  auto extents = Indices::filled(grid.ndim(), 0);
  for (int a = 0; a < grid.ndim(); ++a) {
    auto const& axis_cuts = cuts[std::size_t(a)];
    if (axis_cuts.num_parts() != grid.extent(a))
      throw Error("BadCuts", detail::axis_text(a, grid.ndim()) + " has " + std::to_string(axis_cuts.num_parts()) +
                                 " parts for " + std::to_string(grid.extent(a)) + " ranks");
    extents[a] = axis_cuts.extent();
  }
  (void)Box::from_extents(extents).num_cells();  // refuses more than 2^63
  description_ = std::make_shared<Description const>(
      Description{Box::from_extents(extents), grid, std::move(cuts), {}, {}, false});
}

Layout::Layout(ProcessGrid const& grid, Indices const& extents) : Layout(grid, balanced_per_axis(grid, extents)) {}

namespace {

/// Cells of all boxes, which are disjoint parts of the grid. @throws `AxesMismatch`, `BadLayout`
Index checked_cells(Box const& global, std::span<Box const> boxes) {
  Index covered = 0;
  for (std::size_t r = 0; r < boxes.size(); ++r) {
    if (boxes[r].ndim() != global.ndim())
      throw Error("AxesMismatch", "rank " + std::to_string(r) + " owns " + to_string(boxes[r]) + " of a grid with " +
                                      std::to_string(global.ndim()) + " axes");
    if (!global.contains(boxes[r]))
      throw Error("BadLayout", "rank " + std::to_string(r) + " owns " + to_string(boxes[r]) +
                                   ", which exceeds the global box " + to_string(global));
    covered += boxes[r].num_cells();
  }
  return covered;
}

}  // namespace

Layout Layout::with_holes(Indices const& extents, std::span<Box const> boxes) {
  Description result{Box::from_extents(extents), std::nullopt, {}, {boxes.begin(), boxes.end()}, {}, false};
  result.has_holes = checked_cells(result.global, boxes) != result.global.num_cells();
  result.tree = BoxTree(boxes);
  require_disjoint(boxes, result.tree);
  return Layout(std::make_shared<Description const>(std::move(result)));
}

Layout Layout::from_boxes(Indices const& extents, std::span<Box const> boxes) {
  auto result = with_holes(extents, boxes);
  if (result.has_holes()) {
    Index covered = 0;
    for (auto const& box : boxes) covered += box.num_cells();
    throw Error("BadLayout", "the boxes cover " + std::to_string(covered) + " cells, the global box " +
                                 to_string(result.global()) + " has " + std::to_string(result.global().num_cells()) +
                                 ": no rank owns " + first_hole(result.global(), boxes));
  }
  return result;
}

int Layout::ndim() const noexcept { return description_->global.ndim(); }

Box const& Layout::global() const noexcept { return description_->global; }

int Layout::num_ranks() const noexcept {
  return description_->grid ? description_->grid->last_rank() + 1 : int(description_->boxes.size());
}

Box Layout::owned(int rank) const {
  if (rank < 0) throw Error("OutOfRange", "rank must be at least 0, got " + std::to_string(rank));
  auto const none = Indices::filled(ndim(), 0);
  if (rank >= num_ranks()) return {none, none};
  if (!description_->grid) return description_->boxes[std::size_t(rank)];
  if (!description_->grid->has_place(rank)) return {none, none};
  auto const coords = description_->grid->coords(rank);
  Box box(none, none);
  for (int a = 0; a < ndim(); ++a) {
    auto const& axis_cuts = description_->cuts[std::size_t(a)];
    box.set(a, axis_cuts.lo(int(coords[a])), axis_cuts.hi(int(coords[a])));
  }
  return box;
}

void Layout::for_each_owner(Box const& box, std::function<void(int, Box const&)> const& visit) const {
  Box const inside = intersection(box, global());
  if (inside.empty()) return;
  if (!description_->grid) {
    std::span<Box const> const boxes = description_->boxes;
    std::vector<int> owners;
    description_->tree.for_each(boxes, inside, [&](int rank) { owners.push_back(rank); });
    std::sort(owners.begin(), owners.end());
    for (int const rank : owners) visit(rank, intersection(inside, boxes[std::size_t(rank)]));
    return;
  }
  auto const& grid = *description_->grid;
  auto first = Indices::filled(ndim(), 0);
  auto last = first;
  for (int a = 0; a < ndim(); ++a) {
    first[a] = description_->cuts[std::size_t(a)].part_of(inside.lo(a));
    last[a] = description_->cuts[std::size_t(a)].part_of(inside.hi(a) - 1);
  }
  std::vector<std::pair<int, Box>> parts;  // where the order of the coordinates is not that of the ranks
  auto coords = first;
  for (bool more = true; more;) {
    Box part = inside;
    for (int a = 0; a < ndim(); ++a) {
      auto const& axis_cuts = description_->cuts[std::size_t(a)];
      int const p = int(coords[a]);
      part.set(a, std::max(part.lo(a), axis_cuts.lo(p)), std::min(part.hi(a), axis_cuts.hi(p)));
    }
    if (!part.empty() && grid.in_order()) visit(grid.rank(coords), part);
    if (!part.empty() && !grid.in_order()) parts.emplace_back(grid.rank(coords), part);
    more = false;
    for (int a = ndim() - 1; a >= 0 && !more; --a) {
      more = coords[a] < last[a];
      coords[a] = more ? coords[a] + 1 : first[a];
    }
  }
  std::sort(parts.begin(), parts.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
  for (auto const& [rank, part] : parts) visit(rank, part);
}

bool Layout::has_holes() const noexcept { return description_->has_holes; }

ProcessGrid const* Layout::grid() const noexcept { return description_->grid ? &*description_->grid : nullptr; }

Cuts const* Layout::cuts(int axis) const noexcept {
  return description_->grid ? &description_->cuts[std::size_t(axis)] : nullptr;
}

std::uint64_t Layout::fingerprint() const {
  Hash hash;
  hash.add(global().hi());
  if (description_->grid) {
    hash.add(description_->grid->fingerprint());
    for (auto const& axis_cuts : description_->cuts) hash.add(axis_cuts.sizes());
  }
  for (auto const& box : description_->boxes) hash.add(box.lo()).add(box.hi());
  return hash.value();
}

std::string to_string(Layout const& layout) {
  auto const* grid = layout.grid();
  if (!grid)
    return std::to_string(layout.num_ranks()) + " boxes of " + to_string(layout.global()) +
           (layout.has_holes() ? " with holes" : "");
  auto text = to_string(*grid) + " ranks of " + to_string(layout.global());
  for (int a = 0; a < grid->ndim(); ++a) {
    if (grid->extent(a) == 1) continue;
    text += ", " + detail::axis_text(a, grid->ndim()) + " cut";
    auto const sizes = layout.cuts(a)->sizes();
    for (std::size_t p = 0; p < std::min<std::size_t>(sizes.size(), 16); ++p)
      text += (p ? "," : " ") + std::to_string(sizes[p]);
    if (sizes.size() > 16) text += ",...";
  }
  return text;
}

}  // namespace graticule
