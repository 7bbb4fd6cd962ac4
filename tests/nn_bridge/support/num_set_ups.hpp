// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>

namespace graticule::test {

/// How often a layer has looked up or made a set-up: 0 before its first forward, 1 after any number of one structure.
template <class Holder>
int num_set_ups(Holder const& layer) {
  return nn::detail::num_set_ups(*layer);
}

}  // namespace graticule::test
