// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/repartition/plan.hpp>

#include "shard/local_graph.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::program::detail {

/// A `MoveTask` as a plan between ranks: each rank gets the rows that it needs; the adjoint adds what all ranks have
/// for a row, in order of ranks.
///
/// The cut axis is read as its two digits (period, place in the period), so that a cut of places is a box; rows that a
/// rank needs are boxes of consecutive ones. Axes that do not matter are joined.
class Movement {
 public:
  /// Collective.
  Movement(Comm const& comm, MoveTask const& task);

  [[nodiscard]] torch::Tensor apply(torch::Tensor const& x) const;
  [[nodiscard]] torch::Tensor apply_adjoint(torch::Tensor const& y) const;

 private:
  // Consecutive rows of the target.
  struct Run {
    std::int64_t place = 0;
    std::int64_t size = 0;
  };

  void set_shapes(MoveTask const& task, int rank);
  /// The rows that this rank both has and needs, if they follow each other: copied without the plan.
  void set_direct(MoveTask const& task, int rank);
  [[nodiscard]] std::vector<Box> boxes_along(std::vector<std::int64_t> const& rows, std::int64_t period);
  void add_boxes(std::vector<std::int64_t> const& rows, std::size_t begin, std::size_t end, std::int64_t period,
                 std::vector<Box>& boxes);
  [[nodiscard]] std::vector<Box> boxes_across(std::vector<std::int64_t> const& rows, std::int64_t period);
  [[nodiscard]] std::vector<FieldView> parts(torch::Tensor const& target) const;
  [[nodiscard]] torch::Tensor direct_part(torch::Tensor const& target) const;

  std::int64_t periods_ = 1;    ///< of the cut axis
  bool along_ = true;           ///< the rows are those of the cut axis
  bool block_ = false;          ///< the rows are the same places of every period
  std::int64_t rows_axis_ = 1;  ///< of the joined target
  Shape source_shape_;
  Shape target_shape_;
  Shape joined_source_;
  Shape joined_target_;
  std::vector<std::int64_t> axes_;  ///< of the plan, in joined tensors, counted from the last one
  std::vector<Run> runs_;
  Run direct_;                      ///< of the target
  std::int64_t direct_source_ = 0;  ///< where it begins in the source
  std::optional<RepartitionPlan> plan_;
};

}  // namespace graticule::program::detail
