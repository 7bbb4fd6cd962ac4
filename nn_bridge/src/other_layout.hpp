// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/layout.hpp>

#include "agreement.hpp"

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>

namespace graticule::nn::detail {

/// The layout of another tensor than a layer's input, whose sizes and cuts the output is to have.
class OtherLayout {
 public:
  OtherLayout(Domain const& domain, std::string const& layer) : agreement_(domain, layer + " like") {}

  /// Collective. @param check throws when this rank's tensor is not acceptable
  Layout const& of(torch::Tensor const& other, std::function<void()> const& check) {
    if (agreement_.agree(other, check).changed || !layout_) {
      layout_.reset();
      layout_ = agreement_.gather_layout(other);
    }
    return *layout_;
  }
  void reset_structure() { agreement_.reset(); }

 private:
  Agreement agreement_;
  std::optional<Layout> layout_;
};

}  // namespace graticule::nn::detail
