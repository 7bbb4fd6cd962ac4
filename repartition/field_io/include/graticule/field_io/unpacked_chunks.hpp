// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule {

/// Chunks that this process has inflated, unshuffled or checked so far, of all files.
[[nodiscard]] Index num_unpacked_chunks() noexcept;

}  // namespace graticule
