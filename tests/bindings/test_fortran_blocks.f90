! SPDX-License-Identifier: BSD-3-Clause
!> The code of docs/grids.md: an ocean on a tripolar C grid whose land blocks are left out, every cell by formula.
program test_fortran_blocks
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use graticule
  use check
  implicit none
  integer, parameter :: nx = 22, ny = 17, bx = 4, by = 3
  real(real64), parameter :: land = -1e34_real64
  type(gr_comm) :: comm
  type(gr_layout) :: layout, bands
  type(gr_halo_kind) :: kinds(3)
  type(gr_halo) :: halo
  type(gr_repartition) :: to_blocks
  type(gr_writer) :: writer
  type(gr_file) :: file
  integer, allocatable :: lower(:, :), upper(:, :), all_lower(:, :), all_upper(:, :)
  real(real64), allocatable, asynchronous :: t(:, :, :), u(:, :, :), v(:, :, :), whole(:, :), back(:, :), deep(:, :, :, :)
  character(64) :: path
  integer :: n, rank, num_ranks, first(2), last(2), i, j, b

  call begin()
  rank = world_rank
  num_ranks = world_size
  call gr_init()
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call find_ocean()

  call gr_layout_create_blocks(comm, [nx, ny], lower, upper, layout)  ! lower(2, n), upper(2, n): the blocks of this rank
  call gr_halo_kind_tripolar(GR_EDGE_CONSTANT, GR_EDGE_TRIPOLAR_FACE, 1, kinds(1))
  kinds(1)%hole = land                ! becomes the value of ghost cells on land
  kinds(2:3) = kinds(1)
  kinds(2)%stagger(1) = GR_HIGH_FACE  ! u lies on eastern faces, v on northern ones
  kinds(3)%stagger(2) = GR_HIGH_FACE
  call gr_halo_create(comm, layout, kinds, halo)
  allocate (t(0:bx + 1, 0:by + 1, n), u(0:bx + 1, 0:by + 1, n), v(0:bx + 1, 0:by + 1, n))

  call fill(t)
  call fill(u)
  call fill(v)
  call gr_halo_exchange(halo, t, u, v, kind=[1, 2, 3], parity=[GR_EVEN, GR_ODD, GR_ODD], owned=[2, 2, 1])
  call that(num_wrong(t, 1) + num_wrong(u, 2) + num_wrong(v, 3) == 0, 'a C grid in one exchange')
  call that(n > 1, 'several blocks on each rank')

  ! Levels between the cells and the blocks, and room for more blocks than there are.
  allocate (deep(0:bx + 1, 0:by + 1, 2, n + 3))
  deep = 0
  do b = 1, n
    deep(:, :, 1, b) = t(:, :, b)
    deep(:, :, 2, b) = t(:, :, b)
    deep(0, :, :, b) = 0
    deep(:, 0, :, b) = 0
  end do
  call gr_halo_exchange(halo, deep, axes=[1, 2, 4], owned=[2, 2, 1, 1])
  call that(num_wrong(deep(:, :, 1, :n), 1) + num_wrong(deep(:, :, 2, :n), 1) == 0, 'levels')
  call that(all(deep(:, :, :, n + 1:) == 0), 'no other block')

  call get_environment_variable('GRATICULE_TEST_NAME', path)
  path = 'fortran-blocks-' // trim(path) // '.nc'
  call gr_writer_create(comm, trim(path), writer=writer)
  call gr_writer_add_dimension(writer, 'x', nx)
  call gr_writer_add_dimension(writer, 'y', ny)
  call gr_writer_add_variable(writer, 't', 'x y', GR_F64)

  call gr_layout_create([nx, ny], [1, num_ranks], bands)
  call gr_repartition_create(comm, bands, layout, plan=to_blocks)
  call gr_layout_owned(bands, rank, first, last)
  allocate (whole(nx, first(2):last(2)))
  whole = land  ! cells of no block keep it
  call gr_repartition_apply_inverse(to_blocks, gr_field(whole), gr_field(t, owned=[2, 2, 1]))
  call gr_writer_write(writer, 't', first, last, field=whole)

  call gr_writer_commit(writer)
  call gr_writer_destroy(writer)
  allocate (back(nx, first(2):last(2)))
  back = 0
  call gr_file_open(comm, trim(path), file=file)

  call gr_file_read(file, 't', first, last, field=back)
  call gr_repartition_apply(to_blocks, gr_field(back), gr_field(u, owned=[2, 2, 1]))

  call gr_file_close(file)
  do j = first(2), last(2)
    do i = 1, nx
      call that(back(i, j) == merge(own_value(i, j), land, is_ocean(i, j)), 'a file with land')
    end do
  end do
  do b = 1, n
    do j = 1, upper(2, b) - lower(2, b) + 1
      do i = 1, upper(1, b) - lower(1, b) + 1
        call that(u(i, j, b) == t(i, j, b), 'a file on blocks')
      end do
    end do
  end do
  call MPI_Barrier(MPI_COMM_WORLD)
  if (world_rank == 0) call execute_command_line('rm -f ' // trim(path))
  call gr_repartition_destroy(to_blocks)
  call gr_halo_destroy(halo)
  call gr_layout_destroy(bands)
  call gr_layout_destroy(layout)
  call leaves_holes()
  call speaks_of_blocks()
  call gr_comm_destroy(comm)
  call gr_finalize()
  call finish()

contains

  !> Blocks of 4 x 3 cells and less at the ends, of which 3 of 10 are land.
  subroutine find_ocean()
    integer :: at, x, y, pass
    logical :: mine
    do pass = 1, 2
      if (pass == 2) allocate (lower(2, n), upper(2, n), all_lower(2, b), all_upper(2, b))
      n = 0
      b = 0
      at = 0
      do y = 1, ny, by
        do x = 1, nx, bx
          mine = mod(at, num_ranks) == rank .and. mod(7 * at, 10) >= 3
          if (mod(7 * at, 10) >= 3) b = b + 1
          if (mine) n = n + 1
          if (pass == 2 .and. mod(7 * at, 10) >= 3) then
            all_lower(:, b) = [x, y]
            all_upper(:, b) = [min(x + bx - 1, nx), min(y + by - 1, ny)]
            if (mine) lower(:, n) = all_lower(:, b)
            if (mine) upper(:, n) = all_upper(:, b)
          end if
          at = at + 1
        end do
      end do
    end do
  end subroutine

  pure function own_value(x, y) result(value)
    integer, intent(in) :: x, y
    real(real64) :: value
    value = real(x + 100 * y, real64)
  end function

  pure function is_ocean(x, y) result(is)
    integer, intent(in) :: x, y
    logical :: is
    is = any(all_lower(1, :) <= x .and. x <= all_upper(1, :) .and. all_lower(2, :) <= y .and. y <= all_upper(2, :))
  end function

  !> What cell (x, y) of T, U or V (1, 2, 3) holds after the exchange.
  pure function expected(field, x, y) result(value)
    integer, intent(in) :: field, x, y
    real(real64) :: value
    integer :: column, mirrored, partner
    logical :: copied
    value = 0
    if (y < 1) return
    column = modulo(x - 1, nx) + 1
    mirrored = 2 * ny + 1 - y - merge(1, 0, field == 3)
    partner = modulo(nx - column - merge(1, 0, field == 2), nx) + 1
    copied = y == mirrored .and. column > partner
    if (copied) copied = is_ocean(partner, mirrored)
    value = land
    if (y > ny .or. copied) then
      if (is_ocean(partner, mirrored)) value = merge(1, -1, field == 1) * own_value(partner, mirrored)
    else if (is_ocean(column, y)) then
      value = own_value(column, y)
    end if
  end function

  subroutine fill(values)
    real(real64), intent(out) :: values(0:, 0:, :)
    integer :: x, y, k
    values = -1
    do k = 1, n
      do y = lower(2, k), upper(2, k)
        do x = lower(1, k), upper(1, k)
          values(x - lower(1, k) + 1, y - lower(2, k) + 1, k) = own_value(x, y)
        end do
      end do
    end do
  end subroutine

  function num_wrong(values, field) result(wrong)
    real(real64), intent(in) :: values(0:, 0:, :)
    integer, intent(in) :: field
    integer :: wrong, x, y, k
    wrong = 0
    do k = 1, n
      do y = lower(2, k) - 1, upper(2, k) + 1
        do x = lower(1, k) - 1, upper(1, k) + 1
          if (values(x - lower(1, k) + 1, y - lower(2, k) + 1, k) /= expected(field, x, y)) wrong = wrong + 1
        end do
      end do
    end do
  end function

  !> One box per rank, with land between them.
  subroutine leaves_holes()
    type(gr_layout) :: holed
    type(gr_halo) :: exchange
    real(real64) :: q(0:4, 0:3)
    integer :: stat
    call gr_layout_create_boxes(comm, [4 * num_ranks, 2], reshape([4 * rank + 1, 1], [2, 1]), &
      reshape([4 * rank + 3, 2], [2, 1]), holed, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'no rank owns (4:4, 1:2)')
    call gr_layout_create_with_holes(comm, [4 * num_ranks, 2], reshape([4 * rank + 1, 1], [2, 1]), &
      reshape([4 * rank + 3, 2], [2, 1]), holed)
    call gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, kinds(1))
    kinds(1)%hole = 7
    call gr_halo_create(comm, holed, kinds(1), exchange)
    q = -1
    q(1:3, 1:2) = rank
    call gr_halo_exchange(exchange, q)
    call that(all(q(0, :) == 7) .and. all(q(4, :) == 7) .and. all(q(1:3, :) == rank), 'one box per rank with holes')
    call gr_halo_destroy(exchange)
    call gr_layout_destroy(holed)
  end subroutine

  subroutine speaks_of_blocks()
    type(gr_layout) :: refused
    integer :: stat, k, most(2, 2), least(2, 2)
    k = merge(2, 0, rank == num_ranks - 1)
    least = reshape([1, 1, 2, 2], [2, 2])
    most = least + 1
    call gr_layout_create_blocks(comm, [nx, ny], least(:, :k), most(:, :k), refused, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'both have (2:2, 2:2)')
    call that(index(gr_error_text(), 'blocks 1 (of rank') > 0 .and. index(gr_error_text(), ' and 2 (of rank') > 0, 'numbers')
    most(1, 1) = nx + 1
    k = merge(1, 0, rank == 0)
    call gr_layout_create_blocks(comm, [nx, ny], least(:, :k), most(:, :k), refused, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'block 1 (of rank 0) is (1:23, 1:2), which exceeds (1:22, 1:17)')
  end subroutine
end program test_fortran_blocks
