// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "stencil/conv_geometry.hpp"

#include <optional>

namespace graticule::nn::detail {

/// Windows of one axis that one pooling of a part of the globe gives.
struct PoolRun {
  Range outputs;          ///< asked for
  Range needed;           ///< the part: inputs, which may lie beyond the globe by domain
  Index padding = 0;      ///< on either side of the part
  Index num_skipped = 0;  ///< windows of the part before `outputs`
  Index num_results = 0;  ///< windows of the part
};

/// One axis of pooling on the whole globe.
struct PoolAxis {
  ConvAxis window;
  bool ceil_mode = false;
  bool by_domain = false;
  Index least_cells = 1;  ///< of a tensor that LibTorch's function takes

  /// Windows start within the globe or its lower padding. @throws `KernelTooLarge`
  [[nodiscard]] Index num_outputs() const;
  /// How LibTorch's pooling of a part of the globe gives `outputs`. The part is what the windows span, or, where padding
  /// plays a part, starts at the globe's edge or where a window would without padding.
  [[nodiscard]] PoolRun run(Range outputs) const noexcept;
  /// Those of `outputs` whose windows reach into `cells`; one run of them.
  [[nodiscard]] Range reaching(Range outputs, Range cells) const noexcept;

 private:
  [[nodiscard]] Index count() const noexcept;
  [[nodiscard]] Range clipped(Range outputs) const noexcept;
  friend std::optional<struct PoolSplit> split(PoolAxis const& axis, Range own, Range outputs, bool ceil_mode);
};

/// How one rank gives its outputs along one axis by pooling its own cells where they lie, but for the windows of the rims,
/// which also read cells of others or are cut short otherwise than on the globe.
/// Example: 3 cells wide, stride 1, padding 1, of own cells [4, 8) of 12: local padding 1, inner outputs [5, 7), and
/// [6, 6) for cells, since the rim's windows read [3, 6) and [6, 9).
struct PoolSplit {
  PoolRun local;  ///< `needed` are the own cells
  Range inner;    ///< outputs that the local pooling gives rightly
  /// What neither rim reads: up to the ends of all that is read where there is no rim.
  Range middle;
};

/// Nothing where local pooling with symmetric padding cannot have the phase of the globe's windows, or the rims meet.
[[nodiscard]] std::optional<PoolSplit> split(PoolAxis const& axis, Range own, Range outputs, bool ceil_mode);

}  // namespace graticule::nn::detail
