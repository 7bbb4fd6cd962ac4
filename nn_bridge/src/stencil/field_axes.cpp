// SPDX-License-Identifier: BSD-3-Clause
#include "field_axes.hpp"

#include <graticule/halo/detail/edges.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>

namespace graticule::nn::detail {

FieldAxes::FieldAxes(HaloExchangeOptions const& o, Domain const& domain)
    : from_(o.axes), to_{-2, -1}, has_longitude_(o.axes.size() == 2), boundary_(domain.boundary()) {
  if (!o.odd_channels.empty()) {
    from_.push_back(o.channel_axis);
    to_.push_back(-3);
  }
  auto sorted = from_;
  std::sort(sorted.begin(), sorted.end());
  bool const twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (o.axes.empty() || o.axes.size() > 2 || twice || sorted.back() >= 0)
    throw Error("BadAxis",
                c10::str("a halo along axes ", at::IntArrayRef(o.axes), " with channels along axis ", o.channel_axis,
                         ": one or two axes and that of odd channels, counted from the last as -1, each once"));
  if (has_longitude_) return;
  if (o.longitude.lower != 0 || o.longitude.upper != 0)
    throw Error("BadHaloWidth", "a halo along longitude needs an axis of longitudes among those of the exchange");
  if (domain.grid().extent(1) > 1)
    throw Error("LongitudeIsCut",
                "a halo along latitude alone needs whole longitudes: the domain must have 1 part along them, got a "
                "process grid of " +
                    to_string(domain.grid().extents()));
  // One column behind all axes: half way round it lies the column itself.
  for (auto& axis : from_) --axis;
  from_.insert(from_.begin() + 1, -1);
  boundary_.odd_longitudes = OddLongitudes::shift_floor;
}

torch::Tensor FieldAxes::as_planes(torch::Tensor const& x) const {
  if (!x.defined()) return x;
  auto const planes = has_longitude_ ? x : x.unsqueeze(-1);
  auto const first = *std::min_element(from_.begin(), from_.end());
  if (planes.dim() < -first)
    throw Error("ShapeMismatch",
                c10::str("a halo along axis ", first + (has_longitude_ ? 0 : 1), " of a tensor ", x.sizes()));
  return from_ == to_ ? planes : planes.movedim(from_, to_);
}

torch::Tensor FieldAxes::as_given(torch::Tensor const& planes) const {
  auto const x = from_ == to_ ? planes : planes.movedim(to_, from_);
  return has_longitude_ ? x : x.squeeze(-1);
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

}  // namespace graticule::nn::detail
