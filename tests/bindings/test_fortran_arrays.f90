! SPDX-License-Identifier: BSD-3-Clause
!> Calls with arrays instead of descriptions: components of derived types, pointers to them, sections, expressions.
program test_fortran_arrays
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use graticule
  use check
  implicit none
  integer, parameter :: nlon = 6, nrow = 4
  type :: cell_t
    real(c_double) :: t = -1, s = -1
    real(c_float) :: q = -1
    integer(c_int32_t) :: k = -1
    complex(c_double_complex) :: z = -1
    integer(c_int64_t) :: n = -1
    complex(c_float_complex) :: y = -1
    integer(c_int16_t) :: i16(4) = -1
    integer(c_int8_t) :: i8(8) = -1
    logical(c_bool) :: land(8) = .false.
  end type
  type(gr_comm) :: comm
  type(gr_layout) :: layout, columns
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  type(cell_t), allocatable, target :: cells(:, :)
  integer :: lo(2), hi(2), stat

  call begin()
  call gr_init()
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_layout_create([nlon, nrow * world_size], [1, world_size], layout)
  call gr_layout_create([nlon, nrow * world_size], [world_size, 1], columns)
  call gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, kind)
  call gr_halo_create(comm, layout, kind, halo)
  call gr_halo_local(halo, 1, lo, hi)
  call exchanges_components()
  call takes_options()
  call has_adjoints()
  call moves_arrays()
  call adds_arrays()
  call writes_and_reads_arrays()
  call names_copies()
  call refuses_copied_handles()
  deallocate (cells)
  call gr_halo_destroy(halo)
  call gr_layout_destroy(columns)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()
  call finish()

contains

  !> The value of a cell that a periodic halo gets.
  pure integer function cell(i, j)
    integer, intent(in) :: i, j
    cell = 10 * (modulo(j - 1, nrow * world_size) + 1) + modulo(i - 1, nlon) + 1
  end function

  function expected() result(values)
    integer :: values(lo(1):hi(1), lo(2):hi(2)), i, j
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        values(i, j) = cell(i, j)
      end do
    end do
  end function

  subroutine fill()
    integer :: i, j
    if (allocated(cells)) deallocate (cells)
    allocate (cells(lo(1):hi(1), lo(2):hi(2)))
    do j = lo(2) + 1, hi(2) - 1
      do i = lo(1) + 1, hi(1) - 1
        cells(i, j)%t = cell(i, j)
        cells(i, j)%s = 2 * cell(i, j)
        cells(i, j)%q = real(cell(i, j), c_float)
        cells(i, j)%k = cell(i, j)
        cells(i, j)%z = cmplx(cell(i, j), 1, c_double_complex)
        cells(i, j)%n = cell(i, j)
        cells(i, j)%y = cmplx(1, cell(i, j), c_float_complex)
        cells(i, j)%i16(2) = int(cell(i, j), c_int16_t)
        cells(i, j)%i8(3) = int(modulo(cell(i, j), 100), c_int8_t)
        cells(i, j)%land(4) = modulo(cell(i, j), 3) == 0
      end do
    end do
  end subroutine

  subroutine exchanges_components()
    type(cell_t) :: fixed(lo(1):hi(1), lo(2):hi(2))
    real(c_double), pointer :: p(:, :)
    integer :: want(lo(1):hi(1), lo(2):hi(2))
    integer(c_intptr_t) :: before
    want = expected()
    call fill()
    before = loc(cells(lo(1), lo(2))%s)
    call gr_halo_exchange(halo, cells%t, cells%s)
    call that(all(cells%t == want) .and. all(cells%s == 2 * want), 'two components of real64')
    call that(before == loc(cells(lo(1), lo(2))%s), 'the array stays where it is')
    call gr_halo_exchange(halo, cells%q)
    call that(all(cells%q == want), 'a component of real32')
    call gr_halo_exchange(halo, cells%k)
    call that(all(cells%k == want), 'a component of int32')
    call gr_halo_exchange(halo, cells%n, stat=stat)
    call that(stat == GR_SUCCESS .and. all(cells%n == want), 'a component of int64')
    call gr_halo_exchange(halo, cells%z)
    call that(all(cells%z == cmplx(want, 1, c_double_complex)), 'a component of complex64')
    call gr_halo_exchange(halo, cells%y)
    call that(all(cells%y == cmplx(1, want, c_float_complex)), 'a component of complex32')
    call gr_halo_exchange(halo, cells%i16(2))
    call that(all(cells%i16(2) == want), 'a component of int16')
    call gr_halo_exchange(halo, cells%i8(3))
    call that(all(cells%i8(3) == modulo(want, 100)), 'a component of int8')
    call gr_halo_exchange(halo, cells%land(4))
    call that(all(cells%land(4) .eqv. modulo(want, 3) == 0), 'a component that is a logical')
    call that(all(cells%i16(1) == -1) .and. all(cells%t == want), 'nothing else is written')
    call fill()
    p => cells%s
    call gr_halo_exchange(halo, p)
    call that(all(cells%s == 2 * want) .and. all(cells(lo(1), :)%t == -1), 'a pointer to a component')
    call fill()
    fixed = cells
    call gr_halo_exchange(halo, fixed%s, stat=stat)
    call that(stat == GR_SUCCESS .and. all(fixed%s == 2 * want), 'an array that is no target')
    call inside(cells)
  end subroutine

  !> In another procedure, whose dummy argument is of assumed shape.
  subroutine inside(of)
    type(cell_t), intent(inout) :: of(lo(1):, lo(2):)
    call gr_halo_exchange(halo, of%t)
    call that(all(of%t == expected()), 'a component of a dummy argument')
  end subroutine

  subroutine takes_options()
    real(c_double) :: levels(3, lo(1):hi(1), lo(2):hi(2)), wide(lo(1) - 1:hi(1) + 2, lo(2) - 1:hi(2) + 2)
    real(c_double), dimension(lo(1):hi(1), lo(2):hi(2)) :: a, b, c, d, e, f, g, h
    type(gr_halo) :: sphere
    type(gr_halo_kind) :: kinds(2)
    integer :: want(lo(1):hi(1), lo(2):hi(2))
    want = expected()
    levels = -1
    levels(:, lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1) = spread(want(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1), 1, 3)
    call gr_halo_exchange(halo, levels, axes=[2, 3])
    call that(all(levels == spread(want, 1, 3)), 'levels first')
    wide = -1
    wide(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1) = want(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1)
    call gr_halo_exchange(halo, wide, owned=[3, 3])
    call that(all(wide(lo(1):hi(1), lo(2):hi(2)) == want) .and. all(wide(lo(1) - 1, :) == -1), 'an array that is larger')
    wide(lo(1), :) = -1
    call gr_halo_exchange(halo, wide(lo(1):hi(1), lo(2):hi(2)))
    call that(all(wide(lo(1):hi(1), lo(2):hi(2)) == want), 'a section')
    a = merge(want, -1, want > 0)
    a(lo(1), :) = -1
    b = a; c = a; d = a; e = a; f = a; g = a; h = a
    call gr_halo_exchange(halo, a, b, c, d, e, f, g, h)
    call that(all(a == want) .and. all(d == want) .and. all(h == want), 'eight arrays')
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kinds(1))
    kinds(2) = kinds(1)
    call gr_halo_create(comm, layout, kinds, sphere)
    a = 0; b = 0
    a(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1) = 1
    b = a; c = a; d = a
    call gr_halo_exchange(sphere, a, b, parity=[GR_EVEN, GR_ODD], kind=[1, 2])
    call gr_halo_exchange(sphere, c, d, parity=GR_ODD, kind=2)
    if (lo(2) == 0) call that(all(a(:, 0) == 1) .and. all(b(:, 0) == -1) .and. all(c(:, 0) == -1) .and. all(d(:, 0) == -1), &
      'parities')
    call gr_halo_exchange(sphere, a, b, parity=[GR_EVEN, GR_ODD, GR_ODD], stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'parity= or kind= has neither one value nor one for each array')
    call gr_halo_exchange(sphere, a, kind=3, stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'kind= is 3 of a plan with 2 kinds')
    call gr_halo_destroy(sphere)
  end subroutine

  subroutine has_adjoints()
    integer :: chosen
    cells%t = 0
    cells%s = 0
    cells(lo(1), lo(2) + 1)%t = 1
    call gr_halo_exchange_adjoint(halo, cells%t)
    call that(cells(hi(1) - 1, lo(2) + 1)%t == 1 .and. cells(lo(1), lo(2) + 1)%t == 0, 'an adjoint')
    call gr_halo_tune(halo, cells%t, cells%s, num_calls=1, chosen=chosen)
    call that(chosen >= GR_TRANSPORT_POINT_TO_POINT, 'a transport that was measured')
  end subroutine

  subroutine moves_arrays()
    type(gr_repartition) :: plan
    type(cell_t), allocatable :: by_column(:, :)
    integer :: from(2), to(2), i, j
    call gr_repartition_create(comm, layout, columns, plan=plan)
    call gr_repartition_target(plan, 1, from, to)
    allocate (by_column(from(1):to(1), from(2):to(2)))
    call fill()
    associate (own => cells(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1))
      call gr_repartition_apply(plan, own%s, by_column%t)
      call that(all([((by_column(i, j)%t == 2 * cell(i, j), i=from(1), to(1)), j=from(2), to(2))]), 'a repartition')
      own%t = 0
      call gr_repartition_apply_inverse(plan, own%t, by_column%t)
      call that(all(own%t == own%s), 'its inverse')
      own%t = 1
      call gr_repartition_apply_adjoint(plan, own%t, by_column%t)
      call that(all(own%t == 1 + own%s), 'its adjoint')
    end associate
    call gr_repartition_destroy(plan)
  end subroutine

  subroutine adds_arrays()
    type(gr_zonal) :: zonal
    type(gr_area_sum) :: area
    type(cell_t), allocatable :: sums(:)
    real(c_double) :: total(1)
    integer :: first(2), last(2), i, j
    call gr_zonal_create(comm, layout, 1, zonal=zonal)
    call gr_zonal_sums(zonal, first, last)
    allocate (sums(first(2):last(2)))
    call fill()
    associate (own => cells(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1))
      call sum_rows(zonal, own%t, sums%s, first, last)
      do j = first(2), last(2)
        call that(sums(j)%s == sum([(cell(i, j), i=1, nlon)]), 'a zonal sum')
      end do
    end associate
    call fill()
    associate (own => cells(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1))
      call gr_area_sum_create(comm, layout, 1, 2, [(1d0, i=1, nrow * world_size)], GR_SCALE_SUM, area)
      call gr_area_sum_apply(area, own%t, total)
      call that(total(1) == sum([((cell(i, j), i=1, nlon), j=1, nrow * world_size)]), 'a sum of all cells')
      own%t = 0
      call gr_area_sum_apply_adjoint(area, own%t, [2d0])
      call that(all(own%t == 2), 'its adjoint')
    end associate
    call gr_area_sum_destroy(area)
    call gr_zonal_destroy(zonal)
  end subroutine

  subroutine sum_rows(zonal, from, to, first, last)
    type(gr_zonal), intent(in) :: zonal
    real(c_double), intent(inout) :: from(:, :), to(:)
    integer, intent(in) :: first(2), last(2)
    real(c_double) :: sums(first(1):last(1), first(2):last(2))
    call gr_zonal_apply(zonal, from, sums)
    to = sums(first(1), :)
    call gr_zonal_apply_adjoint(zonal, from, sums, GR_COTANGENTS_REPLICATED)
  end subroutine

  subroutine writes_and_reads_arrays()
    type(gr_writer) :: writer
    type(gr_file) :: file
    type(gr_checkpoints) :: checkpoints
    type(gr_checkpoint_writer) :: to
    type(gr_checkpoint) :: from
    character(4096) :: folder
    integer :: status
    integer(c_int) :: i
    call get_environment_variable('TMPDIR', folder, status=status)
    if (status /= 0) folder = '/tmp'
    i = c_getpid()
    call MPI_Bcast(i, 1_c_int, MPI_INTEGER, 0_c_int, MPI_COMM_WORLD)
    write (folder(len_trim(folder) + 1:), '(a, i0)') '/graticule-arrays-', i
    call fill()
    associate (own => cells(lo(1) + 1:hi(1) - 1, lo(2) + 1:hi(2) - 1))
      call gr_checkpoints_create(comm, folder, checkpoints=checkpoints)
      call gr_checkpoint_begin(checkpoints, 1_c_int64_t, to)
      call gr_checkpoint_add(to, 's', layout, own%s)
      call gr_checkpoint_add(to, 'expression', layout, own%s + own%t)
      call gr_checkpoint_add_replicated(to, 'number', 7d0)
      call gr_checkpoint_commit(to)
      call gr_checkpoint_writer_destroy(to)
      call gr_writer_create(comm, trim(folder) // '/w.nc', writer=writer)
      call gr_writer_add_dimension(writer, 'y', nrow * world_size)
      call gr_writer_add_dimension(writer, 'x', nlon)
      call gr_writer_add_variable(writer, 'q', 'x y', GR_F64)
      call gr_writer_add_variable(writer, 'twice', 'x y', GR_F64)
      call gr_writer_write(writer, 'q', lo + 1, hi - 1, field=own%t)
      call gr_writer_write(writer, 'twice', lo + 1, hi - 1, field=2 * own%t)
      call gr_writer_commit(writer)
      call gr_writer_destroy(writer)
      own%t = 0
      call gr_file_open(comm, trim(folder) // '/w.nc', file)
      call gr_file_read(file, 'twice', lo + 1, hi - 1, field=own%t)
      call that(all(own%t == own%s), 'a file of an expression')
      call gr_file_read(file, 'q', lo + 1, hi - 1, field=own%t)
      call that(all(2 * own%t == own%s), 'a file')
      call gr_file_close(file)
      call gr_checkpoints_newest(checkpoints, from)
      call gr_checkpoint_read(from, 'expression', layout, own%t)
      call that(all(2 * own%t == 3 * own%s), 'a checkpoint of an expression')
      call gr_checkpoint_read(from, 's', layout, own%t)
      call that(all(own%t == own%s), 'a checkpoint')
      call gr_checkpoint_read_replicated(from, 'number', own(1, 1)%t)
      call that(own(1, 1)%t == 7, 'a number of a checkpoint')
      call gr_checkpoint_close(from)
      call gr_checkpoints_destroy(checkpoints)
    end associate
    if (world_rank == 0) call execute_command_line("rm -rf '" // trim(folder) // "'")
  end subroutine

  !> gfortran passes a copy of a component to gr_field, and frees it before the description is used.
  subroutine names_copies()
    real(c_double), pointer :: p(:, :)
    character(20) :: memory
    integer :: number
    call get_environment_variable('GRATICULE_TEST_MEMORY', memory)
    if (memory == 'valgrind') then
      if (world_rank == 0) print '(a)', 'skipped: under valgrind memory that was freed is not allocated again, and not recognised'
      return
    end if
    do number = 1, 2
      call fill()
      if (number == 1) call gr_halo_exchange(halo, gr_field(cells%t), stat=stat)
      p => cells%t
      if (number == 2) call gr_halo_exchange(halo, gr_field(p), stat=stat)
      call names_a_copy(all(cells%t == expected()))
    end do
    call names_memory_freed_among_others()
    ! The next calls of the plan are as before.
    call gr_halo_exchange(halo, cells%t)
    call that(all(cells%t == expected()), 'a call after the refused ones')
  end subroutine

  !> The latest call is right, or it has failed and one rank at least has named the copy: memory that the library has allocated meanwhile
  !> is not recognised, and then the refusal of another rank is the error (PeerRefused).
  subroutine names_a_copy(is_right)
    logical, intent(in) :: is_right
    character(*), parameter :: text = 'gr_field describes a copy that the compiler has made'
    logical :: names, fails
    integer(c_int) :: own(2), all_ranks(2)
    fails = stat /= GR_SUCCESS
    names = stat == GR_ERROR_ARGUMENT
    if (names) names = index(gr_error_text(), text) > 0
    own = [merge(1, 0, names), merge(1, 0, fails)]
    call MPI_Allreduce(own, all_ranks, 2_c_int, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (fails) then
      call that(names .or. gr_error_rule() == 'PeerRefused', 'an error of a copy')
    else
      call that(is_right, 'a description of a component')
    end if
    call that(all_ranks(1) > 0 .or. all_ranks(2) == 0, 'a rank that names the copy')
  end subroutine

  !> The C library allocates blocks of the same size first that were freed before.
  subroutine names_memory_freed_among_others()
    interface
      function c_malloc(size) bind(c, name='malloc') result(block)
        import
        integer(c_size_t), value :: size
        type(c_ptr) :: block
      end function
      subroutine c_free(block) bind(c, name='free')
        import
        type(c_ptr), value :: block
      end subroutine
    end interface
    ! The first blocks take up what is free, so that the last ones lie side by side.
    integer, parameter :: num_blocks = 2016, first = 2001, own = 2008
    type(c_ptr) :: blocks(num_blocks)
    real(c_double), pointer :: p(:, :)
    type(gr_field) :: field
    integer :: i
    do i = 1, num_blocks
      blocks(i) = c_malloc(int(8 * size(cells), c_size_t))
    end do
    call c_f_pointer(blocks(own), p, shape(cells))
    p = 1
    field = gr_field(p)
    do i = first + 1, num_blocks, 2
      if (i /= own) call c_free(blocks(i))
    end do
    call c_free(blocks(own))
    call gr_halo_exchange(halo, field, stat=stat)
    call names_a_copy(.false.)
    do i = 1, num_blocks
      if (i < first .or. mod(i, 2) == 1) call c_free(blocks(i))
    end do
  end subroutine

  subroutine refuses_copied_handles()
    type(gr_layout) :: first, second
    type(gr_halo) :: other
    integer :: box(2, 2)
    call gr_layout_create([8, 8], [1, 1], first)
    second = first
    call gr_layout_destroy(first)
    call gr_layout_owned(second, 0, box(:, 1), box(:, 2), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'layout is a copy of a handle that was freed')
    call gr_layout_destroy(second, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'layout is a copy of a handle that was freed')
    call gr_halo_create(comm, layout, kind, other)
    first%handle = other%handle
    call gr_layout_owned(first, 0, box(:, 1), box(:, 2), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'layout is a gr_halo')
    call gr_halo_destroy(other)
  end subroutine

  integer function c_getpid()
    interface
      function process_id() bind(c, name='getpid') result(pid)
        import
        integer(c_int) :: pid
      end function
    end interface
    c_getpid = process_id()
  end function
end program
