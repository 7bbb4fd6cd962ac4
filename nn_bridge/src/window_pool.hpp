// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/domain.hpp>

#include "needed_inputs.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::nn::detail {

/// Pooling windows along the spatial axes of LibTorch's layer: length; rows, columns; or levels, rows, columns.
struct WindowPoolDescription {
  std::string layer;
  std::vector<Index> kernel;
  std::vector<Index> stride;
  std::vector<Index> padding;
  std::vector<Index> dilation;
  bool ceil_mode = false;
  bool by_domain = false;
  std::vector<std::int64_t> odd_channels;
  /// The local function refuses tensors smaller than the kernel, as LibTorch's avg_pool3d does whatever the padding.
  bool needs_whole_kernel = false;
};

/// One axis of pooling on the whole globe.
struct PoolAxis {
  ConvAxis window;
  bool ceil_mode = false;
  bool by_domain = false;
  Index least_cells = 1;  ///< of a tensor that the local function takes

  /// Windows start within the globe or its lower padding. @throws `KernelTooLarge`
  [[nodiscard]] Index num_outputs() const;
  /// Inputs that LibTorch's pooling of a part of the globe needs for `outputs`. The part starts at the globe's edge or where
  /// a window would without padding, so that the pooling gives `outputs` behind some that are thrown away.
  [[nodiscard]] Range needed(Range outputs) const noexcept;
  /// How many are thrown away. @param needed as returned for `outputs`
  [[nodiscard]] Index num_skipped(Range outputs, Range needed) const noexcept;
};

struct WindowPoolSetUp {
  NeededInputs inputs;
  std::vector<Index> extents;      ///< of the whole field along all spatial axes
  std::vector<Index> num_outputs;  ///< of this rank
  std::vector<Index> num_skipped;
};

/// Pooling of shards by a local function, LibTorch's own, on the part of the globe that the outputs need.
class WindowPool {
 public:
  /// @throws `BadWindow`, `PaddingTooWide`
  WindowPool(Domain domain, WindowPoolDescription description);

  /// What the local function is given.
  struct Windows {
    torch::Tensor inputs;  ///< batched
    std::vector<Index> padding;
    std::vector<Index> first_cell;  ///< of `inputs` in the whole field
    std::vector<Index> extents;     ///< of the whole field
  };
  /// Results of all windows of `inputs`, not only of this rank's; the first is differentiable.
  using Local = std::function<std::vector<torch::Tensor>(Windows const&)>;

  /// Collective. @param types of the results
  [[nodiscard]] std::vector<torch::Tensor> forward(torch::Tensor const& x, std::vector<torch::ScalarType> const& types,
                                                   Local const& local);

  [[nodiscard]] WindowPoolDescription const& description() const noexcept { return description_; }
  void reset_structure() { state_.reset_structure(); }
  [[nodiscard]] int num_set_ups() const noexcept { return state_.num_set_ups(); }

 private:
  [[nodiscard]] std::shared_ptr<WindowPoolSetUp const> make(torch::Tensor const& x, Layout const& layout) const;
  /// Ranks without windows must refuse what the others' local function does. @throws `UnsupportedTensor`
  void require_type(torch::Tensor const& x, Local const& local);
  [[nodiscard]] Windows windows_of(WindowPoolSetUp const& s, torch::Tensor const& inputs) const;

  Domain domain_;
  WindowPoolDescription description_;
  NeedState<WindowPoolSetUp> state_;
  std::optional<torch::ScalarType> known_type_;  ///< one that the local function takes
};

}  // namespace graticule::nn::detail
