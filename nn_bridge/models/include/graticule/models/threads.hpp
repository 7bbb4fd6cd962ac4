// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::models {

/// Sets the threads that LibTorch computes with in this process. Call it before the first network runs: a rank uses all
/// cores otherwise. Not collective.
void use_torch_threads(int num_threads);

}  // namespace graticule::models
