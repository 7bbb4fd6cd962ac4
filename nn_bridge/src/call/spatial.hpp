// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule::nn::detail {

/// Throws unless a layer of `num_axes` spatial axes takes `x`, with or without batch: `UnsupportedTensor`,
/// `ShapeMismatch`, `LongitudeIsCut` for a length, `BadBoundary`.
void check_spatial(std::string const& layer, std::size_t num_axes, torch::Tensor const& x, Domain const& domain,
                   std::vector<std::int64_t> const& odd_channels);

/// The same for a convolution; also `ShapeMismatch` unless `x` has its input channels and the dtype of `weight`.
void check_convolution(std::string const& layer, std::size_t num_axes, torch::Tensor const& x, std::int64_t in_channels,
                       torch::Tensor const& weight, Domain const& domain);

/// @throws `BadBoundary` for channels that a tensor of `num_channels` does not have
void check_odd_channels(std::vector<std::int64_t> const& odd_channels, std::int64_t num_channels);

/// @throws `LongitudeIsCut` for a layer of lengths, one axis, in a domain with more than one part along longitude
void check_longitude(std::string const& layer, std::size_t num_axes, Domain const& domain);

/// `[batch, channels, rows, columns]` for two axes, for messages.
[[nodiscard]] std::string axis_names(std::size_t num_axes);

/// @throws `BadHaloWidth` where an axis of `extent` cells has no image for so much padding
void check_width(Edge edge, Width const& padding, Index extent);

/// What lies beyond the edges of a field for a layer of `num_axes` spatial axes. @param edge none: the domain's cells
[[nodiscard]] Boundary boundary_of(std::size_t num_axes, Domain const& domain, std::optional<Edge> edge);

/// `x` [batch, channels, levels, rows, columns], of which each rank has all levels, with more levels at both ends:
/// images of the others by `edge`, which is periodic, reflect or replicate. Nothing is copied to a device for it.
[[nodiscard]] torch::Tensor with_images_of_levels(torch::Tensor const& x, std::int64_t lower, std::int64_t upper,
                                                  Edge edge);

/// An option of all spatial axes; `of_column` is that of the column of a length.
template <std::size_t D>
[[nodiscard]] std::vector<std::int64_t> along_axes(torch::ExpandingArray<D> const& option, std::int64_t of_column) {
  std::vector<std::int64_t> values(option->begin(), option->end());
  if (D == 1) values.push_back(of_column);
  return values;
}

/// A length as a column of one cell; other tensors unchanged. `x` may be undefined.
[[nodiscard]] torch::Tensor with_columns(torch::Tensor const& x, std::size_t num_axes);
/// The same with a batch axis.
[[nodiscard]] torch::Tensor batched(torch::Tensor const& x, std::size_t num_axes);
/// `y` with the axes that `x` came with, the inverse of `batched`.
[[nodiscard]] torch::Tensor unbatched(torch::Tensor const& y, torch::Tensor const& x, std::size_t num_axes);

}  // namespace graticule::nn::detail
