! SPDX-License-Identifier: BSD-3-Clause
!> A code whose default integers and reals have the size that compiler options choose: all of its arrays, numbers, and
!> statuses are default ones. `use graticule` brings no names of `iso_c_binding`, which it has itself for other things.
program test_fortran_defaults
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32
  use mpi
  use graticule
  use check, only: begin, finish, fails, that, world_rank, world_size
  implicit none
  integer :: c_int, c_loc, c_ptr, c_double, c_null_ptr, MPI_Comm_of_mine, num_ranks
  integer, parameter :: nlon = 6, nrow = 4
  type(gr_comm) :: comm
  type(gr_layout) :: layout, columns
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  integer :: lo(2), hi(2), stat, rank

  c_int = 1
  c_loc = 2
  c_ptr = 3
  c_double = 4
  c_null_ptr = 5
  MPI_Comm_of_mine = MPI_COMM_WORLD
  call begin()
  num_ranks = world_size
  call gr_init()
  call gr_comm_create(MPI_Comm_of_mine, comm)
  call gr_comm_rank(comm, rank)
  call that(rank == world_rank .and. c_int + c_loc + c_ptr + c_double + c_null_ptr == 15, 'the rank')
  call gr_layout_create([nlon, nrow * num_ranks], [1, num_ranks], layout)
  call gr_layout_create([nlon, nrow * num_ranks], [num_ranks, 1], columns)
  call gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, kind)
  call gr_halo_create(comm, layout, kind, halo, stat)
  call that(stat == GR_SUCCESS, 'a plan')
  call gr_halo_local(halo, 1, lo, hi)
  call that(all(lo == [0, nrow * rank]) .and. all(hi == [nlon + 1, nrow * (rank + 1) + 1]), 'a local box')
  call exchanges()
  call keeps_live_handles()
  call moves()
  call adds_and_writes()
  call names_plans()
  call speaks_fortran()
  call gr_halo_destroy(halo)
  call gr_layout_destroy(columns)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()
  call finish()

contains

  elemental integer function cell(i, j)
    integer, intent(in) :: i, j
    cell = 10 * (modulo(j - 1, nrow * num_ranks) + 1) + modulo(i - 1, nlon) + 1
  end function

  function expected() result(values)
    integer :: values(lo(1):hi(1), lo(2):hi(2)), i, j
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        values(i, j) = cell(i, j)
      end do
    end do
  end function

  logical function inside(i, j)
    integer, intent(in) :: i, j
    inside = i > lo(1) .and. i < hi(1) .and. j > lo(2) .and. j < hi(2)
  end function

  subroutine exchanges()
    real :: q(lo(1):hi(1), lo(2):hi(2)), levels(3, lo(1):hi(1), lo(2):hi(2)), wide(lo(1) - 1:hi(1) + 1, lo(2) - 2:hi(2))
    integer :: k(lo(1):hi(1), lo(2):hi(2)), want(lo(1):hi(1), lo(2):hi(2)), i, j
    logical :: land(lo(1):hi(1), lo(2):hi(2))
    complex :: z(lo(1):hi(1), lo(2):hi(2))
    type(gr_pending) :: pending
    want = expected()
    q = -1; k = -1; z = -1; land = .false.; levels = -1; wide = -1
    do j = lo(2) + 1, hi(2) - 1
      do i = lo(1) + 1, hi(1) - 1
        q(i, j) = cell(i, j)
        k(i, j) = cell(i, j)
        z(i, j) = cell(i, j)
        land(i, j) = modulo(cell(i, j), 3) == 0
        levels(:, i, j) = cell(i, j)
        wide(i, j) = cell(i, j)
      end do
    end do
    call gr_halo_exchange(halo, q)
    call gr_halo_exchange(halo, k, stat=stat)
    call gr_halo_exchange(halo, z)
    call that(all(q == want) .and. all(k == want) .and. all(z == want) .and. stat == GR_SUCCESS, 'default kinds')
    call gr_halo_exchange(halo, land)
    call that(all(land .eqv. modulo(want, 3) == 0), 'a mask')
    call gr_halo_exchange(halo, levels, axes=[2, 3], parity=[GR_EVEN], kind=1)
    call that(all(levels(2, :, :) == want), 'levels first')
    call gr_halo_exchange(halo, wide, owned=[3, 4])
    call that(all(wide(lo(1):hi(1), lo(2):hi(2)) == want), 'an array that is larger')
    land(lo(1), :) = .false.
    call gr_halo_start(halo, gr_field(land, axes=[1, 2], kind=1, parity=GR_EVEN), pending)
    call gr_finish(pending)
    call that(all(land .eqv. modulo(want, 3) == 0), 'a description of a mask')
  end subroutine

  !> A variable that holds a handle is not overwritten, on any rank: its plan, communicator or memory would be lost.
  subroutine keeps_live_handles()
    type(gr_halo) :: own
    type(gr_pending) :: pending
    type(gr_cuts) :: cuts
    type(gr_node_memory) :: memory
    real :: q(lo(1):hi(1), lo(2):hi(2))
    q = 1
    call gr_comm_create(MPI_COMM_WORLD, comm, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'comm holds a gr_comm that exists')
    call gr_layout_create([4, 4], [1, 1], layout, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'layout holds a gr_layout that exists: free it first, or use another variable')
    call gr_cuts_create_balanced(8, 2, cuts)
    call gr_cuts_create([4, 4], cuts, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'cuts holds a gr_cuts that exists')
    call gr_cuts_destroy(cuts)
    call gr_node_memory_create(8_int64, memory)
    call gr_node_memory_create(8_int64, memory, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'memory holds a gr_node_memory that exists')
    call gr_node_memory_destroy(memory)
    ! On one rank alone: the others get the error too, and no rank waits.
    if (rank == 0) own = halo
    call gr_halo_create(comm, layout, kind, own, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'halo holds a gr_halo that exists')
    call gr_halo_start(halo, gr_field(q), pending)
    call gr_halo_start(halo, gr_field(q), pending, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'pending holds a gr_pending that exists')
    call gr_finish(pending)
    q(lo(1), :) = 0
    call gr_halo_exchange(halo, q)
    call that(all(q == 1), 'a call after the refused ones')
  end subroutine

  subroutine moves()
    type(gr_repartition) :: plan
    integer :: from(2), to(2), i, j
    integer, allocatable :: rows(:, :), by_column(:, :)
    call gr_repartition_create(comm, layout, columns, plan=plan)
    call gr_repartition_target(plan, 1, from, to)
    allocate (rows(nlon, nrow), by_column(from(1):to(1), from(2):to(2)))
    do j = 1, nrow
      do i = 1, nlon
        rows(i, j) = cell(i, nrow * rank + j)
      end do
    end do
    call gr_repartition_apply(plan, rows, by_column)
    call that(all([((by_column(i, j) == cell(i, j), i=from(1), to(1)), j=from(2), to(2))]), 'a repartition')
    call gr_repartition_destroy(plan)
  end subroutine

  subroutine adds_and_writes()
    type(gr_area_sum) :: area
    type(gr_cuts) :: cuts
    integer :: sizes(2), i, j
    real :: q(nlon, nrow)
    double precision :: total(1)
    call gr_cuts_create([3, 5], cuts)
    call gr_cuts_sizes(cuts, sizes)
    call that(all(sizes == [3, 5]), 'sizes of cuts')
    call gr_cuts_destroy(cuts)
    do j = 1, nrow
      do i = 1, nlon
        q(i, j) = cell(i, nrow * rank + j)
      end do
    end do
    call gr_area_sum_create(comm, layout, 1, 2, [(1d0, i=1, nrow * num_ranks)], GR_SCALE_SUM, area)
    call gr_area_sum_apply(area, q, total)
    call that(nint(total(1)) == sum([((cell(i, j), i=1, nlon), j=1, nrow * num_ranks)]), 'a sum of all cells')
    call gr_area_sum_destroy(area)
    call adds_in_double(q)
    call continues_in_another_precision(q)
  end subroutine

  !> Sums of default reals in double precision, and with a weight for each cell.
  subroutine adds_in_double(q)
    real, intent(in) :: q(:, :)
    type(gr_zonal) :: zonal
    type(gr_area_sum) :: area
    real :: cells(nlon, nrow)
    double precision :: sums(1, nrow), weights(nlon, nrow), total(1)
    integer :: i, j
    cells = 1
    cells(2, :) = 2.0**24
    call gr_zonal_create(comm, layout, 1, zonal=zonal, name='zonal sums')
    call gr_zonal_apply(zonal, gr_field(cells), gr_field(sums))
    call that(all(sums == 2d0**24 + nlon - 1), 'zonal sums in double precision')
    call gr_zonal_destroy(zonal)
    weights = merge(0, 2, q > 15)
    call gr_plan_name('global sum')
    call gr_area_sum_create_cells(comm, layout, weights, area_sum=area)
    call gr_area_sum_apply(area, q, total)
    call that(nint(total(1)) == 2 * sum([((merge(0, cell(i, j), cell(i, j) > 15), i=1, nlon), j=1, nrow * num_ranks)]), &
      'a sum with weights of cells')
    call gr_area_sum_destroy(area)
    call gr_area_sum_create_cells(comm, layout, gr_field(weights), GR_SCALE_MEAN, area)
    call gr_area_sum_apply(area, 0 * q + 3, total)
    call that(total(1) == 3, 'a mean with weights of cells')
    call gr_area_sum_destroy(area)
  end subroutine

  !> A checkpoint in double precision read in single, and a time of a file that all ranks write by one call.
  subroutine continues_in_another_precision(q)
    real, intent(in) :: q(:, :)
    type(gr_checkpoints) :: checkpoints
    type(gr_checkpoint_writer) :: to
    type(gr_checkpoint) :: from
    type(gr_writer) :: writer
    type(gr_file) :: file
    double precision :: wide(nlon, nrow), time, times(2)
    real(real32) :: narrow(nlon, nrow)
    character(4096) :: folder
    integer(int32) :: number, code
    number = c_getpid()
    call MPI_Bcast(number, 1_int32, MPI_INTEGER, 0_int32, MPI_COMM_WORLD, code)
    call get_environment_variable('TMPDIR', folder)
    if (folder == '') folder = '/tmp'
    write (folder(len_trim(folder) + 1:), '(a, i0)') '/graticule-defaults-', number
    wide = q + 0.1d0
    call gr_checkpoints_create(comm, folder, checkpoints=checkpoints)
    call gr_checkpoint_begin(checkpoints, 3_int64, to)
    call gr_checkpoint_add(to, 'q', layout, wide)
    call gr_checkpoint_commit(to)
    call gr_checkpoint_writer_destroy(to)
    call gr_checkpoints_newest(checkpoints, from)
    narrow = 0
    call gr_checkpoint_read(from, 'q', layout, narrow, stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'WrongType')
    call gr_checkpoint_convert(from, .true.)
    call gr_checkpoint_read(from, 'q', layout, narrow)
    call that(all(narrow == real(wide, real32)), 'a checkpoint in single precision')
    call gr_checkpoint_close(from)
    call gr_checkpoints_destroy(checkpoints)
    call gr_writer_create(comm, trim(folder) // '/times.nc', writer=writer)
    call gr_writer_add_dimension(writer, 'time', 2, unlimited=.true.)
    call gr_writer_add_variable(writer, 'time', 'time', GR_F64)
    time = 6
    call gr_writer_write_replicated(writer, 'time', [1], [1], field=time)
    call gr_writer_write_replicated(writer, 'time', [2], [2], field=[2 * time])
    call gr_writer_commit(writer)
    call gr_writer_destroy(writer)
    call gr_file_open(comm, trim(folder) // '/times.nc', file)
    call gr_file_read(file, 'time', [1], [2], field=times)
    call that(all(times == [6, 12]), 'times that all ranks write')
    call gr_file_close(file)
    if (rank == 0) call execute_command_line("rm -rf '" // trim(folder) // "'")
  end subroutine

  integer(int32) function c_getpid()
    interface
      function process_id() bind(c, name='getpid') result(pid)
        use, intrinsic :: iso_c_binding, only: int_of_c => c_int
        integer(int_of_c) :: pid
      end function
    end interface
    c_getpid = process_id()
  end function

  !> The name of a plan is in what ranks say about it.
  subroutine names_plans()
    type(gr_halo) :: tracers
    type(gr_repartition) :: transpose
    type(gr_halo_kind) :: wider
    real :: q(lo(1):hi(1), lo(2):hi(2))
    wider = kind
    if (rank == 0) wider%corners = GR_SKIP_CORNERS
    call gr_halo_create(comm, layout, wider, tracers, stat, name='tracers')
    if (num_ranks > 1) call fails(stat, GR_ERROR_PROGRAM, 'rank 0 has plan ''tracers'': ')
    if (num_ranks == 1) call gr_halo_destroy(tracers)
    call gr_repartition_create(comm, layout, columns, plan=transpose, name='to columns')
    call gr_repartition_destroy(transpose)
    ! One name is for one plan.
    if (num_ranks > 1) then
      call gr_halo_create(comm, layout, wider, tracers, stat)
      call that(stat == GR_ERROR_PROGRAM .and. index(gr_error_text(), 'tracers') == 0, 'no name')
    end if
    call gr_halo_create(comm, layout, kind, tracers, name='tracers')
    q = 0
    if (rank == 0) then
      call gr_halo_exchange(tracers, q(:, lo(2) + 1:), stat=stat)
    else
      call gr_halo_exchange(tracers, q, stat=stat)
    end if
    if (rank == 1) call fails(stat, GR_ERROR_PROGRAM, 'of the plan ''tracers'' and has thrown the reason')
    call gr_halo_destroy(tracers)
  end subroutine

  !> Errors name cells, axes and arguments as the program does.
  subroutine speaks_fortran()
    real, allocatable :: q(:, :), line(:)
    type(gr_layout) :: holed
    type(gr_halo_kind) :: one_axis
    type(gr_halo) :: plan
    type(gr_halo) :: none
    character(40) :: box
    integer :: box_lo(2), box_hi(2), boxes(3), upper(3)
    allocate (q(lo(1):hi(1), lo(2):hi(2) - 1), line(nlon), source=0.)
    write (box, '("(", i0, ":", i0, ", ", i0, ":", i0, ")")') lo(1), hi(1), lo(2), hi(2)
    call gr_halo_exchange(halo, q, stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'dimension 2 has 5 cells, the plan''s box ' // trim(box) // ' has 6')
    call gr_halo_exchange(halo, q, owned=[2, 1], stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'field1: owned(2) is 1: the 6 cells of ' // trim(box) // ' then begin at element 0 of 5')
    call gr_halo_exchange(halo, [gr_field(q, owned=[1, 2])], stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'fields(1): owned(2) is 2')
    call gr_halo_exchange(halo, line, stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'field1: the number of its dimensions is 1, the grid has 2 axes')
    call gr_halo_exchange(halo, q, kind=2, stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'field1: kind= is 2 of a plan with 1 kinds')
    call gr_halo_exchange(halo, q, axes=[2, 2], stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'field1: axes= has 2 twice')
    call gr_halo_exchange(none, q, stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'halo holds no gr_halo')
    call gr_layout_owned(layout, 0, boxes, upper, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'size(lower) is 3, the grid has 2 axes')
    call gr_halo_kind_uniform(1, GR_EDGE_PERIODIC, 1, one_axis)
    call gr_halo_create(comm, layout, one_axis, plan, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'kinds(1)%ndim is 1, the layout has 2 axes')
    one_axis = kind
    one_axis%upper_edge(2) = GR_EDGE_POLE_FACE
    one_axis%stagger(1) = 7
    call gr_halo_create(comm, layout, one_axis, plan, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'kinds(1)%stagger(1) is 7')
    one_axis%stagger(1) = GR_CENTRE
    call gr_halo_create(comm, layout, one_axis, plan, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'dimension 2 is periodic on one side: GR_EDGE_PERIODIC and GR_EDGE_POLE_FACE')
    call differs_in_fortran()
    ! The boxes of all ranks leave a hole: columns 3 to 4 of the last rank's rows.
    box_lo = [1, nrow * rank + 1]
    box_hi = [merge(2, nlon, rank == num_ranks - 1), nrow * (rank + 1)]
    call gr_layout_create_boxes(comm, [nlon, nrow * num_ranks], reshape(box_lo, [2, 1]), reshape(box_hi, [2, 1]), holed, stat)
    write (box, '("(3:", i0, ", ", i0, ":", i0, ")")') nlon, nrow * (num_ranks - 1) + 1, nrow * num_ranks
    call fails(stat, GR_ERROR_PROGRAM, 'no rank owns ' // trim(box))
  end subroutine

  !> Lists over dimensions begin with the first one.
  subroutine differs_in_fortran()
    type(gr_halo_kind) :: other
    type(gr_layout) :: odd
    type(gr_halo) :: plan
    type(gr_writer) :: writer
    double precision :: levels(2, 3)
    character(80) :: box
    other = kind
    if (rank == 0) other%lower(1) = 2
    call gr_halo_create(comm, layout, other, plan, stat)
    if (num_ranks > 1) then
      write (box, '("rank 0 has 1x", i0, " ranks of (1:6, 1:", i0, "), dimension 2 cut 4,4")') num_ranks, nrow * num_ranks
      call fails(stat, GR_ERROR_PROGRAM, trim(box))
      call fails(stat, GR_ERROR_PROGRAM, '; widths 2 and 1 x 1 and 1, edges')
    else
      call gr_halo_destroy(plan)
    end if
    call gr_layout_create([7, 1], [1, 1], odd)
    call gr_halo_kind_sphere(GR_EDGE_POLE_ROW, 1, other)
    call gr_halo_create(comm, odd, other, plan, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'an even number is needed, or GR_SHIFT_FLOOR without copies')
    other%odd_longitudes = GR_SHIFT_FLOOR
    call gr_halo_create(comm, odd, other, plan, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'ghost cells (0:0) are never reached by a mirror')
    call gr_layout_destroy(odd)
    call gr_writer_create(comm, 'never-committed.nc', writer=writer)
    call gr_writer_add_dimension(writer, 'x', 2)
    call gr_writer_add_dimension(writer, 'y', 3)
    call gr_writer_add_variable(writer, 'q', 'x y', GR_F64)
    levels = 1
    if (rank == num_ranks - 1 .and. rank > 0) levels(2, 3) = 2
    call gr_writer_write_replicated(writer, 'q', [1, 1], [2, 3], field=levels, stat=stat)
    if (num_ranks > 1) call fails(stat, GR_ERROR_PROGRAM, 'the field for q differs from that on rank 0, first in element (2, 3)')
    call gr_writer_destroy(writer)
  end subroutine
end program
