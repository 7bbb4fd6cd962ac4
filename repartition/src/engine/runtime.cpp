// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/watch.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/detail/devices.hpp>
#include <graticule/repartition/runtime.hpp>

#include "kernels/kokkos_compat.hpp"

#include <mpi.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace graticule {

namespace {

/// MPI is called from the thread that calls the engine, and from threads of LibTorch where it computes on devices.
void require_few_threads(int level) {
  int is_main = 0;
  check_mpi(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  if (is_main != 0 && !detail::kokkos_has_device) return;
  throw Error("ThreadLevel", "MPI runs at thread level " + std::to_string(level) + ", and " +
                                 (is_main == 0 ? "this is not the thread that started it"
                                               : "gradients on devices come from threads of their own") +
                                 ": replace MPI_Init by MPI_Init_thread with MPI_THREAD_SERIALIZED, or let the library "
                                 "start MPI");
}

using EndWatch = std::optional<detail::Watch>;

void enter(EndWatch& watch, char const* place) {
  if (watch) return watch->enter(place);
  watch.emplace("process " + std::to_string(getpid()) + ", whose work is done,", place,
                [] { return detail::others_are_awaited_at_the_end(); });
}

void end_kokkos(EndWatch& watch) {
  if (!Kokkos::is_initialized()) return;
  enter(watch, "Kokkos::finalize");
  Kokkos::finalize();
}

/// Makes MPI_Finalize end Kokkos, which starts once per process, while there may be other runtimes until then.
/// @throws `MpiError`
void end_kokkos_with_mpi() {
  static bool set = false;
  if (std::exchange(set, true)) return;
  int key = MPI_KEYVAL_INVALID;
  auto const end = [](MPI_Comm, int, void*, void*) noexcept {
    EndWatch watch;
    end_kokkos(watch);
    return int(MPI_SUCCESS);
  };
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &key, nullptr), "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
  check_mpi(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
}

}  // namespace

int detail::chosen_threads(int asked) {
  char const* const text = std::getenv("KOKKOS_NUM_THREADS");
  if (text == nullptr) return asked;
  std::string_view const given(text);
  int number = 0;
  auto const [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
  if (error != std::errc() || end != given.data() + given.size() || number < 1)
    throw Error(Fault::usage, "BadOption",
                "KOKKOS_NUM_THREADS is '" + std::string(given) + "'; it is a number of threads from 1 on");
  // Kokkos would end the program, in words of its own.
  if (asked > 0 && number != asked)
    throw Error(Fault::usage, "BadOption",
                "KOKKOS_NUM_THREADS is " + std::to_string(number) + ", and " + std::to_string(asked) +
                    " threads per rank are asked for (--threads of drivers, num_threads of a Runtime): unset one of "
                    "them, or use the same number");
  return number;
}

Runtime::Runtime(int& argc, char**& argv, int num_threads) : num_exceptions_(std::uncaught_exceptions()) {
  // Before MPI starts, which nobody would end.
  if (!Kokkos::is_initialized()) {
    require_device(devices_of_backend());
    (void)detail::chosen_threads(num_threads);
  }
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (ended)
    throw Error("WrongState",
                "MPI has ended (MPI_Finalize) and starts once per process: end it after the last use, not "
                "between two");
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
  if (level < MPI_THREAD_SERIALIZED) require_few_threads(level);
  if (!Kokkos::is_initialized()) {
    // Ranks share the cores: binding is the launcher's business. Kokkos warns at each rank when nobody has said so.
    setenv("OMP_PROC_BIND", "false", 0);
    detail::start_kokkos(argc, argv, num_threads);
    owns_kokkos_ = true;
    if (!owns_mpi_) end_kokkos_with_mpi();
  }
}

Runtime::~Runtime() {
  // Its communicators are gone, yet other ranks may wait for it on them.
  if (std::uncaught_exceptions() > num_exceptions_) detail::note_unwinding();
  // Libraries that do not end are named, and left after the limit for waits. Ranks that do not come to the end are
  // reported in MPI_Finalize.
  EndWatch watch;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (owns_kokkos_ && (owns_mpi_ || finalized)) end_kokkos(watch);
  if (!owns_mpi_ || finalized) return;
  enter(watch, "MPI_Finalize");
  MPI_Finalize();
}

}  // namespace graticule
