// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/node_memory.hpp>

namespace graticule {

using messages::NodeMemory;

}  // namespace graticule
