// SPDX-License-Identifier: BSD-3-Clause
#include "queues.hpp"

#include <graticule/repartition/kokkos_view.hpp>

#include <map>
#include <mutex>
#include <type_traits>

namespace graticule::c {

namespace {

using Execution = Kokkos::DefaultExecutionSpace;

/// The instances for the program's queues: Kokkos allocates memory for each, and a queue is used in many calls.
struct Instances {
  std::mutex mutex;
  std::map<void*, DeviceQueue> of;
};

Instances& instances() {
  // Never destroyed: Kokkos may end before the program's static objects.
  static auto* const only = new Instances;
  return *only;
}

Execution instance_on([[maybe_unused]] void* native) {
#if defined(KOKKOS_ENABLE_CUDA)
  return Execution(static_cast<cudaStream_t>(native));
#elif defined(KOKKOS_ENABLE_HIP)
  return Execution(static_cast<hipStream_t>(native));
#else
  if constexpr (!std::is_same_v<Execution, Kokkos::DefaultHostExecutionSpace>)
    throw Error("Unsupported", "queue of a field: this Kokkos has neither CUDA nor HIP");
  return Execution();
#endif
}

DeviceQueue queue_of(void* native) {
  auto& known = instances();
  std::lock_guard const lock(known.mutex);
  auto const found = known.of.find(native);
  if (found != known.of.end()) return found->second;
  return known.of.emplace(native, device_queue(instance_on(native))).first->second;
}

bool on_device(gr_field const& field) { return field.space == GR_DEVICE; }

}  // namespace

void CallQueue::add(gr_field const& field, Name const& name) {
  if (!on_device(field)) return;
  if (has_fields_ && field.queue != native_)
    throw bad_argument(name + ".queue differs from that of the device fields before it");
  native_ = field.queue;
  has_fields_ = true;
}

DeviceQueue CallQueue::queue() const { return native_ != nullptr ? queue_of(native_) : DeviceQueue(); }

void wait_for_queue(gr_field const& field) {
  if (!on_device(field) || field.queue == nullptr) return;
  static_cast<Execution const*>(queue_of(field.queue).instance())->fence();
}

void forget_queues() noexcept {
  auto& known = instances();
  std::lock_guard const lock(known.mutex);
  known.of.clear();
}

}  // namespace graticule::c
