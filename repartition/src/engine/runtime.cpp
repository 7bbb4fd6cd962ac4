// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/failure.hpp>
#include <graticule/partition/stall.hpp>
#include <graticule/repartition/devices.hpp>
#include <graticule/repartition/runtime.hpp>

#include "kernels/kokkos_compat.hpp"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace graticule {

namespace {

/// Watches the end of a process from a thread of its own: libraries that do not end are named, and left after the limit
/// for waits, because nobody can be told there. Ranks that do not come to the end are reported in MPI_Finalize.
class EndWatch {
 public:
  EndWatch() noexcept {
    try {
      rule_ = stall_rule();
      thread_ = std::thread([this] { watch(); });
    } catch (std::exception const&) {
      // Nobody watches where there is no thread, or where the environment's rule is none, which calls report.
    }
  }
  EndWatch(EndWatch const&) = delete;
  EndWatch& operator=(EndWatch const&) = delete;
  ~EndWatch() {
    enter(nullptr);
    if (thread_.joinable()) thread_.join();
  }

  /// @param stage what is called now; null: the end has been reached
  void enter(char const* stage) noexcept {
    std::lock_guard const lock(mutex_);
    stage_ = stage;
    changed_.notify_all();
  }

 private:
  void watch() {
    using Clock = std::chrono::steady_clock;
    auto begin = Clock::now();
    bool reported = rule_.report_seconds <= 0;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stage_ == nullptr; })) {
      auto const now = Clock::now();
      // That wait is reported there.
      if (detail::others_are_awaited_at_the_end()) begin = now;
      double const waited = std::chrono::duration<double>(now - begin).count();
      if (rule_.error_seconds > 0 && waited >= rule_.error_seconds) {
        std::fprintf(stderr, "graticule: process %d has done its work, has waited in %s for %g s and ends\n",
                     int(getpid()), stage_, rule_.error_seconds);
        std::_Exit(1);
      }
      if (reported || waited < rule_.report_seconds) continue;
      reported = true;
      std::fprintf(stderr, "graticule: process %d has done its work and waits in %s for %g s\n", int(getpid()), stage_,
                   rule_.report_seconds);
    }
  }

  StallRule rule_;
  std::mutex mutex_;
  std::condition_variable changed_;
  char const* stage_ = "its last calls";
  std::thread thread_;
};

}  // namespace

Runtime::Runtime(int& argc, char**& argv, int num_threads) : num_exceptions_(std::uncaught_exceptions()) {
  // Before MPI starts, which nobody would end.
  if (!Kokkos::is_initialized()) require_device(devices_of_backend());
  int started = 0;
  MPI_Initialized(&started);
  int level = MPI_THREAD_SINGLE;
  if (started) {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    // Open MPI 4.1.0 to 4.1.4 loses cells of collective reads otherwise
    // (https://github.com/open-mpi/ompi/issues/10546).
    setenv("OMPI_MCA_fbtl_posix_read_datasieving", "0", 0);
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    owns_mpi_ = true;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    if (owns_mpi_) MPI_Finalize();
    throw Error("ThreadLevel", "MPI gives thread level " + std::to_string(level) + ", MPI_THREAD_SERIALIZED (" +
                                   std::to_string(MPI_THREAD_SERIALIZED) + ") is needed");
  }
  if (!Kokkos::is_initialized()) {
    // Ranks share the cores: binding is the launcher's business. Kokkos warns at each rank when nobody has said so.
    setenv("OMP_PROC_BIND", "false", 0);
    detail::start_kokkos(argc, argv, num_threads);
    owns_kokkos_ = true;
  }
}

Runtime::~Runtime() {
  // Its communicators are gone, yet other ranks may wait for it on them.
  if (std::uncaught_exceptions() > num_exceptions_) detail::note_unwinding();
  std::optional<EndWatch> watch;
  if (owns_kokkos_ && Kokkos::is_initialized()) {
    watch.emplace();
    watch->enter("Kokkos::finalize");
    Kokkos::finalize();
  }
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!owns_mpi_ || finalized) return;
  if (!watch) watch.emplace();
  watch->enter("MPI_Finalize");
  MPI_Finalize();
}

}  // namespace graticule
