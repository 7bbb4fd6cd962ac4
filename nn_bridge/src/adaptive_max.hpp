// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/domain.hpp>

#include "needed_inputs.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace graticule::nn::detail {

/// The windows of one axis: output o takes the maximum over `cells[o * num_taps]` and the following, relative to
/// `first_cell`. Windows shorter than others name their last cell again.
struct MaxWindows {
  std::vector<std::int64_t> cells;
  Index num_taps = 1;
  Index num_outputs = 0;
  Index first_cell = 0;
  Index extent = 0;  ///< of the whole field
};

struct AdaptiveMaxSetUp {
  NeededInputs inputs;
  std::vector<MaxWindows> axes;  ///< levels (if any), rows, columns
};

/// Adaptive maxima of shards.
class AdaptiveMax {
 public:
  /// @param sizes of the whole output along the spatial axes; none: that of the input. @throws `BadWindow`
  AdaptiveMax(Domain domain, std::string layer, std::vector<std::optional<std::int64_t>> sizes);

  /// Collective. @returns maxima, and their flat indices in the whole field
  [[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor const& x);
  void reset_structure() { state_.reset_structure(); }
  [[nodiscard]] int num_set_ups() const noexcept { return state_.num_set_ups(); }

 private:
  [[nodiscard]] std::shared_ptr<AdaptiveMaxSetUp const> make(torch::Tensor const& x, Layout const& layout) const;

  Domain domain_;
  std::string layer_;
  std::vector<std::optional<std::int64_t>> sizes_;
  NeedState<AdaptiveMaxSetUp> state_;
};

}  // namespace graticule::nn::detail
