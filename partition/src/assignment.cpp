// SPDX-License-Identifier: BSD-3-Clause
#include "assignment.hpp"

#include <limits>
#include <queue>
#include <utility>

namespace graticule::detail {

namespace {

/// Assigns one row after the other along a shortest path of re-assignments.
///
/// The reduced cost `-gain - row price - column price` of a pair is never negative, and 0 for assigned pairs. Every row
/// may also stay without a column, at cost 0: as if it had one of its own, whose price is always 0.
class Assigner {
 public:
  Assigner(Gains const& gains, int num_columns)
      : gains_(gains),
        row_price_(gains.num_rows(), 0),
        column_price_(std::size_t(num_columns), 0),
        column_of_(gains.num_rows(), -1),
        row_of_(std::size_t(num_columns), -1),
        distance_(std::size_t(num_columns), unreached),
        from_row_(std::size_t(num_columns), -1) {}

  std::vector<int> run() {
    for (std::size_t row = 0; row < gains_.num_rows(); ++row) take_best_free(int(row));
    for (std::size_t row = 0; row < gains_.num_rows(); ++row)
      if (column_of_[row] < 0) augment(int(row));
    return std::move(column_of_);
  }

 private:
  static constexpr Index unreached = std::numeric_limits<Index>::max();

  void take_best_free(int row) {
    Index most = 0;
    for (auto const& [column, gain] : gains_.row(std::size_t(row))) most = std::max(most, gain);
    row_price_[std::size_t(row)] = -most;
    for (auto const& [column, gain] : gains_.row(std::size_t(row)))
      if (gain == most && row_of_[std::size_t(column)] < 0) return assign(row, column);
  }

  void assign(int row, int column) {
    column_of_[std::size_t(row)] = column;
    row_of_[std::size_t(column)] = row;
  }

  /// Reaches the columns of `row`, itself at `distance`; remembers the row that is left without a column most cheaply.
  void scan(int row, Index distance) {
    Index const price = row_price_[std::size_t(row)];
    if (distance - price < free_distance_) {
      free_distance_ = distance - price;
      freed_row_ = row;
    }
    for (auto const& [column, gain] : gains_.row(std::size_t(row))) {
      auto const c = std::size_t(column);
      Index const through = distance - gain - price - column_price_[c];
      if (through >= distance_[c]) continue;
      if (distance_[c] == unreached) reached_.push_back(column);
      distance_[c] = through;
      from_row_[c] = row;
      if (through < free_distance_) heap_.emplace(through, column);
    }
  }

  void augment(int root) {
    free_distance_ = unreached;
    scan(root, 0);
    int end = -1;
    while (!heap_.empty() && heap_.top().first < free_distance_) {
      auto const [distance, column] = heap_.top();
      heap_.pop();
      if (distance > distance_[std::size_t(column)]) continue;
      int const row = row_of_[std::size_t(column)];
      if (row < 0) {
        end = column;
        free_distance_ = distance;
        break;
      }
      done_.push_back(column);
      scan(row, distance);
    }
    update_prices(root);
    if (end < 0 && freed_row_ != root) {
      end = column_of_[std::size_t(freed_row_)];
      column_of_[std::size_t(freed_row_)] = -1;
    }
    for (int column = end; column >= 0;) {
      int const row = from_row_[std::size_t(column)];
      int const before = column_of_[std::size_t(row)];
      assign(row, column);
      column = row == root ? -1 : before;
    }
    for (int const column : reached_) distance_[std::size_t(column)] = unreached;
    reached_.clear();
    done_.clear();
    heap_ = {};
  }

  void update_prices(int root) {
    row_price_[std::size_t(root)] += free_distance_;
    for (int const column : done_) {
      Index const rest = free_distance_ - distance_[std::size_t(column)];
      column_price_[std::size_t(column)] -= rest;
      row_price_[std::size_t(row_of_[std::size_t(column)])] += rest;
    }
  }

  using Reached = std::pair<Index, int>;

  Gains const& gains_;
  std::vector<Index> row_price_;
  std::vector<Index> column_price_;
  std::vector<int> column_of_;
  std::vector<int> row_of_;
  // Of one search.
  std::vector<Index> distance_;
  std::vector<int> from_row_;
  std::vector<int> reached_;
  std::vector<int> done_;
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> heap_;
  Index free_distance_ = unreached;
  int freed_row_ = -1;
};

}  // namespace

std::vector<int> best_assignment(Gains const& gains, int num_columns) { return Assigner(gains, num_columns).run(); }

}  // namespace graticule::detail
