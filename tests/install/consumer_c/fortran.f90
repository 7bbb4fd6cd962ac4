! SPDX-License-Identifier: BSD-3-Clause
! A simulation code in Fortran with the installed module: the halo of a periodic field divided by rows.
program consumer
  use mpi
  use graticule
  implicit none
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  real, allocatable, asynchronous :: cells(:, :)
  integer :: rank, num_ranks, lower(2), upper(2), i, j, wrong, ierror
  call gr_init()
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_comm_rank(comm, rank)
  call gr_comm_size(comm, num_ranks)
  call gr_layout_create([4, 7], [1, num_ranks], layout)
  call gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, kind)
  call gr_halo_create(comm, layout, kind, halo)
  call gr_halo_owned(halo, lower, upper)
  allocate (cells(0:5, lower(2) - 1:upper(2) + 1), source=-1.0)
  do j = lower(2), upper(2)
    cells(1:4, j) = [(4 * j + i, i=1, 4)]
  end do
  call gr_halo_exchange(halo, gr_field(cells))
  wrong = 0
  do j = lower(2) - 1, upper(2) + 1
    do i = 0, 5
      if (cells(i, j) /= 4 * (modulo(j - 1, 7) + 1) + modulo(i - 1, 4) + 1) wrong = wrong + 1
    end do
  end do
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0 .and. wrong == 0) print '(a, i0, a)', 'fortran: ', num_ranks, ' ranks agree'
  call gr_halo_destroy(halo)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()
  if (wrong /= 0) error stop 1
end program consumer
