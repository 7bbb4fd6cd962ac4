// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/detail/constant.hpp>

#include "stencil/needed_inputs.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace graticule::nn::detail {

/// The windows of one axis: output o takes the maximum over `cells[o * num_taps]` and the following, relative to
/// `first_cell`. Shorter windows repeat their last cell.
struct MaxWindows {
  Constant cells;
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
class AdaptiveMax : public NeedState<AdaptiveMaxSetUp> {
 public:
  /// @param sizes of the whole output along the spatial axes; none: that of the input. @throws `BadOption`
  AdaptiveMax(Domain const& domain, std::string const& layer, std::vector<std::optional<std::int64_t>> sizes);

  /// Collective. @returns maxima, and their flat indices in the whole field
  [[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor const& x);

 private:
  [[nodiscard]] std::shared_ptr<AdaptiveMaxSetUp const> make(torch::Tensor const& x, Layout const& layout) const;

  std::vector<std::optional<std::int64_t>> sizes_;
};

}  // namespace graticule::nn::detail
