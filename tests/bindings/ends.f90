! SPDX-License-Identifier: BSD-3-Clause
!> A program whose last rank ends by `stop 5` while the others are in a call: `ends OPERATION FOLDER`. With an operation
!> `OPERATION_stat` the others take the error and end like any program, without gr_finalize.
program ends
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use graticule
  implicit none
  integer, parameter :: nlon = 8
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_writer) :: writer
  type(gr_file) :: file
  type(gr_checkpoints) :: checkpoints
  type(gr_checkpoint_writer) :: checkpoint
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  type(gr_repartition) :: plan
  type(gr_layout) :: columns
  real(c_double), allocatable, target :: u(:, :), v(:, :), w(:, :)
  character(200) :: operation, folder
  integer :: rank, num_ranks, lo(2), hi(2), i, stat
  logical :: takes_error, leaves, early

  call get_command_argument(1, operation)
  call get_command_argument(2, folder)
  takes_error = index(operation, '_stat') > 0
  early = operation == 'early_stat'
  if (takes_error) operation = operation(:index(operation, '_stat') - 1)
  call gr_init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, num_ranks)
  leaves = rank == num_ranks - 1
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_layout_create([nlon, 4 * num_ranks], [1, num_ranks], layout)
  call gr_layout_owned(layout, rank, lo, hi)
  allocate (u(lo(1):hi(1), lo(2):hi(2)), source=1d0 * rank)

  select case (operation)
  case ('write', 'commit')
    call new_writer(trim(folder) // '/w.nc')
    if (operation == 'commit') call gr_writer_write(writer, 'q', lo, hi, field=u)
  case ('append', 'in_place')
    call new_writer(trim(folder) // '/w.nc')
    call gr_writer_write(writer, 'q', lo, hi, field=u)
    call gr_writer_commit(writer)
    call gr_writer_destroy(writer)
    call gr_writer_append(comm, trim(folder) // '/w.nc', in_place=operation == 'in_place', writer=writer)
  case ('read', 'series')
    do i = 1, 2
      call new_writer(trim(folder) // '/r' // char(48 + i) // '.nc')
      call gr_writer_write(writer, 'q', lo, hi, field=u)
      call gr_writer_commit(writer)
      call gr_writer_destroy(writer)
    end do
    if (operation == 'read') then
      call gr_file_open(comm, trim(folder) // '/r1.nc', file)
    else
      call gr_file_open_series(comm, [character(200) :: trim(folder) // '/r1.nc', trim(folder) // '/r2.nc'], 'y', file=file)
    end if
  case ('checkpoint', 'newest')
    call gr_checkpoints_create(comm, folder, checkpoints=checkpoints)
    call gr_checkpoint_begin(checkpoints, 1_c_int64_t, checkpoint)
    call gr_checkpoint_add(checkpoint, 'u', layout, u)
  case ('halo', 'early')
    call gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, kind)
    call gr_halo_create(comm, layout, kind, halo)
    call gr_halo_local(halo, 1, lo, hi)
    allocate (v(lo(1):hi(1), lo(2):hi(2)), source=1d0)
    call gr_halo_exchange(halo, v)
  case ('repartition')
    call gr_layout_create([nlon * num_ranks, 4 * num_ranks], [1, num_ranks], layout)
    call gr_layout_create([nlon * num_ranks, 4 * num_ranks], [num_ranks, 1], columns)
    call gr_repartition_create(comm, layout, columns, plan=plan)
    allocate (v(nlon * num_ranks, 4), w(nlon, 4 * num_ranks), source=1d0)
  case ('sum')
  case ('nothing')
    stop
  case default
    error stop 99
  end select

  if (leaves .and. early) stop
  if (leaves) stop 5
  if (takes_error) then
    call calls(stat)
    if (stat /= GR_SUCCESS) print '(a)', gr_error_text()
  else
    call calls()
  end if

contains

  subroutine new_writer(path)
    character(*), intent(in) :: path
    call gr_writer_create(comm, path, writer=writer)
    call gr_writer_add_dimension(writer, 'y', 4 * num_ranks, unlimited=.true.)
    call gr_writer_add_dimension(writer, 'x', nlon)
    call gr_writer_add_variable(writer, 'q', 'x y', GR_F64)
  end subroutine

  !> What the others are in when one rank leaves.
  subroutine calls(stat)
    integer, intent(out), optional :: stat
    real(c_double) :: q(nlon, 4)
    type(gr_area_sum) :: sums
    select case (operation)
    case ('write')
      call gr_writer_write(writer, 'q', lo, hi, field=u, stat=stat)
    case ('commit')
      call gr_writer_commit(writer, stat)
    case ('append', 'in_place')
      call gr_writer_extend(writer, 'y', 4, stat)
    case ('read')
      call gr_file_read(file, 'q', lo, hi, field=q, stat=stat)
    case ('series')
      call gr_file_read(file, 'q', lo, hi, field=q, stat=stat)
    case ('checkpoint')
      call gr_checkpoint_commit(checkpoint, stat)
    case ('newest')
      call gr_checkpoint_add(checkpoint, 'v', layout, u, stat)
    case ('halo', 'early')
      call gr_halo_exchange(halo, v, stat=stat)
    case ('repartition')
      call gr_repartition_apply(plan, v, w, stat=stat)
    case ('sum')
      call gr_area_sum_create(comm, layout, 1, 2, [(1d0, i=1, 4 * num_ranks)], area_sum=sums, stat=stat)
    end select
  end subroutine
end program
