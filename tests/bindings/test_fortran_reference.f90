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
    integer :: number
    number = process_id()
    call MPI_Bcast(number, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
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
    call gr_zonal_apply(zonal, gr_field(temperature), gr_field(sums))  ! sums of real32 in real64
    call gr_area_sum_create(comm, layout, 1, 2, weights, GR_SCALE_MEAN, mean)
    call gr_area_sum_apply(mean, temperature, global)   ! the same bits on any number of ranks
    ! end of example
    call that(all(sums == 280 * nlon) .and. global(1) == 280, 'sums')
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
end program
