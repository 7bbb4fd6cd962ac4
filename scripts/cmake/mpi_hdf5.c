// SPDX-License-Identifier: BSD-3-Clause
// Compiled at configure time: links only when HDF5 is parallel and its MPI is the one found.
#include <hdf5.h>
#include <hdf5_hl.h>
#include <mpi.h>

#ifndef H5_HAVE_PARALLEL
#error GRATICULE_HDF5_IS_SERIAL
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  hid_t const access = H5Pcreate(H5P_FILE_ACCESS);
  int const failed = H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) < 0 || H5DSis_scale(access) > 0;
  H5Pclose(access);
  MPI_Finalize();
  return failed;
}
