// SPDX-License-Identifier: BSD-3-Clause
// The native queues of device fields.
#pragma once

#include <graticule/graticule.h>
#include <graticule/repartition/device_queue.hpp>

#include "structures.hpp"

namespace graticule::c {

/// The queue that the device fields of a call have in common.
class CallQueue {
 public:
  /// @throws `BadArgument` where the field has another queue than the device fields before it
  void add(gr_field const& field, Name const& name);
  /// No queue for calls with host fields only, and for fields without one.
  [[nodiscard]] DeviceQueue queue() const;

 private:
  void* native_ = nullptr;
  bool has_fields_ = false;
};

/// Waits for the work in the queue of a field, for calls of plans that take none.
void wait_for_queue(gr_field const& field);

/// Ends what was made for queues of this program. Before Kokkos ends.
void forget_queues() noexcept;

}  // namespace graticule::c
