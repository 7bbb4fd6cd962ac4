// SPDX-License-Identifier: BSD-3-Clause
// What destructors ask before they call MPI or wait for other ranks.
#pragma once

namespace graticule::detail {

/// True when MPI has ended, and from `std::exit` on in a process that has not ended it: the other ranks do not come to
/// collective calls then, and MPI after its end stops the process. Requests, communicators and files are left as they
/// are. Before MPI has started it is false.
[[nodiscard]] bool mpi_is_over() noexcept;

/// Within its lifetime destructors on this thread wait for other ranks as while an exception unwinds the stack: for a
/// second, because some may never come.
class HurryScope {
 public:
  HurryScope() noexcept;
  HurryScope(HurryScope const&) = delete;
  HurryScope& operator=(HurryScope const&) = delete;
  ~HurryScope();
};

/// True in a `HurryScope` of this thread, and while an exception unwinds its stack.
[[nodiscard]] bool hurries() noexcept;

}  // namespace graticule::detail
