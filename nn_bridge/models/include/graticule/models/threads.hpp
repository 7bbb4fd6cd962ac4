// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace graticule::models {

/// Version of LibTorch, for a program that does not include its headers.
[[nodiscard]] std::string torch_version();

/// Sets the threads that LibTorch computes with in this process. Call it before the first network runs: a rank uses all
/// cores otherwise. Not collective.
void use_torch_threads(int num_threads);

}  // namespace graticule::models
