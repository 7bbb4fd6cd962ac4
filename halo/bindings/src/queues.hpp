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
  /// @throws `BadArgument` where the field has another queue than the device fields before it, or none and lies on
  ///         another device than the one on which Kokkos was started
  void add(gr_field const& field, Name const& name);
  /// No queue for calls with host fields only, and for fields without one. @throws `BadArgument` for one that cannot be
  /// used, such as a stream that is captured
  [[nodiscard]] DeviceQueue queue() const;

 private:
  void* native_ = nullptr;
  int device_ = 0;
  bool has_fields_ = false;
};

/// Waits for the work in the queue of a field, for calls that take none. @throws `BadArgument` where the field lies on
/// another device than the one on which Kokkos was started, or its queue cannot be used
void wait_for_queue(gr_field const& field, Name const& name);

}  // namespace graticule::c
