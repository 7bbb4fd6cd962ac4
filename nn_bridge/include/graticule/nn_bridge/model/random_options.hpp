// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

namespace graticule::nn {

/// Selects the masks that a layer draws.
struct RandomOptions {
  std::uint64_t seed = 0;
  /// Layers with equal seed and number draw equal masks. Default: the number of the layer in its domain, in order of
  /// construction.
  std::optional<std::uint32_t> layer = {};
  /// Global index of this rank's first sample; in data-parallel runs it makes the masks differ between teams.
  std::int64_t first_sample = 0;
};

}  // namespace graticule::nn
