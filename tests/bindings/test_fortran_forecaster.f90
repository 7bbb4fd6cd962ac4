! SPDX-License-Identifier: BSD-3-Clause
!> A network of graticule-train on the arrays of a program in Fortran.
!>
!>   test_fortran_forecaster CHECKPOINT SERIES.nc RECORD FORECAST.nc STEPS: as test_forecaster.c, with the levels of one
!>   array as channels
program test_fortran_forecaster
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use graticule
  use graticule_nn
  use check
  implicit none
  integer, parameter :: nlat = 16, nlon = 32
  character(9), parameter :: names(4) = ['h        ', 'u        ', 'v        ', 'vorticity']
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_file) :: series, forecast
  type(gr_forecaster) :: network
  character(1000) :: arguments(5)
  character(:), allocatable :: text
  real(c_float), allocatable :: present(:, :, :), later(:, :, :), expected(:, :, :)
  integer :: lo(2), hi(2), dims(2), i, record, step, steps, history, prognostic, channels, stat
  integer(c_int64_t) :: lead

  call begin()
  do i = 1, 5
    call get_command_argument(i, arguments(i))
  end do
  read (arguments(3), *) record
  read (arguments(5), *) steps
  call gr_init(1)
  call gr_comm_create(MPI_COMM_WORLD, comm)
  dims = 0
  call MPI_Dims_create(world_size, 2, dims)
  call gr_layout_create([nlon, nlat], dims, layout)
  call gr_layout_owned(layout, world_rank, lo, hi)
  allocate (present(lo(1):hi(1), lo(2):hi(2), 6), later(lo(1):hi(1), lo(2):hi(2), 4), expected(lo(1):hi(1), lo(2):hi(2), 4))

  call gr_forecaster_load(comm, trim(arguments(1)), layout, 1, network)
  call gr_forecaster_num_channels(network, prognostic, channels)
  call that(prognostic == 3 .and. channels == 4, 'three prognostic channels of four')
  call gr_forecaster_channel(network, 4, text)
  call that(text == 'vorticity', 'the fourth channel')
  call gr_forecaster_text(network, text)
  call that(index(text, 'vorticity (s-1), diagnostic') > 0, 'the report')
  call gr_forecaster_step(network, history, lead)
  call that(history == 2 .and. lead == 21600, 'history and lead')
  call gr_forecaster_set_calendar(network, '360_day')
  call gr_forecaster_calendar(network, text)
  call that(text == '360_day', 'the calendar')
  call gr_forecaster_set_calendar(network, 'standard')

  call gr_file_open(comm, trim(arguments(2)), series)
  call gr_file_open(comm, trim(arguments(4)), forecast)
  call read_record(series, record + 1, 3, present)
  call read_record(series, record, 3, present(:, :, 4:))
  do step = 1, steps
    call gr_forecaster_next(network, 946684800_c_int64_t + (record + step - 1) * lead, gr_field(present), gr_field(later))
    call read_record(forecast, step, 4, expected)
    do i = 1, 4
      call that(all(abs(later(:, :, i) - expected(:, :, i)) <= 5e-5 * maxval(abs(expected(:, :, i)))), 'a step: ' // names(i))
    end do
    present(:, :, 4:) = present(:, :, :3)
    present(:, :, :3) = later(:, :, :3)
  end do
  if (size(present) > 0) call that(maxval(present(:, :, 1)) > 1000, 'depths of the fluid')
  call gr_forecaster_next(network, 0_c_int64_t, [gr_field(present(:, :, 1))], [gr_field(later)], stat)
  call fails(stat, GR_ERROR_ARGUMENT, 'states have 1 values per cell, the network 6')

  call gr_file_close(series)
  call gr_file_close(forecast)
  call gr_forecaster_destroy(network)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()
  call finish()

contains

  subroutine read_record(file, number, num_channels, values)
    type(gr_file), intent(in) :: file
    integer, intent(in) :: number, num_channels
    real(c_float), intent(inout), target :: values(lo(1):, lo(2):, :)
    integer :: c
    do c = 1, num_channels
      call gr_file_read(file, trim(names(c)), [lo, number], [hi, number], field=gr_field(values(:, :, c:c)))
    end do
  end subroutine
end program
