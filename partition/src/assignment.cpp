// SPDX-License-Identifier: BSD-3-Clause
#include "assignment.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace graticule::detail {

namespace {

/// Assigns one row after the other along a shortest path of re-assignments.
///
/// The reduced cost `-gain - row price - column price` of a pair is never negative, and 0 for assigned pairs. Every row
/// may also stay without a column, at cost 0: as if it had one of its own, whose price is always 0.
class Assigner {
 public:
  Assigner(Gains const& gains, int num_columns, Index most_steps)
      : gains_(gains),
        steps_left_(most_steps),
        row_price_(gains.num_rows(), 0),
        column_price_(std::size_t(num_columns), 0),
        column_of_(gains.num_rows(), -1),
        row_of_(std::size_t(num_columns), -1),
        distance_(std::size_t(num_columns), unreached),
        from_row_(std::size_t(num_columns), -1) {}

  /// Nothing where that takes too many steps.
  std::optional<std::vector<int>> run() {
    for (std::size_t row = 0; row < gains_.num_rows(); ++row) take_best_free(int(row));
    for (std::size_t row = 0; row < gains_.num_rows(); ++row) {
      if (column_of_[row] < 0) augment(int(row));
      if (steps_left_ < 0) return std::nullopt;
    }
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
    steps_left_ -= std::ssize(gains_.row(std::size_t(row)));
    for (auto const& [column, gain] : gains_.row(std::size_t(row))) {
      auto const c = std::size_t(column);
      Index const through = distance - gain - price - column_price_[c];
      if (through >= distance_[c]) continue;
      if (distance_[c] == unreached) reached_.push_back(column);
      distance_[c] = through;
      from_row_[c] = row;
      if (through < free_distance_) heap_.emplace(through, row_of_[c] >= 0, column);
    }
  }

  void augment(int root) {
    free_distance_ = unreached;
    scan(root, 0);
    int end = -1;
    while (!heap_.empty() && std::get<0>(heap_.top()) < free_distance_) {
      auto const [distance, taken, column] = heap_.top();
      heap_.pop();
      if (distance > distance_[std::size_t(column)]) continue;
      int const row = row_of_[std::size_t(column)];
      if (!taken) {
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

  /// Distance, whether the column is taken, column. Of equal distances a free column ends the search: overlaps of
  /// regular layouts have few different sizes.
  using Reached = std::tuple<Index, bool, int>;

  Gains const& gains_;
  Index steps_left_;
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

/// Rows bid for columns (Bertsekas, "The auction algorithm", Annals of Operations Research 14, 1988).
///
/// A row takes the column that is worth most to it, gain minus price, from the row that holds it, and raises the price
/// until the column is worth `step` less than the second one, or than none. Each row then has at most `step` less than
/// the best for it at these prices, and columns without a row cost nothing: the sum of gains is short of the largest
/// one by at most `step` per row. Prices sum to at most the gains of the rows and their steps, which bounds the bids.
class Auction {
 public:
  Auction(Gains const& gains, int num_columns, Index step)
      : gains_(gains),
        step_(step),
        price_(std::size_t(num_columns), 0),
        row_of_(std::size_t(num_columns), -1),
        column_of_(gains.num_rows(), -1),
        wanted_(gains.num_rows()) {}

  Assignment run() {
    for (std::size_t first = 0; first < gains_.num_rows(); ++first)
      for (int row = int(first); row >= 0;) row = bid(row);
    return {column_of_, short_of()};
  }

 private:
  static constexpr std::size_t num_wanted = 16;

  /// The columns that were worth most to a row when it looked at all, and what the others are worth at most since:
  /// prices only rise.
  struct Wanted {
    std::vector<Gain> columns;
    Index others = -1;
  };
  struct Best {
    Gain first{-1, 0};
    Index worth = 0;
    Index second = 0;  ///< what the second one is worth, or none
  };

  [[nodiscard]] Index worth(Gain const& gain) const { return gain.gain - price_[std::size_t(gain.column)]; }

  [[nodiscard]] Best best(Wanted const& wanted) const {
    Best found;
    for (auto const& gain : wanted.columns) {
      Index const worth_now = worth(gain);
      if (worth_now > found.worth) {
        found = {gain, worth_now, found.worth};
      } else {
        found.second = std::max(found.second, worth_now);
      }
    }
    return found;
  }

  /// Looks at all columns, from one on that differs between rows: those with equal gains then want different ones.
  void look(int row) {
    auto const all = gains_.row(std::size_t(row));
    auto& wanted = wanted_[std::size_t(row)];
    wanted.others = 0;
    found_.clear();
    auto const look_at = [&](std::size_t first, std::size_t last) {
      for (auto place = first; place < last; ++place) {
        auto const& gain = all[place];
        if (Index const now = worth(gain); now > wanted.others) {
          found_.push_back({now, found_.size(), gain});
          if (found_.size() == 8 * num_wanted) wanted.others = keep_most();
        }
      }
    };
    auto const first = all.empty() ? 0 : std::size_t(row) % all.size();
    look_at(first, all.size());
    look_at(0, first);
    if (found_.size() > num_wanted) wanted.others = keep_most();
    wanted.columns.clear();
    for (auto const& found : found_) wanted.columns.push_back(found.gain);
  }

  /// Of those found, of equal worth the earlier ones. Returns what the next one is worth.
  Index keep_most() {
    auto const more = [](Found const& a, Found const& b) {
      return a.worth != b.worth ? a.worth > b.worth : a.number < b.number;
    };
    auto const last = found_.begin() + num_wanted;
    std::nth_element(found_.begin(), last, found_.end(), more);
    auto const next = last->worth;
    found_.resize(num_wanted);
    std::sort(found_.begin(), found_.end(), more);
    for (std::size_t i = 0; i < found_.size(); ++i) found_[i].number = i;
    return next;
  }

  /// The row that loses its column, or -1.
  int bid(int row) {
    auto const& wanted = wanted_[std::size_t(row)];
    if (wanted.others < 0) look(row);
    auto found = best(wanted);
    if (found.second < wanted.others) {
      look(row);
      found = best(wanted);
    }
    if (found.first.column < 0) return -1;
    auto const column = std::size_t(found.first.column);
    price_[column] += found.worth - found.second + step_;
    column_of_[std::size_t(row)] = int(column);
    auto const loser = std::exchange(row_of_[column], row);
    if (loser >= 0) column_of_[std::size_t(loser)] = -1;
    return loser;
  }

  /// No assignment gains more than all prices and what is best for each row at these prices.
  [[nodiscard]] Index short_of() const {
    Index result = 0;
    for (Index const price : price_) result += price;
    for (std::size_t row = 0; row < gains_.num_rows(); ++row) {
      Index most = 0;
      for (auto const& gain : gains_.row(row)) {
        most = std::max(most, worth(gain));
        if (gain.column == column_of_[row]) result -= gain.gain;
      }
      result += most;
    }
    return result;
  }

  struct Found {
    Index worth;
    std::size_t number;
    Gain gain;
  };

  Gains const& gains_;
  Index step_;
  std::vector<Index> price_;
  std::vector<int> row_of_;
  std::vector<int> column_of_;
  std::vector<Wanted> wanted_;
  std::vector<Found> found_;
};

/// The rows' largest gains.
Index sum_of_largest(Gains const& gains) {
  Index sum = 0;
  for (std::size_t row = 0; row < gains.num_rows(); ++row) {
    Index most = 0;
    for (auto const& gain : gains.row(row)) most = std::max(most, gain.gain);
    sum += most;
  }
  return sum;
}

}  // namespace

Assignment best_assignment(Gains const& gains, int num_columns, Effort const& effort) {
  bool const few = gains.num_entries() <= effort.exact_entries;
  auto const most_steps = few ? std::numeric_limits<Index>::max() : effort.most_steps;
  if (auto exact = Assigner(gains, num_columns, most_steps).run()) return {*std::move(exact), 0};
  auto const largest = sum_of_largest(gains);
  auto const accepted = std::max(largest / 64, std::min(largest / 16, effort.slack));
  auto const step = std::max(Index(1), accepted / Index(gains.num_rows()));
  return Auction(gains, num_columns, step).run();
}

}  // namespace graticule::detail
