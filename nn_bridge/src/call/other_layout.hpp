// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/tensor_view.hpp>
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
      : Agreement(domain, layer + " like", whole), layer_(layer) {}

  /// Collective. @param check throws when this rank's tensor is not acceptable
  Layout const& of(torch::Tensor const& other, std::function<void()> const& check) {
    if (agree(other, check).changed || !layout_) {
      layout_.reset();
      layout_ = gather_layout(other);
    }
    return *layout_;
  }

  /// The same of a tensor with as many axes as the layer's input `x`. @param field `other` with rows and columns
  /// @throws `ShapeMismatch`
  Layout const& like(torch::Tensor const& x, torch::Tensor const& other, torch::Tensor const& field) {
    return of(field, [&] {
      (void)tensor_view(field);
      if (x.defined() && other.dim() != x.dim())
        throw Error("ShapeMismatch", layer_ + " needs tensors of as many axes, got " + std::to_string(x.dim()) +
                                         " and " + std::to_string(other.dim()));
    });
  }

 private:
  std::string layer_;
  std::optional<Layout> layout_;
};

}  // namespace graticule::nn::detail
