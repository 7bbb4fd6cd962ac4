// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "run/frame.hpp"

#include <memory>

namespace graticule::program::detail {

/// A node that computes a number from sizes: `aten.sym_size.int`, `_operator.floordiv`, `torch.sym_max`, ...
/// @throws Error `BrokenFile` for arguments that the operation does not take
[[nodiscard]] std::unique_ptr<Step> make_number_step(Node const& node);

}  // namespace graticule::program::detail
