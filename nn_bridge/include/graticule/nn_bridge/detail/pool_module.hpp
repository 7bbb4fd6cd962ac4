// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace graticule::nn::detail {

class WindowPool;
class AdaptiveMax;
class AreaResize;

/// LibTorch's sizes: one for all axes, or an optional one per axis; an axis without a size keeps the input's.
template <std::size_t D>
using AdaptiveSizes = std::conditional_t<D == 1, torch::ExpandingArray<1>,
                                         torch::ExpandingArrayWithOptionalElem<std::max<std::size_t>(D, 2)>>;

/// Common part of pooling modules: options, and the implementation `Core`.
template <class Derived, class Options, class Core>
class PoolModule : public StatefulModule<Derived, Core> {
 public:
  PoolModule(Options options, Domain domain);

 protected:
  Options options_;
};

}  // namespace graticule::nn::detail
