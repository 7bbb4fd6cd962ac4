// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::nn::detail {

/// View of a contiguous tensor as rows of cells, [outer, groups, inner, cells]. Statistics are computed over all axes
/// except `groups`; row r has the weight and bias of channel r % channels.
struct NormShape {
  std::int64_t outer = 1;
  std::int64_t groups = 1;
  std::int64_t inner = 1;
  std::int64_t cells = 1;
  std::int64_t channels = 1;

  [[nodiscard]] std::int64_t num_rows() const noexcept { return outer * groups * inner; }
};

/// Count, mean and sum of squared deviations of each group over all ranks of all teams, bitwise equal on all.
struct NormStatistics {
  double count = 0;
  torch::Tensor mean;          ///< f64 [groups]
  torch::Tensor m2;            ///< f64 [groups]
  bool requires_grad = false;  ///< of the input, on any rank of any team
};

/// Parameters of a normalisation; equal on all ranks except for `shape.cells`.
struct Norm {
  std::string layer;
  NormShape shape = {};
  double eps = 1e-5;
  bool centered = true;  ///< false: divides by the root mean square and subtracts no mean
  /// Statistics are merged over the ranks of the first team, the result over those of the second, and so on.
  std::vector<Comm> teams = {};
};

/// Collective over the teams: one small all-gather each. @param requires_grad of the input, on any rank of teams[0]
/// @throws `StructureDisagreement` when a team's ranks differ, on all of them
[[nodiscard]] NormStatistics norm_statistics(Norm const& norm, torch::Tensor const& x, bool requires_grad);

/// (x - mean) / sqrt(m2 / count + eps) * weight + bias; its output is recorded with the domain (`LayerState::record`).
///
/// If the input requires a gradient on any rank, the backward sums two numbers per group over the teams, otherwise
/// none. A backward that builds a graph consists of differentiable operations. Weight and bias [channels] may be
/// undefined.
[[nodiscard]] torch::Tensor normalize(Norm const& norm, NormStatistics const& statistics, torch::Tensor const& x,
                                      torch::Tensor const& weight, torch::Tensor const& bias);

/// Sets running statistics to (1 - factor) * running + factor * found, computed in f64, without a gradient.
/// @param found of the same sizes, f64
void update_running(torch::Tensor const& running, torch::Tensor const& found, double factor);
/// The same with the factor 1 / count, which no host waits for. @param count a number of batches
void update_running_average(torch::Tensor const& running, torch::Tensor const& found, torch::Tensor const& count);

}  // namespace graticule::nn::detail
