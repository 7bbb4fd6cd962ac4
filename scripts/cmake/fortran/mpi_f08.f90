! SPDX-License-Identifier: BSD-3-Clause
! Compiles where the module mpi_f08 of this MPI belongs to this compiler.
program uses_mpi_f08
  use mpi_f08, only: MPI_Comm, MPI_COMM_WORLD
  implicit none
  type(MPI_Comm) :: comm
  comm = MPI_COMM_WORLD
  print *, comm%MPI_VAL
end program uses_mpi_f08
