! SPDX-License-Identifier: BSD-3-Clause
!> The examples of docs/reference/c.md: scripts/bindings takes them from here, and this program runs them.
program test_fortran_reference
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real32, real64
  use mpi_f08
  use graticule
  use check
  implicit none
  integer, parameter :: nlon = 12, nlat = 8, nlev = 3
  type(gr_comm) :: comm
  type(gr_layout) :: layout, columns
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  integer :: is, ie, js, je, stat, i, j
  real(real64) :: weights(nlat)
  real(real64), allocatable, asynchronous :: q(:, :), u(:, :), t(:, :, :)
  character(:), allocatable :: folder

  call begin()
  call make_folder()
  call starts()
  call makes_layouts()
  call exchanges_halos()
  call starts_and_finishes()
  call counts_layers()
  call moves()
  call adds()
  call writes_and_reads()
  call saves_and_loads()
  call keeps_cells_in_a_list()
  call gr_halo_destroy(halo)
  call gr_layout_destroy(columns)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()
  if (world_rank == 0) call execute_command_line("rm -rf '" // folder // "'")
  call finish()

contains

  subroutine make_folder()
    interface
      function process_id() bind(c, name='getpid') result(pid)
        import
        integer(c_int) :: pid
      end function
    end interface
    character(4096) :: text
    integer(c_int) :: number
    number = process_id()
    call MPI_Bcast(number, 1_c_int, MPI_INTEGER, 0_c_int, MPI_COMM_WORLD)
    call get_environment_variable('TMPDIR', text)
    if (text == '') text = '/tmp'
    write (text(len_trim(text) + 1:), '(a, i0)') '/graticule-reference-', number
    folder = trim(text)
  end subroutine

  subroutine starts()
    ! example: Library
    call gr_init(num_threads=1, check_mode='comm')
    call gr_set_patience(60.0_real64, 600.0_real64, stat)
    if (stat /= GR_SUCCESS) write (error_unit, '(3a)') gr_error_rule(), ': ', gr_error_text()
    ! end of example
    call that(stat == GR_SUCCESS, 'a start')
    call gr_set_patience(0.0_real64, 0.0_real64)
  end subroutine

  subroutine makes_layouts()
    integer :: rank, num_ranks, dims(2)
    type(gr_cuts) :: cuts(2)
    type(gr_layout) :: by_cuts
    ! example: Communicators
    call gr_comm_create(MPI_COMM_WORLD, comm)  ! of mpi_f08, of mpi or of mpif.h
    call gr_comm_rank(comm, rank)
    call gr_comm_size(comm, num_ranks)
    ! end of example
    call that(rank == world_rank .and. num_ranks == world_size, 'ranks')
    dims = [1, num_ranks]
    ! example: Cuts and layouts
    call gr_layout_create([nlon, nlat], dims, layout)      ! dims(1) parts of longitude, dims(2) of latitude
    call gr_layout_create([nlon, nlat], [num_ranks, 1], columns)
    call gr_cuts_create_balanced(nlon, dims(1), cuts(1))
    call gr_area_weights([(-90 + (j - 0.5_real64) * 180 / nlat, j=1, nlat)], weights)
    call gr_cuts_create_weighted(weights, dims(2), cuts=cuts(2))  ! parts of equal area
    call gr_layout_create_cuts(cuts, layout=by_cuts)
    ! end of example
    do i = 1, 2
      call gr_cuts_destroy(cuts(i))
    end do
    call gr_layout_destroy(by_cuts)
  end subroutine

  subroutine exchanges_halos()
    integer :: lo(2), hi(2)
    ! example: Halos
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)  ! one ghost cell, poles, periodic in longitude
    call gr_halo_create(comm, layout, kind, halo, name='dynamics')
    call gr_halo_local(halo, 1, lo, hi)                    ! the owned box grown by the widths
    allocate (q(lo(1):hi(1), lo(2):hi(2)), u(lo(1):hi(1), lo(2):hi(2)), source=0.0_real64)
    allocate (t(nlev, lo(1):hi(1), lo(2):hi(2)), source=1.0_real64)
    call gr_halo_exchange(halo, q, u, parity=[GR_EVEN, GR_ODD])
    call gr_halo_exchange(halo, t, axes=[2, 3])            ! levels first
    ! end of example
    is = lo(1) + 1; ie = hi(1) - 1
    js = lo(2) + 1; je = hi(2) - 1
    call that(all(t == 1), 'a halo')
  end subroutine

  subroutine starts_and_finishes()
    type(gr_pending) :: pending
    ! example: Fields and calls in flight
    call gr_halo_start(halo, [gr_field(q), gr_field(u, parity=GR_ODD)], pending)
    t(:, is:ie, js:je) = 2 * t(:, is:ie, js:je)  ! work that reads no halo
    call gr_finish(pending)
    ! end of example
    call that(all(t(:, is:ie, js:je) == 2), 'a call in flight')
  end subroutine

  subroutine counts_layers()
    type(gr_halo_depth) :: depth
    integer :: lo(2), hi(2)
    logical :: enough
    ! example: Valid layers of halos
    call gr_halo_depth_create(halo, 'q', depth=depth)
    call gr_halo_depth_suffices(depth, [1, 1], [1, 1], enough)
    if (.not. enough) then
      call gr_halo_exchange(halo, q)
      call gr_halo_depth_exchanged(depth)
    end if
    call gr_halo_depth_apply(depth, depth, [1, 1], [1, 1], GR_MIRRORS_DIFFER, lo, hi)  ! compute q in lo to hi
    ! end of example
    call that(all(lo == [is, js]) .and. all(hi == [ie, je]), 'cells to compute')
    call gr_halo_depth_destroy(depth)
  end subroutine

  subroutine moves()
    type(gr_repartition) :: transpose
    real(real64), allocatable :: whole_rows(:, :), whole_columns(:, :)
    integer :: lo(2), hi(2)
    ! example: Repartitions
    call gr_repartition_create(comm, layout, columns, plan=transpose)
    call gr_repartition_target(transpose, 1, lo, hi)
    allocate (whole_rows(is:ie, js:je), source=3.0_real64)
    allocate (whole_columns(lo(1):hi(1), lo(2):hi(2)))
    call gr_repartition_apply(transpose, whole_rows, whole_columns)
    call gr_repartition_apply_inverse(transpose, whole_rows, whole_columns)  ! and back
    ! end of example
    call that(all(whole_columns == 3), 'a transpose')
    call gr_repartition_destroy(transpose)
  end subroutine

  subroutine adds()
    type(gr_zonal) :: zonal
    type(gr_area_sum) :: mean
    real(real32) :: temperature(is:ie, js:je)
    real(real64) :: sums(1, js:je), global(1)
    ! example: Zonal and area sums
    temperature = 280
    call gr_zonal_create(comm, layout, 1, zonal=zonal)  ! along dimension 1
    call gr_zonal_apply(zonal, temperature, sums)  ! sums of real32 in real64
    call gr_area_sum_create(comm, layout, 1, 2, weights, GR_SCALE_MEAN, mean)
    call gr_area_sum_apply(mean, temperature, global)   ! the same bits on any number of ranks
    ! end of example
    call that(all(sums == 280 * nlon) .and. global(1) == 280, 'sums')
    temperature = 1
    sums = 0.5
    call gr_zonal_apply_adjoint(zonal, temperature, sums, GR_COTANGENTS_REPLICATED)
    call that(all(temperature == 1.5), 'cotangents of real32 from real64')
    call gr_zonal_destroy(zonal)
    call gr_area_sum_destroy(mean)
  end subroutine

  subroutine writes_and_reads()
    type(gr_writer) :: writer
    type(gr_file) :: file
    real(real64) :: hours, latitudes(nlat)
    integer :: record
    if (world_rank == 0) call execute_command_line("mkdir -p '" // folder // "'")
    call MPI_Barrier(MPI_COMM_WORLD)
    latitudes = [(-90 + (j - 0.5_real64) * 180 / nlat, j=1, nlat)]
    record = 1
    hours = 6
    q(is:ie, js:je) = 5
    ! example: Files
    call gr_writer_create(comm, folder // '/q.nc', writer=writer)
    call gr_writer_add_dimension(writer, 'time', 1, unlimited=.true.)
    call gr_writer_add_coordinate(writer, 'lat', latitudes, GR_F64)
    call gr_writer_add_dimension(writer, 'lon', nlon)
    call gr_writer_add_variable(writer, 'time', 'time', GR_F64)
    call gr_writer_add_variable(writer, 'q', 'lon lat time', GR_F32)
    call gr_writer_write(writer, 'q', [is, js, record], [ie, je, record], field=q(is:ie, js:je))
    call gr_writer_write_replicated(writer, 'time', [record], [record], field=hours)
    call gr_writer_commit(writer)
    call gr_writer_destroy(writer)
    call gr_file_open(comm, folder // '/q.nc', file)
    call gr_file_read(file, 'q', [is, js, record], [ie, je, record], field=q(is:ie, js:je))
    call gr_file_close(file)
    ! end of example
    call that(all(q(is:ie, js:je) == 5), 'a file')
  end subroutine

  subroutine saves_and_loads()
    type(gr_checkpoints) :: checkpoints
    type(gr_checkpoint_writer) :: to
    type(gr_checkpoint) :: from
    integer(int64) :: step
    real(real64) :: own(is:ie, js:je)
    own = 7
    step = 40
    ! example: Checkpoints
    call gr_checkpoints_create(comm, folder, checkpoints=checkpoints)
    call gr_checkpoint_begin(checkpoints, step, to)
    call gr_checkpoint_add(to, 'q', layout, own)
    call gr_checkpoint_commit(to)
    call gr_checkpoint_writer_destroy(to)
    call gr_checkpoints_newest(checkpoints, from)  ! in any later run, on any number of ranks
    call gr_checkpoint_convert(from, .true.)       ! also where it was saved in the other precision
    call gr_checkpoint_read(from, 'q', layout, own)
    call gr_checkpoint_close(from)
    ! end of example
    call that(all(own == 7), 'a checkpoint')
    call gr_checkpoints_destroy(checkpoints)
  end subroutine

  !> A reduced Gaussian grid in docs/simulation_codes.md: rows of different numbers of cells, one after another in a list.
  subroutine keeps_cells_in_a_list()
    integer, parameter :: num_rows = 8, cells_in(num_rows) = [4, 8, 12, 16, 16, 12, 8, 4], num_cells = sum(cells_in)
    integer :: begins(num_rows + 1), row_of(num_cells), sizes(world_size), lower(1), upper(1), ghosts(1, 2), ghost_ends(1, 2)
    integer :: first, last, r, row
    real(real64) :: area(num_rows), latitudes(num_rows), global(1)
    real(real64), allocatable :: cell(:), weight(:), before(:), after(:)
    type(gr_cuts) :: cuts
    type(gr_layout) :: list
    type(gr_area_sum) :: mean
    type(gr_repartition) :: neighbors
    type(gr_writer) :: writer
    type(gr_file) :: file
    begins(1) = 1
    do row = 1, num_rows
      begins(row + 1) = begins(row) + cells_in(row)
      row_of(begins(row):begins(row + 1) - 1) = row
    end do
    latitudes = [(-90 + (row - 0.5_real64) * 180 / num_rows, row=1, num_rows)]
    call gr_area_weights(latitudes, area)
    do r = 1, world_size
      sizes(r) = sum(cells_in(num_rows * (r - 1) / world_size + 1:num_rows * r / world_size))
    end do
    first = num_rows * world_rank / world_size + 1
    last = num_rows * (world_rank + 1) / world_size
    ! example: Cells in one list
    ! Rank r owns sizes(r) cells: whole rows of the list.
    call gr_cuts_create(sizes, cuts)
    call gr_layout_create_cuts([cuts], layout=list)
    call gr_layout_owned(list, world_rank, lower, upper)
    allocate (cell(lower(1):upper(1)), weight(lower(1):upper(1)))
    cell = row_of(lower(1):upper(1))
    weight = area(row_of(lower(1):upper(1))) / cells_in(row_of(lower(1):upper(1)))
    call gr_area_sum_create_cells(comm, list, weight, GR_SCALE_MEAN, mean)
    call gr_area_sum_apply(mean, cell, global)
    ! The rows next to those of this rank, of other ranks: any cells of the list, as boxes.
    ghosts(1, :) = [begins(max(first - 1, 1)), begins(last + 1)]
    ghost_ends(1, :) = [begins(first) - 1, begins(min(last + 2, num_rows + 1)) - 1]
    call gr_repartition_create_boxes(comm, list, ghosts, ghost_ends, plan=neighbors)
    allocate (before(ghosts(1, 1):ghost_ends(1, 1)), after(ghosts(1, 2):ghost_ends(1, 2)))
    call gr_repartition_apply(neighbors, [gr_field(cell)], [gr_field(before), gr_field(after)])
    call gr_writer_create(comm, folder // '/list.nc', writer=writer)
    call gr_writer_add_dimension(writer, 'cell', num_cells)
    call gr_writer_add_variable(writer, 'q', 'cell', GR_F64)
    call gr_writer_write(writer, 'q', lower, upper, field=cell)
    call gr_writer_commit(writer)
    ! end of example
    call that(abs(global(1) - sum(area * [(row, row=1, num_rows)])) < 1e-12, 'a mean over cells in a list')
    call that(all(before == first - 1) .and. all(after == last + 1), 'rows of other ranks')
    call that(size(before) == merge(0, cells_in(max(first - 1, 1)), first == 1), 'a row before')
    call that(size(after) == merge(0, cells_in(min(last + 1, num_rows)), last == num_rows), 'a row after')
    call gr_writer_destroy(writer)
    cell = 0
    call gr_file_open(comm, folder // '/list.nc', file)
    call gr_file_read(file, 'q', lower, upper, field=cell)
    call that(all(cell == row_of(lower(1):upper(1))), 'a file of cells in a list')
    call gr_file_close(file)
    call saves_the_list(list, cell)
    call gr_repartition_destroy(neighbors)
    call gr_area_sum_destroy(mean)
    call gr_layout_destroy(list)
    call gr_cuts_destroy(cuts)
  end subroutine

  !> On another number of cells per rank, too.
  subroutine saves_the_list(list, cell)
    type(gr_layout), intent(in) :: list
    real(real64), intent(in) :: cell(:)
    type(gr_checkpoints) :: checkpoints
    type(gr_checkpoint_writer) :: to
    type(gr_checkpoint) :: from
    type(gr_layout) :: even
    real(real64), allocatable :: other(:)
    integer :: extents(1), lower(1), upper(1)
    call gr_layout_extents(list, extents)
    call gr_layout_create(extents, [world_size], even)
    call gr_layout_owned(even, world_rank, lower, upper)
    allocate (other(lower(1):upper(1)), source=0.0_real64)
    call gr_checkpoints_create(comm, folder // '/list', checkpoints=checkpoints)
    call gr_checkpoint_begin(checkpoints, 1_int64, to)
    call gr_checkpoint_add(to, 'q', list, cell)
    call gr_checkpoint_commit(to)
    call gr_checkpoint_writer_destroy(to)
    call gr_checkpoints_newest(checkpoints, from)
    call gr_checkpoint_read(from, 'q', even, other)
    call gr_checkpoint_close(from)
    call that(all(other >= 1 .and. other <= 8), 'a checkpoint of cells in a list')
    call gr_checkpoints_destroy(checkpoints)
    call gr_layout_destroy(even)
  end subroutine
end program
