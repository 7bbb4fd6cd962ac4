// SPDX-License-Identifier: BSD-3-Clause
// Everything that differs between Kokkos 3.4 and 5.x.
#pragma once

#include <Kokkos_Core.hpp>

#include <string>
#include <utility>

namespace graticule::detail {

/// Starts Kokkos; `num_threads` 0 leaves the number to Kokkos.
inline void start_kokkos(int& argc, char** argv, int num_threads) {
#if KOKKOS_VERSION >= 30700
  (void)argc;
  (void)argv;
  Kokkos::InitializationSettings settings;
  if (num_threads > 0) settings.set_num_threads(num_threads);
  Kokkos::initialize(settings);
#else
  (void)argc;
  (void)argv;
  Kokkos::InitArguments settings;
  if (num_threads > 0) settings.num_threads = num_threads;
  Kokkos::initialize(settings);
#endif
}

/// Threads of the default host execution space.
inline int host_concurrency() {
#if KOKKOS_VERSION >= 30700
  return Kokkos::DefaultHostExecutionSpace().concurrency();
#else
  return Kokkos::DefaultHostExecutionSpace::concurrency();
#endif
}

/// `View::HostMirror` until Kokkos 4, `View::host_mirror_type` from 4.7 on.
template <class View>
using HostMirrorOf = decltype(Kokkos::create_mirror_view(std::declval<View const&>()));

/// Host memory that the device copies to and from without a detour.
#if KOKKOS_VERSION >= 40000 && defined(KOKKOS_HAS_SHARED_HOST_PINNED_SPACE)
using PinnedSpace = Kokkos::SharedHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_CUDA)
using PinnedSpace = Kokkos::CudaHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

/// A tool listens to Kokkos. Calls ask once: Kokkos compares all that a tool may listen to.
inline bool has_kokkos_tool() { return Kokkos::Profiling::profileLibraryLoaded(); }

/// A named region for Kokkos Tools, ended with the object (`Kokkos::Profiling::ScopedRegion` came with Kokkos 4.1).
/// Without a tool nothing is done: Kokkos would make a `std::string` of the name.
class Region {
 public:
  Region(char const* name, bool has_tool) : open_(has_tool) {
    if (open_) Kokkos::Profiling::pushRegion(name);
  }
  ~Region() {
    if (open_) Kokkos::Profiling::popRegion();
  }
  Region(Region const&) = delete;
  Region& operator=(Region const&) = delete;

 private:
  bool open_;
};

/// True where the default execution space works on memory that the host cannot read.
inline constexpr bool kokkos_has_device =
    !Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace,
                                Kokkos::DefaultExecutionSpace::memory_space>::accessible;

}  // namespace graticule::detail
