// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace graticule::detail {

/// What a row gains when it is assigned to a column; pairs without an entry gain nothing.
struct Gain {
  int column = 0;
  Index gain = 0;  ///< not negative
};

/// Gains of all rows, one row after the other.
class Gains {
 public:
  void add(int column, Index gain) { entries_.push_back({column, gain}); }
  void end_row() { ends_.push_back(entries_.size()); }

  [[nodiscard]] std::size_t num_rows() const noexcept { return ends_.size() - 1; }
  [[nodiscard]] Index num_entries() const noexcept { return std::ssize(entries_); }
  void reserve(std::size_t num_entries) { entries_.reserve(num_entries); }
  [[nodiscard]] std::span<Gain const> row(std::size_t row) const {
    return std::span(entries_).subspan(ends_[row], ends_[row + 1] - ends_[row]);
  }

 private:
  std::vector<Gain> entries_;
  std::vector<std::size_t> ends_{0};
};

/// Columns of rows.
struct Assignment {
  std::vector<int> column_of;  ///< of each row, or -1; no column is taken twice
  /// The sum of gains is at most this much below the largest possible one; 0: it is the largest.
  Index short_of = 0;
};

/// Limits of `best_assignment`.
struct Effort {
  /// The largest sum is found for at most so many entries, however long it takes.
  Index exact_entries = Index(1) << 20;
  /// Entries that the search for the largest sum may otherwise look at before an approximate sum is accepted.
  Index most_steps = Index(1) << 25;
  /// Accepted: short of the largest sum by 1/64 of the rows' largest gains, summed, or by `slack`, but not by more than
  /// 1/16 of these gains.
  Index slack = 0;
};

/// Assigns columns to rows for the largest sum of gains or, where finding it takes too many steps, for nearly that.
/// @pre gains sum to less than 2^62
[[nodiscard]] Assignment best_assignment(Gains const& gains, int num_columns, Effort const& effort = {});

}  // namespace graticule::detail
