! SPDX-License-Identifier: BSD-3-Clause
!> The Fortran module: files and checkpoints.
program test_fortran_files
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use graticule
  use check
  implicit none
  integer, parameter :: nlon = 6, nlat = 7
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  integer :: stat, lo(2), hi(2)
  character(64) :: folder

  call begin()
  call gr_init()
  call gr_comm_create(MPI_COMM_WORLD%MPI_VAL, comm)
  call gr_layout_create([nlon, nlat], [1, world_size], layout)
  call gr_layout_owned(layout, world_rank, lo, hi)
  write (folder, '(a, i0)') 'bindings-fortran-files-', process_id()
  call MPI_Bcast(folder, int(len(folder), c_int), MPI_CHARACTER, 0_c_int, MPI_COMM_WORLD)
  if (world_rank == 0) call execute_command_line('mkdir ' // folder)
  call MPI_Barrier(MPI_COMM_WORLD)
  call writes(trim(folder) // '/file.nc')
  call reads(trim(folder) // '/file.nc')
  ! The name makes it a Zarr store.
  call writes(trim(folder) // '/file.zarr')
  call reads(trim(folder) // '/file.zarr')
  call reads_a_series(trim(folder))
  call saves(trim(folder) // '/checkpoints')
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()
  if (world_rank == 0 .and. num_failures == 0) call execute_command_line('rm -r ' // folder)
  call finish()

contains

  integer function process_id()
    interface
      function c_getpid() bind(c, name='getpid') result(id)
        import
        integer(c_int) :: id
      end function
    end interface
    process_id = c_getpid()
  end function

  real(c_double) function cell(i, j, t)
    integer, intent(in) :: i, j, t
    cell = 1000 * t + 100 * j + i
  end function

  subroutine write_time(writer, t)
    type(gr_writer), intent(inout) :: writer
    integer, intent(in) :: t
    real(c_double) :: u(lo(1):hi(1), lo(2):hi(2)), hours(1)
    integer :: i, j
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        u(i, j) = cell(i, j, t)
      end do
    end do
    call gr_writer_write(writer, 'u', [lo, t], [hi, t], field=gr_field(u))
    hours = 6d0 * t
    call gr_writer_write(writer, 'time', [t], [merge(t, t - 1, world_rank == 0)], field=gr_field(hours))
  end subroutine

  !> A file with some times from `first` on.
  subroutine write_file(path, first, num_times)
    character(*), intent(in) :: path
    integer, intent(in) :: first, num_times
    type(gr_writer) :: writer
    real(c_double) :: u(lo(1):hi(1), lo(2):hi(2)), hours(1)
    integer :: i, j, t
    call gr_writer_create(comm, path, writer=writer)
    call gr_writer_add_dimension(writer, 'time', num_times, unlimited=.true.)
    call gr_writer_add_dimension(writer, 'latitude', nlat)
    call gr_writer_add_dimension(writer, 'longitude', nlon)
    call gr_writer_add_variable(writer, 'time', 'time', GR_F64)
    call gr_writer_add_variable(writer, 'u', 'longitude latitude time', GR_F64)
    do t = 1, num_times
      do j = lo(2), hi(2)
        do i = lo(1), hi(1)
          u(i, j) = cell(i, j, first + t - 1)
        end do
      end do
      hours = 6d0 * (first + t - 1)
      call gr_writer_write(writer, 'u', [lo, t], [hi, t], field=gr_field(u))
      call gr_writer_write(writer, 'time', [t], [merge(t, t - 1, world_rank == 0)], field=gr_field(hours))
    end do
    call gr_writer_commit(writer)
    call gr_writer_destroy(writer)
  end subroutine

  !> Two files are read as one: by a pattern, and by a list of names of different lengths.
  subroutine reads_a_series(folder)
    character(*), intent(in) :: folder
    type(gr_file) :: file
    character(:), allocatable :: text
    character(200) :: names(2)
    integer(c_int64_t) :: before, cells
    integer :: turn, num_files, extents(3), i, j
    real(c_double) :: hours(3), u(nlon, lo(2):hi(2), 2)
    names = [character(200) :: folder // '/run_2.nc', folder // '/run_10.nc']
    call write_file(trim(names(1)), 1, 2)
    call write_file(trim(names(2)), 3, 1)
    do turn = 1, 2
      if (turn == 1) then
        call gr_file_open_series(comm, [folder // '/run_*.nc'], file=file)
      else
        call gr_file_open_series(comm, names, 'time', 1, file)
      end if
      call gr_file_num_files(file, num_files)
      call gr_file_series_dimension(file, text)
      call that(num_files == 2 .and. text == 'time', 'the joined dimension')
      call gr_file_part(file, 2, before, cells, text)
      call that(before == 2 .and. cells == 1 .and. index(text, 'run_10.nc') > 0, 'the second file')
      call gr_file_extents(file, 'u', extents)
      call gr_file_coordinate(file, 'time', hours)
      call that(extents(3) == 3 .and. all(hours == [6d0, 12d0, 18d0]), 'the times of all files')
      u = -1
      call gr_file_read(file, 'u', [1, lo(2), 2], [nlon, hi(2), 3], field=gr_field(u))
      call that(all([((u(i, j, 1) == cell(i, j, 2) .and. u(i, j, 2) == cell(i, j, 3), i=1, nlon), j=lo(2), hi(2))]), &
        'cells of both files')
      call gr_file_close(file)
    end do
    call gr_file_open_series(comm, ['no-such-*.nc'], file=file, stat=stat)
    call fails(stat, GR_ERROR_INPUT, 'no-such-*.nc')
    call gr_file_open_series(comm, names(:0), file=file, stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'size(patterns) is 0')
  end subroutine

  subroutine writes(path)
    character(*), intent(in) :: path
    type(gr_writer) :: writer
    type(gr_attributes) :: attributes
    type(gr_variable_options) :: options
    integer :: i
    call gr_attributes_create(attributes)
    call gr_attributes_add_text(attributes, 'units', 'degrees_north')
    call gr_attributes_add_number(attributes, 'height', 10.5d0, GR_F64)
    call gr_writer_create(comm, path, attributes, writer)
    call gr_writer_add_dimension(writer, 'time', 1, unlimited=.true.)
    call gr_writer_add_coordinate(writer, 'latitude', [(90d0 - 30 * (i - 1), i=1, nlat)], GR_F64, attributes)
    call gr_attributes_destroy(attributes)
    call gr_writer_add_dimension(writer, 'longitude', nlon)
    call gr_attributes_create(attributes)
    call gr_attributes_add_text(attributes, 'units', 'days since 2001-02-28')
    call gr_attributes_add_text(attributes, 'calendar', '360_day')
    call gr_writer_add_variable(writer, 'time', 'time', GR_F64, attributes=attributes)
    call gr_attributes_destroy(attributes)
    options%ndim = 3
    options%chunk(:3) = [nlon, nlat, 1]
    options%deflate = 1
    call gr_writer_add_variable(writer, 'u', '  longitude latitude   time', GR_F64, options)
    call gr_writer_add_variable(writer, 'v', 'height', GR_F64, stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'MissingVariable')
    call write_time(writer, 1)
    call gr_writer_commit(writer)
    call gr_writer_destroy(writer)
    call gr_writer_append(comm, path, writer=writer)
    call gr_writer_extend(writer, 'time', 1)
    call write_time(writer, 2)
    call gr_writer_commit(writer)
    call gr_writer_destroy(writer)
    call gr_writer_append(comm, 'no-such-file.nc', .true., writer, stat)
    call fails(stat, GR_ERROR_INPUT, 'no-such-file.nc')
  end subroutine

  subroutine reads(path)
    character(*), intent(in) :: path
    type(gr_file) :: file
    character(:), allocatable :: text
    integer :: num_variables, ndim, extents(3), num_numbers, i, j, found
    integer :: year, month, day, second
    integer(c_int64_t) :: times(2), first
    real(c_double) :: latitudes(nlat), numbers(2), days(2)
    real(c_float) :: turned(0:nlat + 1, nlon)
    call gr_file_open(comm, 'no-such-file.nc', file, stat)
    call fails(stat, GR_ERROR_INPUT, 'no-such-file.nc')
    call gr_file_open(comm, path, file)
    call gr_file_num_variables(file, num_variables)
    found = 0
    do i = 1, num_variables
      call gr_file_variable_name(file, i, text)
      if (text == 'u' .or. text == 'time' .or. text == 'latitude') found = found + 1
    end do
    call that(num_variables == 3 .and. found == 3, 'the names of variables')
    call gr_file_variable_name(file, 4, text, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'number is 3 of 3 variables')
    call gr_file_ndim(file, 'u', ndim)
    call gr_file_extents(file, 'u', extents)
    call that(ndim == 3 .and. all(extents == [nlon, nlat, 2]), 'extents')
    call gr_file_dimension(file, 'u', 3, 2, text)
    call that(text == 'latitude', 'a dimension')
    call gr_file_coordinate(file, 'latitude', latitudes)
    call that(latitudes(1) == 90 .and. latitudes(nlat) == -90, 'a coordinate')
    call gr_file_calendar(file, 'time', text)
    call that(text == '360_day', 'a calendar')
    call gr_file_coordinate(file, 'time', days)
    call gr_file_times(file, 'time', times)
    call gr_time_of_date('360_day', 2001, 2, 28, 0, first)
    call that(all(times == first + nint(days) * 86400_c_int64_t), 'times')
    call gr_date_of_time('360_day', first + 2 * 86400 + 5, year, month, day, second)
    call that(all([year, month, day, second] == [2001, 2, 30, 5]), 'a date')
    call gr_time_of_date('noleap', 2001, 2, 30, 0, first, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'is no time of the calendar noleap')
    call gr_file_attribute_text(file, 'latitude', 'units', text)
    call that(text == 'degrees_north', 'an attribute')
    call gr_file_attribute_text(file, attribute='nothing', text=text)
    call that(text == '', 'no attribute')
    call gr_file_attribute_numbers(file, attribute='height', num_numbers=num_numbers, numbers=numbers)
    call that(num_numbers == 1 .and. numbers(1) == 10.5d0, 'a number')
    ! Time 2, latitude first in memory, from the last row of this rank to its first.
    turned = -5
    call gr_file_read(file, 'u', [lo, 2], [hi, 2], [1, -1, 1], [2, 1], gr_field(turned, owned=[2, 1]))
    do j = 1, hi(2) - lo(2) + 1
      do i = 1, nlon
        call that(turned(j, i) == real(cell(i, hi(2) - j + 1, 2)), 'a cell of a file')
      end do
    end do
    call that(all(turned(0, :) == -5), 'cells beside the selection')
    call gr_file_read(file, 'u', [lo, 3], [hi, 3], field=gr_field(turned), stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'OutOfRange')
    call gr_file_close(file)
  end subroutine

  subroutine saves(path)
    character(*), intent(in) :: path
    type(gr_checkpoints) :: checkpoints
    type(gr_checkpoint_writer) :: writer
    type(gr_checkpoint) :: checkpoint
    character(:), allocatable :: text, name
    real(c_double) :: table(3), values(1)
    real(c_double), allocatable :: u(:, :, :), v(:, :, :)
    integer(c_int64_t) :: step, seeds(2)
    integer :: i, j, k
    logical :: found
    allocate (u(2, lo(1):hi(1), lo(2):hi(2)), v(lo(1):hi(1), lo(2):hi(2), 2))
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        u(:, i, j) = [(cell(i, j, k), k=1, 2)]
      end do
    end do
    call gr_checkpoints_create(comm, path, 3, checkpoints)
    call gr_checkpoints_newest(checkpoints, checkpoint)
    call that(.not. c_associated(checkpoint%handle), 'no checkpoint yet')
    call gr_checkpoint_begin(checkpoints, 10_c_int64_t, writer)
    call gr_checkpoint_add(writer, 'u', layout, gr_field(u, axes=[2, 3]))
    table = [1, 2, 4]
    call gr_checkpoint_add_replicated(writer, 'table', gr_field(table))
    call gr_checkpoint_add_integers(writer, 'seeds', [12_c_int64_t, -5_c_int64_t])
    call gr_checkpoint_add_reals(writer, 'rate', [0.125d0])
    call gr_checkpoint_add_text(writer, 'name', 'run 7')
    call gr_checkpoint_commit(writer)
    call gr_checkpoint_writer_destroy(writer)
    call gr_checkpoint_begin(checkpoints, -1_c_int64_t, writer, stat)
    call fails(stat, GR_ERROR_PROGRAM, '-1')
    call gr_checkpoints_newest(checkpoints, checkpoint)
    call gr_checkpoint_step(checkpoint, step)
    call gr_checkpoint_path(checkpoint, name)
    call gr_checkpoints_skipped(checkpoints, text)
    call that(step == 10 .and. index(name, '10.h5') > 0 .and. text == '', 'the newest checkpoint')
    call gr_checkpoint_close(checkpoint)
    call gr_checkpoint_open(comm, name, checkpoint)
    call gr_checkpoint_verify(checkpoint)
    call gr_checkpoint_has(checkpoint, 'rate', found)
    call that(found, 'a value')
    call gr_checkpoint_has(checkpoint, 'speed', found)
    call that(.not. found, 'no value')
    ! Levels last in memory now.
    call gr_checkpoint_read(checkpoint, 'u', layout, gr_field(v))
    do k = 1, 2
      call that(all(v(:, :, k) == u(k, :, :)), 'a field')
    end do
    table = 0
    call gr_checkpoint_read_replicated(checkpoint, 'table', gr_field(table))
    call gr_checkpoint_integers(checkpoint, 'seeds', seeds)
    call gr_checkpoint_reals(checkpoint, 'rate', values)
    call gr_checkpoint_text(checkpoint, 'name', text)
    call that(all(table == [1, 2, 4]) .and. all(seeds == [12, -5]) .and. values(1) == 0.125d0 .and. text == 'run 7', 'values')
    call gr_checkpoint_text(checkpoint, 'nobody', text, stat)
    call fails(stat, GR_ERROR_INPUT, 'MissingVariable')
    call gr_checkpoint_close(checkpoint)
    call gr_checkpoints_destroy(checkpoints)
  end subroutine
end program test_fortran_files
