// SPDX-License-Identifier: BSD-3-Clause
#include "version.hpp"

#include <graticule/app/driver.hpp>
#include <graticule/field_io/detail/library.hpp>
#include <graticule/partition/detail/check_mpi.hpp>

#include <Kokkos_Core.hpp>

#include <array>

namespace graticule::app {

namespace {

std::string mpi_text() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  int major = 0;
  int minor = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  check_mpi(MPI_Get_version(&major, &minor), "MPI_Get_version");
  std::string library(text.data(), std::size_t(length));
  library = library.substr(0, library.find('\n'));
  for (auto& c : library)
    if (c == '\t') c = ' ';
  return "MPI " + std::to_string(major) + "." + std::to_string(minor) + " (" + library + ")";
}

std::string kokkos_text() {
  auto const version = std::to_string(KOKKOS_VERSION / 10000) + "." + std::to_string(KOKKOS_VERSION / 100 % 100) + "." +
                       std::to_string(KOKKOS_VERSION % 100);
  std::string const host = Kokkos::DefaultHostExecutionSpace::name();
  std::string const device = Kokkos::DefaultExecutionSpace::name();
  return "Kokkos " + version + " (" + (host == device ? host : device + ", host " + host) + ")";
}

}  // namespace

std::string release() { return GRATICULE_VERSION; }

std::string version_text(Driver const& driver) {
  return driver.name + " " + release() + " (commit " GRATICULE_COMMIT ", " GRATICULE_BUILD_TYPE ")\n" + mpi_text() +
         "\n" + kokkos_text() + "\nHDF5 " + hdf5_description() + "\nTorch " + driver.torch_version + "\n";
}

}  // namespace graticule::app
