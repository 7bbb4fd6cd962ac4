// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/speech.hpp>
#include <graticule/partition/relabel.hpp>
#include <graticule/partition/shared_layout.hpp>

#include "assignment.hpp"

#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace graticule {

namespace {

/// The options with everything filled in.
struct Problem {
  Indices permutation;  ///< source axis of each target axis
  int num_ranks = 0;
  std::vector<int> node_of_rank;
  std::vector<int> ranks;  ///< that may own boxes, in increasing order
};

Indices filled_permutation(Layout const& from, Layout const& to, Indices const& given) {
  auto permutation = given;
  if (given.size() == 0)
    for (int a = 0; a < from.ndim(); ++a) permutation.push_back(a);
  if (to.ndim() != from.ndim() || permutation.size() != from.ndim())
    throw Error("LayoutMismatch", "both layouts and the permutation must have the same axes, got " + to_string(from) +
                                      ", " + to_string(to) + " and " + to_string(permutation));
  auto sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (int a = 0; a < sorted.size(); ++a)
    if (sorted[a] != a)
      throw Error("AxesMismatch", "permutation " + detail::axes_text(permutation, permutation.size()) +
                                      " does not contain each axis once");
  for (int a = 0; a < to.ndim(); ++a)
    if (to.extent(a) != from.extent(int(permutation[a])))
      throw Error("LayoutMismatch", detail::axis_text(a, to.ndim()) + " of the target has " +
                                        std::to_string(to.extent(a)) + " cells, " +
                                        detail::axis_text(permutation[a], to.ndim()) + " of the source " +
                                        std::to_string(from.extent(int(permutation[a]))));
  return permutation;
}

Problem checked(Layout const& from, Layout const& to, RelabelOptions const& options) {
  Problem problem;
  problem.permutation = filled_permutation(from, to, options.permutation);
  problem.num_ranks = std::max({from.num_ranks(), to.num_ranks(), int(options.node_of_rank.size())});
  problem.ranks = options.ranks;
  std::sort(problem.ranks.begin(), problem.ranks.end());
  for (std::size_t i = 0; i < problem.ranks.size(); ++i)
    if (problem.ranks[i] < 0 || (i > 0 && problem.ranks[i] == problem.ranks[i - 1]))
      throw Error("BadProcessGrid", "rank " + std::to_string(problem.ranks[i]) + " is negative, or listed twice");
  if (problem.ranks.empty()) {
    problem.ranks.resize(std::size_t(problem.num_ranks));
    std::iota(problem.ranks.begin(), problem.ranks.end(), 0);
  }
  if (!problem.ranks.empty()) problem.num_ranks = std::max(problem.num_ranks, problem.ranks.back() + 1);
  problem.node_of_rank = options.node_of_rank;
  if (problem.node_of_rank.empty()) problem.node_of_rank.assign(std::size_t(problem.num_ranks), 0);
  if (std::ssize(problem.node_of_rank) < problem.num_ranks)
    throw Error("BadProcessGrid", "the nodes of " + std::to_string(problem.num_ranks) +
                                      " ranks are needed, got nodes of " + std::to_string(problem.node_of_rank.size()) +
                                      " ranks");
  if (options.off_node_weight < 1)
    throw Error("BadProcessGrid", "the weight of cells that leave their node must be at least 1, got " +
                                      std::to_string(options.off_node_weight));
  return problem;
}

/// Cells of one box of the target that lie on one rank of the source.
struct Overlap {
  int rank = 0;
  Index cells = 0;
};

Box permuted(Box const& box, Indices const& source_axis) {
  Box result = box;
  for (int a = 0; a < box.ndim(); ++a) result.set(int(source_axis[a]), box.lo(a), box.hi(a));
  return result;
}

Indices inverse(Indices const& permutation) {
  auto result = permutation;
  for (int a = 0; a < permutation.size(); ++a) result[int(permutation[a])] = a;
  return result;
}

/// Of each rank of the target, by increasing rank of the source.
std::vector<std::vector<Overlap>> find_overlaps(Layout const& from, Layout const& to, Indices const& permutation) {
  std::vector<std::vector<Overlap>> overlaps(std::size_t(to.num_ranks()));
  if (from.grid() || !to.grid()) {
    for (int label = 0; label < to.num_ranks(); ++label)
      from.for_each_owner(permuted(to.owned(label), permutation), [&](int rank, Box const& part) {
        overlaps[std::size_t(label)].push_back({rank, part.num_cells()});
      });
    return overlaps;
  }
  // Boxes are looked up in cuts, not the other way round.
  auto const back = inverse(permutation);
  for (int rank = 0; rank < from.num_ranks(); ++rank)
    to.for_each_owner(permuted(from.owned(rank), back), [&](int label, Box const& part) {
      overlaps[std::size_t(label)].push_back({rank, part.num_cells()});
    });
  return overlaps;
}

/// Computes the cost of a labelling, and finds the one of least cost.
class Labels {
 public:
  Labels(Layout const& from, Layout const& to, Problem problem, Index off_node_weight)
      : problem_(std::move(problem)),
        weight_(off_node_weight),
        overlaps_(find_overlaps(from, to, problem_.permutation)) {
    for (int label = 0; label < to.num_ranks(); ++label)
      if (!overlaps_[std::size_t(label)].empty()) boxes_.push_back(label);
    if (boxes_.size() > problem_.ranks.size())
      throw Error("BadProcessGrid", "boxes with cells must be at most as many as ranks, " +
                                        std::to_string(problem_.ranks.size()) + ", got " +
                                        std::to_string(boxes_.size()));
    // On a single node all assignments save the same.
    auto const& nodes = problem_.node_of_rank;
    if (std::equal(nodes.begin() + (nodes.empty() ? 0 : 1), nodes.end(), nodes.begin())) weight_ = 1;
    Index most = 0;
    if (__builtin_mul_overflow(to.global().num_cells(), weight_, &cost_of_all_) ||
        __builtin_mul_overflow(cost_of_all_, num_labels() + 1, &most) || most > Index(1) << 62)
      throw Error("OutOfRange", to_string(to) + " with " + std::to_string(weight_) + " per cell that leaves its node");
  }

  /// Cells that change rank and, of them, those that change node too.
  [[nodiscard]] std::pair<Index, Index> moved(std::vector<int> const& rank_of) const {
    Index cells = 0;
    Index off_node = 0;
    for (std::size_t label = 0; label < overlaps_.size(); ++label)
      for (auto const& overlap : overlaps_[label]) {
        if (overlap.rank == rank_of[label]) continue;
        cells += overlap.cells;
        if (node(overlap.rank) != node(rank_of[label])) off_node += overlap.cells;
      }
    return {cells, off_node};
  }

  [[nodiscard]] std::vector<int> identity() const {
    std::vector<int> rank_of(std::size_t(num_labels()), 0);
    std::iota(rank_of.begin(), rank_of.end(), 0);
    return rank_of;
  }

  struct Best {
    std::vector<int> rank_of;
    Index cost_above_least = 0;  ///< at most
  };

  [[nodiscard]] Best best() const {
    auto const assignment = detail::best_assignment(gains(), int(problem_.ranks.size()),
                                                    {.slack = cost_of_all_ / 1000 * (num_labels() + 1)});
    // Boxes that stay with their rank gain less than a cell together, on either side of the difference.
    return {with_others(assignment.column_of), (assignment.short_of + num_labels()) / (num_labels() + 1)};
  }

 private:
  [[nodiscard]] int num_labels() const { return problem_.num_ranks; }
  [[nodiscard]] int node(int rank) const { return problem_.node_of_rank[std::size_t(rank)]; }

  /// The ranks of all boxes, given the columns of those with cells.
  [[nodiscard]] std::vector<int> with_others(std::vector<int> const& columns) const {
    std::vector<int> rank_of(std::size_t(num_labels()), -1);
    std::vector<bool> taken(rank_of.size(), false);
    auto const give = [&](int label, int rank) {
      rank_of[std::size_t(label)] = rank;
      taken[std::size_t(rank)] = true;
    };
    for (std::size_t box = 0; box < boxes_.size(); ++box)
      if (columns[box] >= 0) give(boxes_[box], problem_.ranks[std::size_t(columns[box])]);
    // Boxes that gain nothing anywhere take any rank that may own boxes, in order.
    auto next = problem_.ranks.begin();
    for (int const label : boxes_) {
      if (rank_of[std::size_t(label)] >= 0) continue;
      while (taken[std::size_t(*next)]) ++next;
      give(label, *next);
    }
    for (int label = 0; label < num_labels(); ++label)
      if (rank_of[std::size_t(label)] < 0 && !taken[std::size_t(label)]) give(label, label);
    int rank = 0;
    for (int label = 0; label < num_labels(); ++label) {
      if (rank_of[std::size_t(label)] >= 0) continue;
      while (taken[std::size_t(rank)]) ++rank;
      give(label, rank);
    }
    return rank_of;
  }

  /// What each box with cells saves on each rank that may own it, times `num_labels() + 1`, and 1 for its own rank: too
  /// little, over all boxes, to outweigh one cell.
  [[nodiscard]] detail::Gains gains() const {
    std::map<int, std::vector<int>> columns_of_node;
    std::vector<int> column_of(std::size_t(num_labels()), -1);
    for (std::size_t column = 0; column < problem_.ranks.size(); ++column) {
      int const rank = problem_.ranks[column];
      column_of[std::size_t(rank)] = int(column);
      columns_of_node[node(rank)].push_back(int(column));
    }
    detail::Gains gains;
    std::size_t num_overlaps = 0;
    for (auto const& of_label : overlaps_) num_overlaps += of_label.size();
    gains.reserve(num_overlaps);
    std::vector<Index> saved(problem_.ranks.size(), -1);  // by column; -1: nothing yet
    std::vector<int> columns;
    auto const save = [&](int column, Index cells) {
      auto& sum = saved[std::size_t(column)];
      if (sum < 0) {
        sum = 0;
        columns.push_back(column);
      }
      sum += cells;
    };
    for (int const label : boxes_) {
      std::map<int, Index> of_node;
      for (auto const& [rank, cells] : overlaps_[std::size_t(label)]) {
        if (weight_ > 1) of_node[node(rank)] += (weight_ - 1) * cells;
        if (int const column = column_of[std::size_t(rank)]; column >= 0) save(column, cells);
      }
      for (auto const& [node, cells] : of_node)
        for (int const column : columns_of_node[node]) save(column, cells);
      if (int const own = column_of[std::size_t(label)]; own >= 0) save(own, 0);
      for (int const column : columns)
        gains.add(column, std::exchange(saved[std::size_t(column)], -1) * (num_labels() + 1) +
                              (problem_.ranks[std::size_t(column)] == label ? 1 : 0));
      columns.clear();
      gains.end_row();
    }
    return gains;
  }

  Problem problem_;
  Index weight_;
  Index cost_of_all_ = 0;                       ///< of moving all cells to other nodes
  std::vector<std::vector<Overlap>> overlaps_;  ///< by label
  std::vector<int> boxes_;                      ///< labels with cells
};

}  // namespace

Relabelling relabel(Layout const& from, Layout const& to, RelabelOptions const& options) {
  Labels const labels(from, to, checked(from, to, options), options.off_node_weight);
  auto const before = labels.moved(labels.identity());
  auto best = labels.best();
  auto const after = labels.moved(best.rank_of);
  auto layout = on_ranks(to, best.rank_of);
  return {.ranks = std::move(best.rank_of),
          .layout = std::move(layout),
          .moved_cells_before = before.first,
          .moved_cells = after.first,
          .off_node_cells_before = before.second,
          .off_node_cells = after.second,
          .cost_above_least = best.cost_above_least};
}

}  // namespace graticule
