// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace graticule::training {

/// Type of the values in messages of `DataParallel` (`own`, `bf16` or `f16`) and `Daso` (all).
///
/// Gradients are rounded, parameters and the optimizer's state never: narrow messages of `Daso` carry the difference
/// from the last values that all ranks had in common, and sums are computed in f32.
enum class Wire : std::uint8_t {
  own,  ///< the type of the values
  /// Half or a quarter of the bytes: each rank rounds its gradients to bf16 (8 bits), they are added in f32 in order of
  /// ranks, and the sum is rounded once, so the error does not grow with the team.
  bf16,
  /// The same in f16 (11 bits, up to 65504): divided by a power of two of about the square root of the team size before
  /// the sum, and by the rest after it; gradients that are too large become infinite. `Daso` divides by a power of two
  /// near the largest difference, at one additional blocking all-reduce.
  f16,
  f32,
  automatic,  ///< bf16 for parameters of f32, else their own type
};

/// Gradients of matrices as products of two thin matrices, a low-rank approximation of the sum over ranks; the error is
/// added to this rank's next gradient (Vogels et al. 2019, arXiv:1905.13727).
///
/// A tensor of n rows is a matrix [n, m], so a convolution's weight is [outputs, inputs and kernel]. All others, and
/// those that would save too little, are sent whole. Example: rank 2 sends 2 (512 + 4608) numbers instead of 512 x
/// 4608, 1 in 230.
/// Cost: two messages per bucket, three thin matrix products and two factorisations per matrix; memory of one more
/// gradient.
struct LowRankGradients {
  std::int64_t rank = 4;
  double least_saving = 2;               ///< applies to matrices with (n + m) rank least_saving < n m
  std::int64_t first_iterations = 1000;  ///< in which all gradients are sent whole
  std::uint64_t seed = 0;                ///< of the first factors
};

/// Order in which the gradients of a team's ranks are added.
enum class SumOrder : std::uint8_t {
  /// As MPI's all-reduce adds them: fewer messages in teams of hundreds of ranks. MPI recommends, but does not
  /// guarantee, the same bits on all ranks and in all runs; `require_same_bits` compares the replicas. On devices as
  /// `by_rank`.
  any,
  /// Rank 0 first: the same bits in every run on the same number of ranks, and on every rank, because one rank computes
  /// each sum.
  /// Cost: two messages to each other rank, with the same total bytes as the best all-reduces. Ranks of a team on one
  /// node use shared memory instead, of the size of the gradients in the form in which they are sent.
  by_rank,
};

}  // namespace graticule::training
