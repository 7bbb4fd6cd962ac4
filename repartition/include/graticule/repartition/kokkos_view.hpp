// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/device_launch.hpp>
#include <graticule/repartition/device_queue.hpp>
#include <graticule/repartition/field_view.hpp>

#include <Kokkos_Core.hpp>

namespace graticule {

/// The memory of a `Kokkos::View` of any layout. `grid_axes[a]` is the view's axis that holds grid axis `a`.
///
/// Example: `field_view(v, {1, 2})` for `Kokkos::View<double***> v("v", levels, rows, columns)`.
template <class T, class... Properties>
[[nodiscard]] FieldView field_view(Kokkos::View<T, Properties...> const& view, Indices const& grid_axes) {
  using View = Kokkos::View<T, Properties...>;
  constexpr bool on_host =
      Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, typename View::memory_space>::accessible;
  FieldView result;
  result.data = const_cast<void*>(static_cast<void const*>(view.data()));
  result.dtype = dtype_of<typename View::value_type>();
  for (int m = 0; m < int(View::rank); ++m) {
    result.extents.push_back(Index(view.extent(std::size_t(m))));
    result.strides.push_back(Index(view.stride(std::size_t(m))));
  }
  result.grid_axes = grid_axes;
  result.space = on_host ? MemorySpace::host : MemorySpace::device;
  return result;
}

/// A queue that orders the calls on `instance`, for fields on its device.
///
/// Example: `auto const queue = device_queue(stream); plan.start(fields, queue).wait();`
[[nodiscard]] inline DeviceQueue device_queue(Kokkos::DefaultExecutionSpace const& instance) {
  return DeviceQueue(std::make_shared<Kokkos::DefaultExecutionSpace const>(instance),
                     detail::device_of_instance(instance));
}

}  // namespace graticule
