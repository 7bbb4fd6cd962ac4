// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn::detail {

/// Which axes of a tensor are latitude, longitude and channels; tensors seen as [..., channels, rows, columns].
class FieldAxes {
 public:
  /// @throws `BadAxis`; `BadHaloWidth`, `LongitudeIsCut` where there is no axis of longitude and it has a halo or is
  /// cut
  FieldAxes(HaloExchangeOptions const& options, Domain const& domain);

  /// A view of `x`. @throws `ShapeMismatch` for a tensor that lacks an axis
  [[nodiscard]] torch::Tensor as_planes(torch::Tensor const& x) const;
  /// The inverse.
  [[nodiscard]] torch::Tensor as_given(torch::Tensor const& planes) const;
  /// Beyond the edges of planes.
  [[nodiscard]] Boundary const& boundary() const noexcept { return boundary_; }

 private:
  std::vector<std::int64_t> from_;  ///< axes of the tensor, with one of longitude
  std::vector<std::int64_t> to_;    ///< of planes
  bool has_longitude_ = true;
  Boundary boundary_;
};

/// `x` [batch, channels, levels, rows, columns], of which each rank has all levels, with more levels at both ends:
/// images of the others by `edge`, which is periodic, reflect or replicate. Nothing is copied to a device for it.
[[nodiscard]] torch::Tensor with_images_of_levels(torch::Tensor const& x, std::int64_t lower, std::int64_t upper,
                                                  Edge edge);

}  // namespace graticule::nn::detail
