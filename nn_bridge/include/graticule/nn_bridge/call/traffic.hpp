// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule::nn {

/// What the layers of this process have sent to other ranks: halos, repartitions and their adjoints, without the small
/// collectives that compare calls and reduce sums.
struct Traffic {
  Index num_messages = 0;
  Index bytes = 0;
  friend Traffic operator-(Traffic const& a, Traffic const& b) {
    return {a.num_messages - b.num_messages, a.bytes - b.bytes};
  }
};

/// Since the start of the process. Example: the difference of two calls around a training step is that of the step.
[[nodiscard]] Traffic traffic() noexcept;

}  // namespace graticule::nn
