// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace graticule::nn {

/// How the values f of the cells, with weights w, are combined.
enum class LossReduction : std::uint8_t {
  mean,       ///< sum w f / sum w
  sum,        ///< sum w f
  batchmean,  ///< sum w f / samples
};

/// The granularity of the result; each value is normalised by its own sum of weights.
enum class LossPer : std::uint8_t { domain, sample, channel, level };

/// Weights of a loss. The weight w of a cell is the product of all weights given, and of the mask; by default 1.
struct LossOptions {
  LossReduction reduction = LossReduction::mean;
  LossPer per = LossPer::domain;
  /// One weight per row of this rank's shard (see `area_weights`), or
  std::vector<double> row_weights = {};
  /// one per row of the globe, of which each rank takes those of its rows.
  std::vector<double> global_row_weights = {};
  std::vector<double> channel_weights = {};
  std::vector<double> level_weights = {};
};

}  // namespace graticule::nn
