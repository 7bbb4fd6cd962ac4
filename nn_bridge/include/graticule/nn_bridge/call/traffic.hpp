// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

namespace graticule::nn {

/// Traffic of this process's layers to other ranks: halos, repartitions and their adjoints, excluding the small
/// collectives that compare calls and reduce sums.
struct Traffic {
  Index num_messages = 0;
  Index bytes = 0;
  friend Traffic operator-(Traffic const& a, Traffic const& b) {
    return {a.num_messages - b.num_messages, a.bytes - b.bytes};
  }
};

/// Traffic since the start of the process. Example: the difference of the values after and before a training step is
/// the traffic of the step.
[[nodiscard]] Traffic traffic() noexcept;

}  // namespace graticule::nn
