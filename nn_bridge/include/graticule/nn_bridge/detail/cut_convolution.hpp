// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn::detail {

class ConvSetUp;

/// A convolution of tensors [batch, channels, rows, columns], or with levels before rows, whose rows or columns are
/// cut among ranks as another library decides. The same on all ranks.
struct CutConvolution {
  std::vector<Index> kernel;  ///< of all spatial axes, as the others
  std::vector<Index> stride;
  std::vector<Index> dilation;
  std::vector<Index> padding;  ///< by zeros on both sides; not read of the cut axis
  std::int64_t groups = 1;
  int axis = 0;                      ///< the cut one: 0 for rows, 1 for columns
  Width beyond;                      ///< padding of the cut axis
  Edge edge = Edge::constant;        ///< what it holds
  Index other_extent = 0;            ///< of the axis beside the cut one
  std::vector<Index> input_bounds;   ///< rank r owns the inputs bounds[r] <= i < bounds[r + 1]
  std::vector<Index> output_bounds;  ///< likewise
  friend bool operator==(CutConvolution const&, CutConvolution const&) = default;
};

/// Whether some rank's outputs depend on inputs that it does not own.
[[nodiscard]] bool reads_other_ranks(CutConvolution const& convolution);
/// Whether each rank's outputs are those of its own inputs, with zeros around, and of strips beside them.
[[nodiscard]] bool splits_on_all_ranks(CutConvolution const& convolution);

/// The plans. Collective.
[[nodiscard]] std::shared_ptr<ConvSetUp const> set_up(Comm const& comm, CutConvolution const& convolution);

/// This rank's outputs of its own inputs, computed while those of other ranks travel; differentiable to any order.
/// Collective, as is its backward where the input requires a gradient. The result's node has two outputs, for
/// `LayerState::record`. `bias` may be undefined. @pre whether a tensor requires a gradient is the same on all ranks
[[nodiscard]] torch::Tensor cut_convolution(std::shared_ptr<ConvSetUp const> const& set_up, torch::Tensor const& x,
                                            torch::Tensor const& weight, torch::Tensor const& bias);

}  // namespace graticule::nn::detail
