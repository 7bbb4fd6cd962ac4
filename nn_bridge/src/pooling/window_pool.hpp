// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include "pool_step.hpp"
#include "stencil/needed_inputs.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace graticule::nn::detail {

/// Pooling windows along the spatial axes of LibTorch's layer: length; rows, columns; or levels, rows, columns.
struct WindowPoolDescription {
  std::string layer;
  PoolRule rule;
  PoolWindows windows;
  bool by_domain = false;
  std::vector<std::int64_t> odd_channels = {};
  /// LibTorch rejects tensors smaller than the kernel; avg_pool3d does so for any padding.
  bool needs_whole_kernel = false;
};

/// Pooling of shards by LibTorch's own functions: of own cells in place and of strips if all ranks can split their
/// outputs so, otherwise of one tensor with all inputs of the outputs; see `PoolSplits`.
class WindowPool : public NeedState<PoolSetUp> {
 public:
  /// @throws `BadOption`, `BadHaloWidth`
  WindowPool(Domain const& domain, WindowPoolDescription description);

  /// Collective.
  [[nodiscard]] torch::Tensor forward(torch::Tensor const& x);
  /// Collective, of maxima: also their flat indices in the whole field.
  [[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> forward_with_indices(torch::Tensor const& x);

  [[nodiscard]] WindowPoolDescription const& description() const noexcept { return description_; }

 private:
  [[nodiscard]] Call enter_checked(torch::Tensor const& x);
  [[nodiscard]] std::shared_ptr<PoolSetUp const> make(torch::Tensor const& x, Layout const& layout) const;
  /// Ranks without windows must refuse what LibTorch refuses on the others. @throws `UnsupportedTensor`
  void require_type(torch::Tensor const& x);
  /// From one tensor of all that the outputs need; differentiable.
  [[nodiscard]] Pooled pool_whole(Call const& call, torch::Tensor const& x) const;

  std::size_t num_axes_;  ///< of the layer; a length is a column here
  WindowPoolDescription description_;
  std::optional<torch::ScalarType> known_type_;  ///< one that LibTorch takes
};

}  // namespace graticule::nn::detail
