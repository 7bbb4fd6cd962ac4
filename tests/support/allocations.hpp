// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::test {

/// Calls of `operator new`, `malloc` and their like on any thread, those of MPI left out; of programs that have
/// allocations.cpp among their sources. Under a sanitizer, which brings its own `malloc`, only `operator new` counts.
[[nodiscard]] long num_allocations();

}  // namespace graticule::test
