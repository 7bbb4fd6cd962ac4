// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "run/frame.hpp"

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace graticule::program::detail {

/// Nodes of a graph that follow each other, which a backward computes again.
struct Part {
  std::size_t first = 0;
  std::size_t last = 0;          ///< behind the last node
  std::vector<ValueId> reads;    ///< values of before
  std::vector<ValueId> results;  ///< tensors that are read behind it
  bool communicates = false;     ///< on all ranks alike
};

/// What a graph on several ranks does about its parts.
struct PartHooks {
  std::shared_ptr<std::int64_t> draw;  ///< number of the masks of the present call
  /// Records the node of a part that communicates, once per run: ranks count alike.
  std::function<void(torch::Tensor const&)> record;
  /// Further roots of the backward of a part that communicates.
  std::function<std::vector<torch::Tensor>(std::vector<torch::Tensor> const&)> unreached;
  std::function<void()> failed;  ///< the present exception ends a second run on this rank
};

/// Runs a part as one differentiable function, which keeps what the part reads and computes all else again in the
/// backward: with the same random numbers, masks and automatic casts, and so that all of its derivatives are right.
/// Where no gradient is wanted, it just runs.
/// @param nodes runs the nodes of the part in a frame; valid while the frame's owner is
/// @param hooks null on one process @param device of the graph
void run_part(Frame& frame, Graph const& graph, Part const& part, std::function<void(Frame&)> const& nodes,
              std::shared_ptr<PartHooks const> const& hooks, torch::Device device);

}  // namespace graticule::program::detail
