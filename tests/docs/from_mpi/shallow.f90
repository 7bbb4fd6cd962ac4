! SPDX-License-Identifier: BSD-3-Clause
!> The code of docs/from_mpi.md, as one program: halos by formula, a sum, and a file that is read back.
program shallow
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  use graticule
  implicit none
  integer, parameter :: nx = 12, ny = 7, w = 2
  character(:), allocatable :: file
  type(gr_comm) :: comm
  type(gr_layout) :: layout, rows_of_v
  type(gr_halo_kind) :: kinds(2)
  type(gr_halo) :: halo
  type(gr_area_sum) :: sum_of
  type(gr_writer) :: writer
  type(gr_file) :: written
  real(real64), allocatable :: h(:, :), u(:, :), v(:, :), back(:, :)
  real(real64) :: weights(ny), total(1)
  real :: per_rank
  integer :: rank, num_ranks, ierr, is, ie, n, i, j, row, lower(2), upper(2), length

  call get_command_argument(1, length=length)
  allocate (character(length) :: file)
  call get_command_argument(1, file)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, num_ranks, ierr)
  call gr_init()
  call gr_comm_create(MPI_COMM_WORLD, comm)

  per_rank = real(nx) / num_ranks
  is = nint(per_rank * rank) + 1
  ie = nint(per_rank * (rank + 1))
  call gr_layout_create_boxes(comm, [nx, ny], reshape([is, 1], [2, 1]), reshape([ie, ny], [2, 1]), layout)

  n = ie - is + 1
  allocate (h(1 - w:n + w, 1 - w:ny + w), u(1 - w:n + w, 1 - w:ny + w), v(1 - w:n + w, 1 - w:ny + 1 + w))
  h = -1
  u = -1
  v = -1
  do j = 1, ny + 1
    do i = 1, n
      if (j <= ny) h(i, j) = cell(is + i - 1, j)
      if (j <= ny) u(i, j) = 2 * cell(is + i - 1, j)
      v(i, j) = merge(0d0, 3 * cell(is + i - 1, j), j == 1 .or. j == ny + 1)
    end do
  end do

  call gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, w, kinds(1))
  kinds(1)%lower_edge(2) = GR_EDGE_SYMMETRIC  ! walls in the south and in the north: mirrored
  kinds(1)%upper_edge(2) = GR_EDGE_SYMMETRIC
  kinds(2) = kinds(1)
  kinds(2)%stagger(2) = GR_ALL_FACES          ! v lies on the faces of the rows, the walls included: ny + 1 rows
  kinds(2)%lower_edge(2) = GR_EDGE_ANTISYMMETRIC
  kinds(2)%upper_edge(2) = GR_EDGE_ANTISYMMETRIC
  call gr_halo_create(comm, layout, kinds, halo, name='state')

  call gr_halo_exchange(halo, h, u, v, kind=[1, 1, 2])

  do j = 1 - w, ny + w
    row = merge(1 - j, merge(2 * ny + 1 - j, j, j > ny), j < 1)
    do i = 1 - w, n + w
      call that(h(i, j) == cell(is + i - 1, row) .and. u(i, j) == 2 * cell(is + i - 1, row), 'h and u')
    end do
  end do
  do j = 1 - w, ny + 1 + w
    row = merge(2 - j, merge(2 * (ny + 1) - j, j, j > ny + 1), j < 1)
    do i = 1 - w, n + w
      if (row == 1 .or. row == ny + 1) then
        call that(v(i, j) == 0, 'v on walls')
      else
        call that(v(i, j) == merge(3, -3, row == j) * cell(is + i - 1, row), 'v')
      end if
    end do
  end do

  weights = 1
  call gr_area_sum_create(comm, layout, 1, 2, weights, GR_SCALE_SUM, sum_of)
  call gr_area_sum_apply(sum_of, h(1:n, 1:ny), total)
  call that(total(1) == 100 * nx * ny * (ny + 1) / 2 + ny * nx * (nx + 1) / 2, 'the sum')

  call gr_halo_layout(halo, 2, rows_of_v)
  call gr_layout_owned(rows_of_v, rank, lower, upper)
  call gr_writer_create(comm, file, writer=writer)
  call gr_writer_add_dimension(writer, 'x', nx)
  call gr_writer_add_dimension(writer, 'y', ny)
  call gr_writer_add_dimension(writer, 'y_face', ny + 1)
  call gr_writer_add_variable(writer, 'h', 'x y', GR_F64)
  call gr_writer_add_variable(writer, 'v', 'x y_face', GR_F64)
  call gr_writer_write(writer, 'h', [is, 1], [ie, ny], field=h(1:n, 1:ny))
  call gr_writer_write(writer, 'v', lower, upper, field=v(1:n, 1:ny + 1))
  call gr_writer_commit(writer)
  call gr_writer_destroy(writer)

  allocate (back(nx, ny + 1))
  call gr_file_open(comm, file, written)
  call gr_file_read(written, 'v', [1, 1], [nx, ny + 1], field=back)
  do j = 2, ny
    call that(all(back(:, j) == [(3 * cell(i, j), i=1, nx)]), 'v in the file')
  end do
  call that(all(back(:, 1) == 0) .and. all(back(:, ny + 1) == 0), 'walls in the file')

  call gr_finalize()
  call MPI_Finalize(ierr)

contains

  !> Of columns round the globe.
  real(real64) function cell(i, j)
    integer, intent(in) :: i, j
    cell = 100 * j + modulo(i - 1, nx) + 1
  end function

  subroutine that(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    write (*, '(a, i0, 2a)') 'rank ', rank, ' has wrong ', what
    error stop 1
  end subroutine
end program
