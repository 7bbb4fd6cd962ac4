// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule {

namespace detail {

/// `asked` threads, or, where that is 0, those of `KOKKOS_NUM_THREADS`; 0 where neither is given.
/// @throws `BadOption` (usage) where both are given and differ, and for a variable that is no positive number
[[nodiscard]] int chosen_threads(int asked);

}  // namespace detail

/// Starts MPI (`MPI_THREAD_SERIALIZED` or higher) and Kokkos unless the program has done so, and ends what it started.
///
/// An MPI that the program has started may have any thread level: the engine calls it from the caller's thread alone,
/// which is the main one where the level is lower than `MPI_THREAD_SERIALIZED`. There may be several runtimes one after
/// another within such an MPI; Kokkos, which starts once per process, then ends in `MPI_Finalize`.
/// Create one in `main`, before the first `Comm`. Nothing is started or ended twice. An exception that unwinds through
/// it is announced: ranks that wait for this one get `PeerFailed` with the text of the last `Error` of this thread. In
/// a `catch` of the program, `announce_failure` does the same with the text of the exception. Settings for Open MPI:
/// docs/mpi.md
class Runtime {
 public:
  /// @param argc, argv those of `main`; options of MPI and Kokkos are removed
  /// @param num_threads of Kokkos' host space; 0 leaves the choice to Kokkos and its environment
  /// @throws `ThreadLevel` when MPI runs below `MPI_THREAD_SERIALIZED` and several threads may call it: on another
  ///         thread than the one that started it, and where Kokkos was built for devices; `WrongState` after
  ///         `MPI_Finalize`; `NoDevice` (usage), before anything starts, where Kokkos was built for devices and none is
  ///         visible; `BadOption` (usage), before anything starts, for a `KOKKOS_NUM_THREADS`
  ///         that is no number of threads or another one than `num_threads`
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
