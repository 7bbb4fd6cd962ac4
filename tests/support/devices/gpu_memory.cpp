// SPDX-License-Identifier: BSD-3-Clause
#include "devices/gpu_memory.hpp"

#include "kernels/kokkos_compat.hpp"

#include <atomic>
#include <new>

namespace graticule::test {

namespace {

/// Waiting takes microseconds, and tests look at millions of cells.
std::atomic<bool> may_be_in_use{false};

}  // namespace

void* allocate_for_gpu(std::size_t bytes) {
  void* const memory = Kokkos::kokkos_malloc<detail::PinnedSpace>("graticule test", bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release_of_gpu(void* memory) {
  wait_for_gpu();
  Kokkos::kokkos_free<detail::PinnedSpace>(memory);
}

void wait_for_gpu() {
  if (may_be_in_use.exchange(false)) Kokkos::fence();
}

void give_to_gpu() { may_be_in_use = true; }

}  // namespace graticule::test
