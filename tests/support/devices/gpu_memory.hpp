// SPDX-License-Identifier: BSD-3-Clause
// Fields of tests on a GPU: memory that its kernels and the host's code reach.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace graticule::test {

/// True where `GRATICULE_TEST_MEMORY` is `gpu`: device fields are those of Kokkos' device, and no guarded device is
/// installed. mpi_main.cpp skips the run where Kokkos has none.
[[nodiscard]] inline bool gpu_is_wanted() {
  static bool const wanted = [] {
    char const* const kind = std::getenv("GRATICULE_TEST_MEMORY");
    return kind && std::string_view(kind) == "gpu";
  }();
  return wanted;
}

/// Pinned memory of the host. @pre Kokkos has started
[[nodiscard]] void* allocate_for_gpu(std::size_t bytes);
void release_of_gpu(void* memory);

/// Before test code uses such memory: waits for all work, if any can have been launched since the last time.
void wait_for_gpu();
/// Before the memory is given to calls.
void give_to_gpu();

}  // namespace graticule::test
