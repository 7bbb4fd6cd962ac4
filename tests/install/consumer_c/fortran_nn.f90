! SPDX-License-Identifier: BSD-3-Clause
!> A simulation code in Fortran with networks: the file is missing, which all ranks are told.
program consumer
  use mpi_f08
  use graticule
  use graticule_nn
  implicit none
  type(gr_comm) :: comm
  type(gr_net) :: net
  integer :: rank, num_ranks, stat, wrong
  call gr_init()
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_comm_rank(comm, rank)
  call gr_comm_size(comm, num_ranks)
  call gr_net_load(comm, 'missing.pt2', net=net, stat=stat)
  wrong = merge(0, 1, stat == GR_ERROR_INPUT .and. gr_error_rule() == 'NoSuchFile')
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. wrong == 0) print '(a, i0, a)', 'fortran_nn: ', num_ranks, ' ranks agree'
  call gr_comm_destroy(comm)
  call gr_finalize()
  if (wrong /= 0) error stop 1
end program consumer
