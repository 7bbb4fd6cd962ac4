// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace graticule::training {

/// The gradients of one bucket during the reduction over one team.
struct GradientBucket {
  std::size_t index = 0;  ///< the same on all ranks, which start buckets in this order
  std::size_t num_buckets = 1;
  Comm team;  ///< private to this object; replaced after a failed pass, so do not keep it
  nn::Reduction reduction = nn::Reduction::sum;
  torch::Tensor values;  ///< flat, on the host: this rank's values on entry, the common result at the end
  std::vector<std::string> parameters;
  std::vector<torch::Tensor> gradients;  ///< views of `values`, by parameter; zeros where this rank has no gradient
};

/// A gradient communication hook: starts the reduction of a bucket, instead of the sum or mean of the rules.
///
/// Called on all ranks of the team for the same buckets in the same order, while the backward runs, also where a rank
/// has no gradient. For a mean, the hook itself divides. It returns a function that does not block, and that is polled
/// until it returns true: `values` then holds the result for all ranks. Until then its operations belong to the hook.
/// Example, the sum of the rules by MPI:
///
///     [](training::GradientBucket const& bucket) -> std::function<bool()> {
///       MPI_Request request;
///       MPI_Iallreduce(MPI_IN_PLACE, bucket.values.data_ptr(), int(bucket.values.numel()), MPI_FLOAT, MPI_SUM,
///                      bucket.team.handle(), &request);
///       return [request]() mutable {
///         int done = 0;
///         MPI_Test(&request, &done, MPI_STATUS_IGNORE);
///         return done != 0;
///       };
///     }
using GradientHook = std::function<std::function<bool()>(GradientBucket const&)>;

}  // namespace graticule::training
