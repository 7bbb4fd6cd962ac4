// SPDX-License-Identifier: BSD-3-Clause
// Random masks in the memory of a device; without LibTorch, so that its source is compiled for the device.
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/repartition/device_queue.hpp>

#include <cstdint>

namespace graticule::nn::detail {

/// The random words of a call: word (i mod 4) of `philox` at the counter (i / 4, draw, layer), keyed by the seed, for
/// the value with the flat index i of the whole tensor.
struct MaskWords {
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
  std::uint32_t draw = 0;
  std::uint64_t threshold = 0;  ///< smaller words drop their value
};

/// Where a rank's values lie in the whole tensor. The value at the indices (i_0, i_1, ...) of this rank has the flat
/// index first + the sum of i_a * strides[a]; on the axis `listed`, `list[i_a]` takes the place of i_a.
/// Example: columns [2, 5) of 4 x 8 values: extents {4, 3}, strides {8, 1}, first 2.
struct MaskCells {
  static constexpr int most_axes = 8;
  Index extents[most_axes] = {};
  Index strides[most_axes] = {};
  int num_axes = 0;
  Index first = 0;
  Index const* list = nullptr;  ///< on the device
  int listed = -1;
};

/// Writes `kept` for each value that is kept, otherwise 0, in order of `queue`; returns at once.
/// @param to contiguous, on the device of the queue
void fill_mask(DeviceQueue const& queue, MaskWords const& words, MaskCells const& cells, float kept, float* to);
void fill_mask(DeviceQueue const& queue, MaskWords const& words, MaskCells const& cells, double kept, double* to);

}  // namespace graticule::nn::detail
