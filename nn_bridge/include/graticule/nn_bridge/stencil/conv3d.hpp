// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/stencil/conv.hpp>

namespace graticule::nn {

using Conv3dImpl = ConvImpl<3>;
/// LibTorch's `Conv3d` on shards; see `ConvImpl`.
TORCH_MODULE(Conv3d);

}  // namespace graticule::nn
