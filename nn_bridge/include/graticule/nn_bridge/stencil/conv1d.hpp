// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/stencil/conv.hpp>

namespace graticule::nn {

using Conv1dImpl = ConvImpl<1>;
/// LibTorch's `Conv1d` on shards; see `ConvImpl`.
TORCH_MODULE(Conv1d);

}  // namespace graticule::nn
