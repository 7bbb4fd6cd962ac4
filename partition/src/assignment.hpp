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
  [[nodiscard]] std::span<Gain const> row(std::size_t row) const {
    return std::span(entries_).subspan(ends_[row], ends_[row + 1] - ends_[row]);
  }

 private:
  std::vector<Gain> entries_;
  std::vector<std::size_t> ends_{0};
};

/// The column of each row, or -1, such that no column is taken twice and the sum of gains is maximal.
/// @pre gains sum to less than 2^62
[[nodiscard]] std::vector<int> best_assignment(Gains const& gains, int num_columns);

}  // namespace graticule::detail
