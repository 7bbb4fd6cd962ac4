// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/memory.hpp>

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>

#include <limits>
#endif

namespace graticule::nn {

bool keep_freed_memory() noexcept {
#if defined(__GLIBC__)
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max()) == 1 &&
         mallopt(M_TOP_PAD, 64 << 20) == 1;
#else
  return false;
#endif
}

}  // namespace graticule::nn
