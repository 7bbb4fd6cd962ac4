// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/detail/division.hpp>

#include <functional>

namespace graticule::nn::detail {

using graticule::detail::ceil_div;
using graticule::detail::floor_div;

/// Half-open run of cells.
struct Range {
  Index lo = 0;
  Index hi = 0;
  [[nodiscard]] Index size() const noexcept { return hi > lo ? hi - lo : 0; }
};

/// The cells of both runs; empty where one of them is.
[[nodiscard]] inline Box box_of(Range rows, Range columns) {
  return {{rows.lo, columns.lo}, {rows.lo + rows.size(), columns.lo + columns.size()}};
}

/// Cuts of an axis of `total` outputs: the part that begins at input i has the outputs from `first_output(i)` on, and
/// the outermost parts with inputs all that lie beyond.
[[nodiscard]] Cuts cuts_of_outputs(Cuts const& inputs, Index total, std::function<Index(Index)> const& first_output);

/// One axis of a convolution on the whole globe: output o reads inputs o * stride - before + dilation * j.
struct ConvAxis {
  Index extent = 0;  ///< N
  Index kernel = 1;
  Index stride = 1;
  Index dilation = 1;
  Index before = 0;  ///< padding on the lower side
  Index after = 0;   ///< padding on the upper side

  /// Inputs that one output spans.
  [[nodiscard]] Index reach() const noexcept { return dilation * (kernel - 1) + 1; }
  /// M = floor((N + before + after - reach) / stride) + 1. @throws `KernelTooLarge`
  [[nodiscard]] Index num_outputs() const;
  /// Owner of each output: the part that owns the center of its window; see `ConvImpl`.
  [[nodiscard]] Cuts output_cuts(Cuts const& inputs) const { return output_cuts(inputs, num_outputs()); }
  /// The same for another number of outputs (pooling rounds up on request).
  [[nodiscard]] Cuts output_cuts(Cuts const& inputs, Index total) const;
  /// Inputs that `outputs` read, in extended coordinates; empty for no outputs.
  [[nodiscard]] Range needed(Range outputs) const noexcept;
};

/// One axis of a transposed convolution on the whole globe: input i adds to outputs i * stride - padding + dilation *
/// j.
struct TransposedAxis {
  Index extent = 1;
  Index kernel = 1;
  Index stride = 1;
  Index padding = 0;
  Index dilation = 1;
  bool ends = true;  ///< nothing lies beyond the edges

  [[nodiscard]] Index span() const noexcept { return dilation * (kernel - 1); }
  /// M = (N - 1) stride - 2 padding + span + 1, and output padding on top.
  [[nodiscard]] Index least_outputs() const noexcept { return (extent - 1) * stride - 2 * padding + span() + 1; }

  [[nodiscard]] Cuts output_cuts(Cuts const& inputs, Index total) const;
  /// Inputs that add to `outputs`; may be empty.
  [[nodiscard]] Range needed(Range outputs) const noexcept;
};

/// Split of one rank's outputs along one axis into own inputs and thin strips of halo.
///
/// The local convolution runs over `used` own inputs with zeros around; outputs of the lower rim also read
/// `lower_halo`, those of the upper rim `upper_halo`. A strip holds all inputs that its rim reads, with zeros for own
/// inputs, so its convolution completes the rim.
/// Example: 3 cells wide, stride 1, padding 1, own cells [4, 8) of 12: local padding 1; the lower rim [4, 5) has the
/// strip [3, 6) and the halo [3, 4), the upper rim [7, 8) the strip [6, 9) and the halo [8, 9).
struct ConvAxisShard {
  ConvAxisShard(ConvAxis const& axis, Range own_inputs, Range own_outputs);

  Range own;
  Range outputs;
  Range needed;
  Range used;           ///< own inputs that are needed
  Index padding = 0;    ///< zeros on either side of `used` in the local convolution
  bool splits = false;  ///< false: the local convolution cannot give exactly these outputs with symmetric padding
  Range lower_rim, upper_rim;  ///< outputs; empty where own inputs suffice
  Range lower_strip, upper_strip;
  Range lower_halo, upper_halo;
};

}  // namespace graticule::nn::detail
