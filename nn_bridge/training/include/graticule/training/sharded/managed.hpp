// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

namespace graticule::training {

/// Whether another object decides when the values of a module's parameters are available: `ShardedParameters`, from
/// its construction until `unwrap` or its destruction.
///
/// Code that saves, clones, converts or wraps modules leaves the parameters of managed modules alone. Ignored modules
/// and clones are not managed. May be called from several threads.
[[nodiscard]] bool is_managed(torch::nn::Module const& module);

}  // namespace graticule::training
