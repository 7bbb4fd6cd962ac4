// SPDX-License-Identifier: BSD-3-Clause
#include "device_mpi.hpp"

#include "kernels/kokkos_compat.hpp"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <array>
#include <cstdlib>
#include <string>

namespace graticule::detail {

namespace {

bool library_claims_support() {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000
  int supported = 0;
#ifdef KOKKOS_ENABLE_HIP
  int const type = MPIX_GPU_SUPPORT_HIP;
#else
  int const type = MPIX_GPU_SUPPORT_CUDA;
#endif
  return MPIX_GPU_query_support(type, &supported) == MPI_SUCCESS && supported != 0;
#elif defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

bool is_wanted() {
  auto const choice = gpu_mpi_choice();
  return choice == GpuMpi::automatic ? library_claims_support() : choice == GpuMpi::tried;
}

/// Sends device memory to this rank itself and compares what arrives.
bool message_arrives(Comm const& comm, int tag) {
  using Device = Kokkos::View<int*, Kokkos::DefaultExecutionSpace>;
  constexpr int count = 65536;
  Device sent("graticule::sent", count);
  Device received("graticule::received", count);
  auto const on_host = Kokkos::create_mirror_view(sent);
  for (int i = 0; i < count; ++i) on_host(i) = i * 7 + 1;
  Kokkos::deep_copy(sent, on_host);
  int const code = MPI_Sendrecv(sent.data(), count, MPI_INT, comm.rank(), tag, received.data(), count, MPI_INT,
                                comm.rank(), tag, comm.handle(), MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return false;
  auto const result = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), received);
  for (int i = 0; i < count; ++i)
    if (result(i) != i * 7 + 1) return false;
  return true;
}

}  // namespace

GpuMpi gpu_mpi_choice() {
  char const* const value = std::getenv("GRATICULE_GPU_MPI");
  std::string const choice = value ? value : "";
  if (choice == "0") return GpuMpi::never;
  if (choice == "1") return GpuMpi::tried;
  if (!choice.empty() && choice != "auto")
    throw Error(Fault::usage, "BadOption", "GRATICULE_GPU_MPI is '" + choice + "'; valid are auto, 0 and 1");
  return GpuMpi::automatic;
}

bool mpi_moves_device_memory(Comm const& comm) {
  if constexpr (!has_device) return false;
  int const tag = comm.next_tag();
  std::array<Index, 1> without{0};
  run_agreed(comm, [&] { without[0] = is_wanted() ? 0 : 1; });
  comm.max(without);
  if (without[0] != 0) return false;
  without[0] = message_arrives(comm, tag) ? 0 : 1;
  comm.max(without);
  return without[0] == 0;
}

}  // namespace graticule::detail
