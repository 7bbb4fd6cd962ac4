// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstdint>
#include <functional>

namespace graticule::detail {

/// What `GRATICULE_GPU_MPI` says: `auto` or nothing, `0`, `1`.
enum class GpuMpi : std::uint8_t { automatic, never, tried };

/// Also where there is no device, so that an invalid value is reported on every machine. @throws `BadOption`
[[nodiscard]] GpuMpi gpu_mpi_choice();

/// What `GRATICULE_GPU_IPC` says: `auto` or nothing, `0`. Also where there is no device. @throws `BadOption`
[[nodiscard]] bool gpu_ipc_is_allowed();

/// True when MPI was seen to move memory of devices between all ranks; collective.
///
/// `GRATICULE_GPU_MPI=0` says no, `1` forces a test; by default it is tested where the MPI library claims support,
/// because one without it may end the program. The claim is verified: each rank sends to the next, and compares what it
/// receives.
[[nodiscard]] bool mpi_moves_device_memory(Comm const& comm);

/// True when each rank was seen to read device memory of all others that it `reads`, by kernels; collective.
///
/// `GRATICULE_GPU_IPC=0` says no; by default it is tried where there is a device.
[[nodiscard]] bool peers_read_device_memory(Comm const& comm, std::function<bool(int rank)> const& reads);

}  // namespace graticule::detail
