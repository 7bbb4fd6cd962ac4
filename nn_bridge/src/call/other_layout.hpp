// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>

namespace graticule::nn::detail {

/// The layout of a second tensor, which sets the sizes and cuts of a layer's output.
class OtherLayout : public Agreement {
 public:
  /// @param whole the layer's state
  OtherLayout(Domain const& domain, std::string const& layer, LifeCycle* whole)
      : Agreement(domain, layer + " like", whole) {}

  /// Collective. @param check throws when this rank's tensor is not acceptable
  Layout const& of(torch::Tensor const& other, std::function<void()> const& check) {
    if (agree(other, check).changed || !layout_) {
      layout_.reset();
      layout_ = gather_layout(other);
    }
    return *layout_;
  }

 private:
  std::optional<Layout> layout_;
};

}  // namespace graticule::nn::detail
