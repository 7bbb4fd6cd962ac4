// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/device.hpp>
#include <graticule/models/threads.hpp>

#include <ATen/Parallel.h>
#include <torch/torch.h>

namespace graticule::models {

std::string torch_version() { return TORCH_VERSION; }

void use_torch_threads(int num_threads) {
  at::set_num_threads(num_threads);
  // May be set once in a process, and one thread is enough: this library runs one operation at a time.
  static bool const once = (at::set_num_interop_threads(1), true);
  static_cast<void>(once);
}

}  // namespace graticule::models
