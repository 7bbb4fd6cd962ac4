// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/stencil/conv.hpp>

namespace graticule::nn {

using Conv2dImpl = ConvImpl<2>;
/// LibTorch's `Conv2d` on shards; see `ConvImpl`.
TORCH_MODULE(Conv2d);

}  // namespace graticule::nn
