! SPDX-License-Identifier: BSD-3-Clause
! The Fortran of README.md: ghost cells hold the values of the cells that they stand for.
program halo_example
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use graticule
  implicit none
  integer, parameter :: nlon = 1440, nlat = 721
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_halo_kind) :: kind
  type(gr_halo) :: halo
  real(real64), allocatable :: u(:, :), v(:, :)
  integer :: rank, num_ranks, is, ie, js, je, i, j, wrong
  call gr_init()  ! starts MPI, too
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, num_ranks)
  is = 1
  ie = nlon
  js = nlat * rank / num_ranks + 1
  je = nlat * (rank + 1) / num_ranks
  allocate (u(is-1:ie+1, js-1:je+1), v(is-1:ie+1, js-1:je+1))
  do j = js, je
    do i = is, ie
      u(i, j) = number_of(i, j)
      v(i, j) = 2 * number_of(i, j)
    end do
  end do

  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_layout_create_boxes(comm, [nlon, nlat], reshape([is, js], [2, 1]), reshape([ie, je], [2, 1]), layout)
  call gr_halo_kind_sphere(GR_EDGE_POLE_ROW, 1, kind)  ! 1 ghost cell on each side
  call gr_halo_create(comm, layout, kind, halo)
  call gr_halo_exchange(halo, u, v, parity=[GR_ODD, GR_ODD])  ! winds change their sign across a pole

  wrong = 0
  do j = js - 1, je + 1
    do i = is - 1, ie + 1
      if (u(i, j) /= number_of(i, j) .or. v(i, j) /= 2 * number_of(i, j)) wrong = wrong + 1
    end do
  end do
  if (wrong > 0) then
    print *, wrong, ' cells are wrong'
    error stop 1
  end if
  call gr_halo_destroy(halo)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()

contains

  !> The number of the cell that (i, j) stands for: rows beyond a pole are rows at the opposite longitude, with the other sign.
  real(real64) function number_of(i, j)
    integer, intent(in) :: i, j
    integer :: column, row, sign
    column = i - 1
    row = j
    sign = 1
    if (j < 1 .or. j > nlat) then
      row = merge(2 - j, 2 * nlat - j, j < 1)
      column = column + nlon / 2
      sign = -1
    end if
    number_of = sign * real((row - 1) * nlon + modulo(column, nlon) + 1, real64)
  end function
end program
