// SPDX-License-Identifier: BSD-3-Clause
#include "queues.hpp"

#include <graticule/repartition/detail/device_runtime.hpp>

#include <string>

namespace graticule::c {

namespace {

bool on_device(gr_field const& field) { return field.space == GR_DEVICE; }

int device_of(gr_field const& field) { return detail::device_of_memory(field.base).value_or(detail::device_of({})); }

/// Without a device, its memory is that of the host, where queues do not matter.
DeviceQueue queue_of(void* native, int device, Name const& name) {
  if (native == nullptr || !detail::has_device()) return {};
  try {
    return queue_of_stream(native, device);
  } catch (Error const& error) {
    throw bad_argument(name + ".queue: " + error.what());
  }
}

void require_device_of_kokkos(int device, Name const& name, std::string const& why) {
  int const started = detail::device_of({});
  if (device != started)
    throw bad_argument(name + " lies on device " + std::to_string(device) + "; " + why + " computes on device " +
                       std::to_string(started) + ", on which Kokkos was started");
}

}  // namespace

void CallQueue::add(gr_field const& field, Name const& name) {
  if (!on_device(field)) return;
  if (has_fields_ && field.queue != native_)
    throw bad_argument(name + ".queue differs from that of the device fields before it");
  device_ = device_of(field);
  if (field.queue == nullptr) require_device_of_kokkos(device_, name, "a call without a queue");
  native_ = field.queue;
  has_fields_ = true;
}

DeviceQueue CallQueue::queue() const { return queue_of(native_, device_, {"fields"}); }

void wait_for_queue(gr_field const& field, Name const& name) {
  if (!on_device(field)) return;
  auto const device = device_of(field);
  require_device_of_kokkos(device, name, "this call, which is in no queue,");
  if (field.queue != nullptr) detail::fence(queue_of(field.queue, device, name));
}

}  // namespace graticule::c
