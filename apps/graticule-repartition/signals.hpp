// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

namespace graticule::archive {

/// Notes SIGINT, SIGTERM and SIGUSR1 for as long as it lives, instead of ending the process; what the program had set
/// comes back afterwards.
class StopSignals {
 public:
  StopSignals();
  StopSignals(StopSignals const&) = delete;
  StopSignals& operator=(StopSignals const&) = delete;
  ~StopSignals();

  /// Collective. @throws `Interrupted` on all ranks when any has got such a signal
  void check(Comm const& comm) const;
};

}  // namespace graticule::archive
