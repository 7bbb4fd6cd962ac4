// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "stencil/conv_geometry.hpp"

#include <optional>

namespace graticule::nn::detail {

/// Windows of one axis in one pooling of a part of the globe.
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
  /// The pooling by LibTorch of a part of the globe that yields `outputs`. The part is the span of the windows; if
  /// padding is involved, it starts at the globe's edge, or where a window without padding would.
  [[nodiscard]] PoolRun run(Range outputs) const noexcept;
  /// Those of `outputs` whose windows reach into `cells`; one run of them.
  [[nodiscard]] Range reaching(Range outputs, Range cells) const noexcept;

 private:
  [[nodiscard]] Index count() const noexcept;
  [[nodiscard]] Range clipped(Range outputs) const noexcept;
  friend std::optional<struct PoolSplit> split(PoolAxis const& axis, Range own, Range outputs, bool ceil_mode);
};

/// Split of one rank's outputs along one axis: its own cells are pooled in place, except the windows of the rims, which
/// also read cells of other ranks or would be truncated differently from the globe's.
/// Example: 3 cells wide, stride 1, padding 1, of own cells [4, 8) of 12: local padding 1, inner outputs [5, 7), and
/// [6, 6) for cells, since the rim's windows read [3, 6) and [6, 9).
struct PoolSplit {
  PoolRun local;  ///< `needed` are the own cells
  Range inner;    ///< outputs that the local pooling gives rightly
  /// What neither rim reads: up to the ends of all that is read where there is no rim.
  Range middle;
};

/// None if local pooling with symmetric padding cannot match the phase of the globe's windows, or the rims meet.
[[nodiscard]] std::optional<PoolSplit> split(PoolAxis const& axis, Range own, Range outputs, bool ceil_mode);

}  // namespace graticule::nn::detail
