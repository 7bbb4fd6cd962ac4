// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include "run/frame.hpp"
#include "shard/local_graph.hpp"
#include "shard/movement.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace graticule::program::detail {

/// What tasks of one graph share.
struct TaskContext {
  Comm comm;
  /// Records the node that made a result of a collective task, so that losses on other ranks reach it.
  std::function<void(torch::Tensor const&)> record;
  std::uint64_t seed = 0;
  /// Number of the masks of the present call, the same on all ranks.
  std::shared_ptr<std::int64_t> draw = std::make_shared<std::int64_t>(0);
};

/// Makes the steps of a local graph's tasks. Tasks that move alike, and convolutions of one geometry, share a plan.
class TaskSteps {
 public:
  TaskSteps(std::shared_ptr<TaskContext const> context, LocalGraph const& local, Conversion const& conversion);

  /// Null for a node that runs its own operator. Collective for a node that moves cells.
  [[nodiscard]] std::unique_ptr<Step> make(std::size_t node);

 private:
  std::shared_ptr<TaskContext const> context_;
  LocalGraph const* local_;
  Conversion conversion_;
  std::map<std::tuple<Shape, Cut, std::int64_t, std::vector<std::vector<std::int64_t>>>,
           std::shared_ptr<Movement const>>
      movements_;
  std::vector<std::pair<nn::detail::CutConvolution, std::shared_ptr<nn::detail::ConvSetUp const>>> convolutions_;
};

}  // namespace graticule::program::detail
