// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstdint>

namespace graticule::training {

/// Change of skips after a plateau.
enum class DasoArithmetic : std::uint8_t {
  bounded,  ///< outside warm-up and cool-down: skips >= 1, batches to wait <= global skip
  heat,     ///< as in Heat 1.x: skips may be 0 or less; without warm-up none; the first skip is 4
};

/// Options of the schedule of `Daso`.
struct DasoScheduleOptions {
  Index total_epochs = 0;  ///< must be set
  Index warmup_epochs = 4;
  Index cooldown_epochs = 4;
  double stability = 0.05;  ///< relative improvement below which an epoch's loss is no better
  Index patience = 2;       ///< such epochs until one more is a plateau
  Index max_global_skips = 8;
  Index skip_reduction_factor = 2;
  Index local_skip_factor = 4;
  DasoArithmetic arithmetic = DasoArithmetic::bounded;
};

}  // namespace graticule::training
