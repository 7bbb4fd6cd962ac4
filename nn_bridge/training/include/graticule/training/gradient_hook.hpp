// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/gradient_sync.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace graticule::training {

/// The gradients of one bucket on their way over one team.
struct GradientBucket {
  std::size_t index = 0;  ///< the same on all ranks, which start their buckets in this order
  std::size_t num_buckets = 1;
  Comm team;  ///< of this object alone; another one after a pass that has failed, so it is not to be kept
  nn::Reduction reduction = nn::Reduction::sum;
  torch::Tensor values;  ///< flat, on the host: this rank's, in whose place come those that all ranks are to have
  std::vector<std::string> parameters;
  std::vector<torch::Tensor> gradients;  ///< views of `values`, by parameter; zeros where this rank has no gradient
};

/// Called again and again, until it answers that `values` holds what all ranks are to have. It does not block.
using GradientFuture = std::function<bool()>;

/// A gradient communication hook: starts the reduction of a bucket, in place of the sum or mean of the rules.
///
/// Called on all ranks of the team for the same buckets in the same order, while the backward runs, also where a rank has
/// no gradient. A mean is the hook's own to divide. What a hook posts stays its own until its future has answered.
/// Example, the sum of the rules by MPI:
///
///     [](nn::GradientBucket const& bucket) -> nn::GradientFuture {
///       MPI_Request request;
///       MPI_Iallreduce(MPI_IN_PLACE, bucket.values.data_ptr(), int(bucket.values.numel()), MPI_FLOAT, MPI_SUM,
///                      bucket.team.handle(), &request);
///       return [request]() mutable {
///         int done = 0;
///         MPI_Test(&request, &done, MPI_STATUS_IGNORE);
///         return done != 0;
///       };
///     }
using GradientHook = std::function<GradientFuture(GradientBucket const&)>;

}  // namespace graticule::training
