// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace graticule::training {

/// In what form gradients travel. Parameters and the optimizer's state are never rounded.
enum class Wire : std::uint8_t {
  own,  ///< the gradient's own type
  /// Half or a quarter of the bytes: each rank rounds its gradients to bf16 (8 bits), they are added in f32 in the order of
  /// ranks, and the sum is rounded once, so that the error does not grow with the team.
  bf16,
  /// The same in f16 (11 bits, up to 65504): divided by a power of two of about the square root of the team before, by the
  /// rest after. What is too large becomes infinite.
  f16,
};

/// Gradients of matrices as products of two thin ones, of what the ranks' sum has most; what is lost is added to this rank's
/// next gradient (Vogels et al. 2019, arXiv:1905.13727).
///
/// A tensor of n rows is a matrix [n, m], so a convolution's weight is [outputs, inputs and kernel]. All others, and those
/// that would save too little, travel whole. Example: rank 2 sends 2 (512 + 4608) numbers instead of 512 x 4608, 1 in 230.
/// Cost: two messages a bucket, three thin matrix products and two factorisations a matrix; memory of one gradient more.
struct LowRankGradients {
  std::int64_t rank = 4;
  double least_saving = 2;               ///< thin are those with (n + m) rank least_saving < n m
  std::int64_t first_iterations = 1000;  ///< of which all gradients travel whole
  std::uint64_t seed = 0;                ///< of the first factors
};

/// In what order the gradients of a team's ranks are added.
enum class SumOrder : std::uint8_t {
  /// As MPI's all-reduce adds them: fewer messages where a team has hundreds of ranks. MPI recommends, and does not promise,
  /// the same bits on all ranks and in all runs; `require_same_bits` compares the replicas.
  any,
  /// Rank 0 first: the same bits in every run on as many ranks, and on every rank, because each sum is made by one rank.
  /// Cost: two messages to each other rank, with as many bytes in all as the best all-reduces. The ranks of a team that is
  /// on one node read and write them in shared memory, as large as the gradients in the form in which they travel.
  by_rank,
};

}  // namespace graticule::training
