// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "conv_geometry.hpp"
#include "taps.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <optional>

namespace graticule::nn::detail {

enum class ResizeKind : std::uint8_t { nearest, nearest_exact, linear, cubic, area };

/// What interpolation reads beyond an edge.
enum class BeyondEdge : std::uint8_t { edge_cell, cells };

/// One axis of LibTorch's `interpolate` on the whole globe.
struct ResizeAxis {
  ResizeKind kind = ResizeKind::nearest;
  bool align_corners = false;
  Index num_inputs = 1;
  Index num_outputs = 1;
  std::optional<double> factor = std::nullopt;  ///< given and not recomputed: inputs lie 1 / factor apart
  BeyondEdge beyond = BeyondEdge::edge_cell;
  Index other_outputs = 0;  ///< extents of the output along all other spatial axes, summed

  /// The cells and weights of `outputs`, in global coordinates. @param like a tensor of the type, the device and the
  /// number of axes of the input: LibTorch's arithmetic depends on them. @param axis of it, counted from the last one
  [[nodiscard]] Taps taps(Range outputs, torch::Tensor const& like, std::int64_t axis) const;
  /// Which part owns which output, see `Resize`.
  [[nodiscard]] Cuts output_cuts(Cuts const& inputs) const;
};

}  // namespace graticule::nn::detail
