// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule {

/// Starts MPI (`MPI_THREAD_SERIALIZED` or higher) and Kokkos unless the program has done so, and ends what it started.
///
/// Create one in `main`, before the first `Comm`. Nothing is started or ended twice. An exception that unwinds through
/// it is announced: ranks that wait for this one get `PeerFailed` with the text of the last `Error` of this thread. In
/// a `catch` of the program, `announce_failure` does the same with the text of the exception. Settings for Open MPI:
/// docs/mpi.md
class Runtime {
 public:
  /// @param argc, argv those of `main`; options of MPI and Kokkos are removed
  /// @param num_threads of Kokkos' host space; 0 leaves the choice to Kokkos and its environment
  /// @throws `ThreadLevel` when MPI was started, or can only be started, below `MPI_THREAD_SERIALIZED` while several
  ///         threads may call it; `NoDevice` (usage), before anything starts, where Kokkos was built for devices and
  ///         none is visible
  Runtime(int& argc, char**& argv, int num_threads = 0);
  ~Runtime();
  Runtime(Runtime const&) = delete;
  Runtime& operator=(Runtime const&) = delete;

 private:
  int num_exceptions_;
  bool owns_mpi_ = false;
  bool owns_kokkos_ = false;
};

}  // namespace graticule
