// SPDX-License-Identifier: BSD-3-Clause
// Rows of strided tasks; a row is the fastest axis.
#pragma once

#include <graticule/repartition/detail/strided.hpp>

namespace graticule::detail {

/// Offsets of the rows of a task, one after the other.
class RowWalk {
 public:
  RowWalk(StridedTask const& task, Index row) : task_(task) {
    for (int a = task.ndim - 2; a >= 0; --a) {
      auto const k = std::size_t(a);
      at_[k] = row % task.extent[k];
      row /= task.extent[k];
      to_ += at_[k] * task.to_stride[k];
      from_ += at_[k] * task.from_stride[k];
    }
  }
  [[nodiscard]] Index to() const noexcept { return to_; }
  [[nodiscard]] Index from() const noexcept { return from_; }
  void next() noexcept {
    for (int a = task_.ndim - 2; a >= 0; --a) {
      auto const k = std::size_t(a);
      to_ += task_.to_stride[k];
      from_ += task_.from_stride[k];
      if (++at_[k] < task_.extent[k]) return;
      to_ -= task_.extent[k] * task_.to_stride[k];
      from_ -= task_.extent[k] * task_.from_stride[k];
      at_[k] = 0;
    }
  }

 private:
  StridedTask const& task_;
  std::array<Index, max_ndim> at_{};
  Index to_ = 0;
  Index from_ = 0;
};

/// Rows that add to the same cells; one thread takes them all.
[[nodiscard]] inline Index rows_of_one_sum(StridedTask const& task) {
  Index result = 1;
  for (int a = task.ndim - task.num_sum_axes; a < task.ndim - 1; ++a) result *= task.extent[std::size_t(a)];
  return result;
}

/// Runs rows `[first, last)` of a transform; of a sum, all rows of a cell.
void run_transform_rows(StridedTask const& task, Index first, Index last);

}  // namespace graticule::detail
