// SPDX-License-Identifier: BSD-3-Clause
#include "spatial.hpp"

#include <graticule/halo/detail/edges.hpp>
#include <graticule/nn_bridge/call/tensor_view.hpp>

#include <algorithm>

namespace graticule::nn::detail {

void check_spatial(std::string const& layer, std::size_t num_axes, torch::Tensor const& x, Domain const& domain,
                   std::vector<std::int64_t> const& odd_channels) {
  (void)tensor_view(x);
  auto const dim = std::int64_t(num_axes) + 1;
  if (x.dim() != dim && x.dim() != dim + 1)
    throw Error("ShapeMismatch", layer + " takes " + axis_names(num_axes) + " or the same without batch, not " +
                                     std::to_string(x.dim()) + " axes");
  check_longitude(layer, num_axes, domain);
  check_odd_channels(odd_channels, x.size(-dim));
}

void check_convolution(std::string const& layer, std::size_t num_axes, torch::Tensor const& x, std::int64_t in_channels,
                       torch::Tensor const& weight, Domain const& domain) {
  check_spatial(layer, num_axes, x, domain, {});
  if (!torch::isFloatingType(x.scalar_type()))
    throw Error("UnsupportedTensor", layer + " needs real numbers, got " + c10::toString(x.scalar_type()));
  auto const channels = x.size(-std::int64_t(num_axes) - 1);
  if (channels != in_channels)
    throw Error("ShapeMismatch",
                layer + " has " + std::to_string(in_channels) + " input channels, got " + std::to_string(channels));
  if (x.scalar_type() != weight.scalar_type())
    throw Error("ShapeMismatch", layer + " has weights of " + c10::toString(weight.scalar_type()) +
                                     ", got a tensor of " + c10::toString(x.scalar_type()));
}

void check_odd_channels(std::vector<std::int64_t> const& odd_channels, std::int64_t num_channels) {
  for (auto const channel : odd_channels)
    if (channel < 0 || channel >= num_channels)
      throw Error("BadBoundary", "an odd channel must be in [0, " + std::to_string(num_channels) + "), got " +
                                     std::to_string(channel));
}

void check_longitude(std::string const& layer, std::size_t num_axes, Domain const& domain) {
  if (num_axes == 1 && domain.grid().extent(1) > 1)
    throw Error("LongitudeIsCut",
                layer + " needs whole longitudes: the domain must have 1 part along them, got a process grid of " +
                    to_string(domain.grid().extents()));
}

std::string axis_names(std::size_t num_axes) {
  return std::string("[batch, channels, ") +
         (num_axes == 1   ? "length"
          : num_axes == 2 ? "rows, columns"
                          : "levels, rows, columns") +
         "]";
}

void check_width(Edge edge, Width const& padding, Index extent) {
  Index const widest = std::max(padding.lower, padding.upper);
  if ((edge == Edge::reflect && widest >= extent) || (edge == Edge::periodic && widest > extent))
    throw Error("BadHaloWidth", to_string(edge) + " padding must be " +
                                    (edge == Edge::reflect ? "less than" : "at most") + " the axis of " +
                                    std::to_string(extent) + " cells, got " + std::to_string(widest));
}

Boundary boundary_of(std::size_t num_axes, Domain const& domain, std::optional<Edge> edge) {
  auto boundary = edge ? Boundary::uniform(2, *edge) : domain.boundary();
  // A length is one column: half way round it lies the column itself.
  if (num_axes == 1) boundary.odd_longitudes = OddLongitudes::shift_floor;
  return boundary;
}

torch::Tensor with_images_of_levels(torch::Tensor const& x, std::int64_t lower, std::int64_t upper, Edge edge) {
  auto const n = x.size(2);
  auto const levels = torch::arange(-lower, n + upper, torch::dtype(torch::kLong).device(x.device()));
  auto const images = [&]() -> torch::Tensor {
    using graticule::detail::Ghost;
    switch (enum_row(edge).ghost) {
      case Ghost::opposite_side: return levels.remainder(n);
      case Ghost::mirror_at_row: return n - 1 - (n - 1 - levels.abs()).abs();
      case Ghost::edge_cell: return levels.clamp(0, n - 1);
      case Ghost::nothing:
      case Ghost::constant:
      case Ghost::mirror_at_face: break;
    }
    throw Error("BadBoundary", "levels are padded by reflect, replicate or periodic, and not by " + to_string(edge));
  }();
  return x.index_select(2, images);
}

torch::Tensor with_columns(torch::Tensor const& x, std::size_t num_axes) {
  return num_axes == 1 && x.defined() && x.dim() > 0 ? x.unsqueeze(-1) : x;
}

torch::Tensor batched(torch::Tensor const& x, std::size_t num_axes) {
  return with_columns(x.dim() == std::int64_t(num_axes) + 1 ? x.unsqueeze(0) : x, num_axes);
}

torch::Tensor unbatched(torch::Tensor const& y, torch::Tensor const& x, std::size_t num_axes) {
  auto const bare = num_axes == 1 ? y.squeeze(-1) : y;
  return x.dim() == std::int64_t(num_axes) + 1 ? bare.squeeze(0) : bare;
}

}  // namespace graticule::nn::detail
