// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/layout.hpp>

#include "spatial.hpp"

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>

namespace graticule::nn::detail {

/// The sizes and cuts that a layer's output is to have: those of another field.
struct Like {
  Layout const* layout = nullptr;  ///< of rows and columns; null: the layer's options say the sizes
  Index levels = 0;

  /// Of the output along cut axis `axis`, levels for a negative one.
  [[nodiscard]] std::optional<Index> extent(int axis) const {
    if (!layout) return std::nullopt;
    return axis < 0 ? levels : layout->extent(axis);
  }
  [[nodiscard]] std::uint64_t fingerprint() const {
    return layout ? Hash().add(layout->fingerprint()).add(levels).value() : 0;
  }
};

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

  /// The same of a tensor with as many axes as the layer's input `x`, of which `num_axes` are spatial.
  /// @throws `ShapeMismatch`
  Like like(torch::Tensor const& x, torch::Tensor const& other, std::size_t num_axes) {
    auto const field = with_columns(other, num_axes);
    auto const& layout = of(field, [&] {
      (void)tensor_view(field);
      if (x.defined() && other.dim() != x.dim())
        throw Error("ShapeMismatch", layer_ + " needs tensors of as many axes, got " + std::to_string(x.dim()) +
                                         " and " + std::to_string(other.dim()));
    });
    return {&layout, num_axes == 3 && other.dim() >= 3 ? other.size(-3) : 0};
  }

 private:
  std::string layer_;
  std::optional<Layout> layout_;
};

}  // namespace graticule::nn::detail
