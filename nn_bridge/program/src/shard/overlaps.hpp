// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/cut_convolution.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>

#include <map>
#include <set>

namespace graticule::program::detail {

/// Convolutions that compute on this rank's rows while those of others travel (`ConvTask`). The same on all ranks.
struct Overlaps {
  std::map<NodeId, nn::detail::CutConvolution> convolutions;
  /// Nodes that pad a tensor for one of them: along the cut axis, the convolution does it.
  std::set<NodeId> paddings;
};

/// Those that fetch rows for themselves alone, of enough rows (`PlanCosts::overlap`).
[[nodiscard]] Overlaps find_overlaps(Plan const& plan, Sizes const& sizes);

}  // namespace graticule::program::detail
