! SPDX-License-Identifier: BSD-3-Clause
! A tracer on the sphere, carried over the poles by a wind that friction slows down; both diffuse.
!
!   mpiexec -n 4 example_fortran OUTPUT.nc STEPS [FOLDER]
!
! With a folder, the run continues from the newest checkpoint there, and saves one at its end. The output has the same
! bytes for any number of ranks, with and without a restart.
program tracer
  use, intrinsic :: iso_c_binding, only: c_associated
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use graticule
  implicit none
  integer, parameter :: nlat = 24, nlon = 48
  real(real64), parameter :: pi = acos(-1.0_real64), friction = 0.01_real64
  real(real64), parameter :: dphi = pi / nlat, dlambda = 2 * pi / nlon
  integer :: is, ie, js, je                                   ! the model's own bounds
  real(real64), allocatable, asynchronous :: q(:, :), u(:, :), v(:, :)  ! with a halo of one
  real(real64), allocatable :: q_next(:, :), u_next(:, :), v_next(:, :)
  real(real64) :: cosine(nlat), tangent(nlat), dt, begin
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  type(gr_checkpoints) :: checkpoints
  integer(int64) :: steps, done
  character(1000) :: output, folder
  logical :: restarts

  call read_arguments()
  call gr_init()  ! starts MPI, too
  call make_model()
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_layout_create_boxes(comm, [nlon, nlat], reshape([is, js], [2, 1]), reshape([ie, je], [2, 1]), layout)
  call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
  call gr_halo_create(comm, layout, kind, halo)

  done = 0
  call set_initial_state()
  begin = mean()
  if (restarts) then
    call gr_checkpoints_create(comm, folder, 2, checkpoints)
    call load()
  end if
  do while (done < steps)
    call step()
    done = done + 1
  end do
  if (restarts) call save()
  call write_file()
  call report()

  if (restarts) call gr_checkpoints_destroy(checkpoints)
  call gr_halo_destroy(halo)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()

contains

  subroutine read_arguments()
    character(20) :: text
    if (command_argument_count() < 2) then
      write (error_unit, '(a)') 'use: example_fortran OUTPUT.nc STEPS [FOLDER]'
      stop 2, quiet=.true.
    end if
    call get_command_argument(1, output)
    call get_command_argument(2, text)
    read (text, *) steps
    call get_command_argument(3, folder)
    restarts = folder /= ''
  end subroutine

  pure real(real64) function latitude(j)
    integer, intent(in) :: j
    latitude = -pi / 2 + ((j - 1) + 0.5_real64) * dphi
  end function

  pure real(real64) function longitude(i)
    integer, intent(in) :: i
    longitude = (i - 1) * dlambda
  end function

  !> The model's own domain decomposition: the rank's box in a grid of ranks.
  subroutine make_model()
    integer :: rank, ranks, dims(2), coords(2), j
    real(real64) :: dx
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    dims = 0
    call MPI_Dims_create(ranks, 2, dims)
    coords = [rank / dims(2), mod(rank, dims(2))]
    js = nlat * coords(1) / dims(1) + 1
    je = nlat * (coords(1) + 1) / dims(1)
    is = nlon * coords(2) / dims(2) + 1
    ie = nlon * (coords(2) + 1) / dims(2)
    allocate (q(is - 1:ie + 1, js - 1:je + 1), source=0.0_real64)
    u = q
    v = q
    q_next = q
    u_next = q
    v_next = q
    do j = 1, nlat
      cosine(j) = cos(latitude(j))
      tangent(j) = tan(latitude(j))
    end do
    dx = cosine(1) * dlambda
    dt = 0.2_real64 * dx * dx / friction
  end subroutine

  !> A bell near the north pole; a rotation about an axis through the equator.
  subroutine set_initial_state()
    integer :: i, j
    real(real64) :: phi, lambda, x, y, z
    do j = js, je
      do i = is, ie
        phi = latitude(j)
        lambda = longitude(i)
        x = cos(phi) * cos(lambda) - cos(1.3_real64)
        y = cos(phi) * sin(lambda)
        z = sin(phi) - sin(1.3_real64)
        q(i, j) = exp(-20 * (x * x + y * y + z * z))
        u(i, j) = sin(phi) * cos(lambda)
        v(i, j) = -sin(lambda)
      end do
    end do
  end subroutine

  pure real(real64) function laplacian(f, i, j)
    real(real64), intent(in) :: f(is - 1:, js - 1:)
    integer, intent(in) :: i, j
    real(real64) :: east_west, north_south, slope
    east_west = (f(i + 1, j) - 2 * f(i, j) + f(i - 1, j)) / (cosine(j) * cosine(j) * dlambda * dlambda)
    north_south = (f(i, j + 1) - 2 * f(i, j) + f(i, j - 1)) / (dphi * dphi)
    slope = (f(i, j + 1) - f(i, j - 1)) / (2 * dphi)
    laplacian = east_west + north_south - tangent(j) * slope
  end function

  !> One step of the cells of a box: upwind advection of q, the vector Laplacian of the wind.
  subroutine step_box(lower, upper)
    integer, intent(in) :: lower(2), upper(2)
    integer :: i, j
    real(real64) :: c, t, q_east, q_north, u_east, v_east, q_rate, u_rate, v_rate
    do j = lower(2), upper(2)
      do i = lower(1), upper(1)
        c = cosine(j)
        t = tangent(j)
        q_east = merge(q(i, j) - q(i - 1, j), q(i + 1, j) - q(i, j), u(i, j) > 0) / (c * dlambda)
        q_north = merge(q(i, j) - q(i, j - 1), q(i, j + 1) - q(i, j), v(i, j) > 0) / dphi
        u_east = (u(i + 1, j) - u(i - 1, j)) / (2 * dlambda)
        v_east = (v(i + 1, j) - v(i - 1, j)) / (2 * dlambda)
        q_rate = friction * laplacian(q, i, j) - (u(i, j) * q_east + v(i, j) * q_north)
        u_rate = friction * (laplacian(u, i, j) - u(i, j) / (c * c) - 2 * t / c * v_east)
        v_rate = friction * (laplacian(v, i, j) - v(i, j) / (c * c) + 2 * t / c * u_east)
        q_next(i, j) = q(i, j) + dt * q_rate
        u_next(i, j) = u(i, j) + dt * u_rate
        v_next(i, j) = v(i, j) + dt * v_rate
      end do
    end do
  end subroutine

  subroutine step()
    type(gr_pending) :: pending
    integer :: lower(2), upper(2), lowers(2, 4), uppers(2, 4), num_boxes, b
    ! The wind changes its sign across a pole.
    call gr_halo_start(halo, [gr_field(q), gr_field(u, parity=GR_ODD), gr_field(v, parity=GR_ODD)], pending)
    call gr_halo_interior(halo, 1, lower=lower, upper=upper)
    call step_box(lower, upper)  ! while the halos travel
    call gr_finish(pending)
    call gr_halo_border(halo, 1, num_boxes=num_boxes, lower=lowers, upper=uppers)
    do b = 1, num_boxes
      call step_box(lowers(:, b), uppers(:, b))
    end do
    q(is:ie, js:je) = q_next(is:ie, js:je)
    u(is:ie, js:je) = u_next(is:ie, js:je)
    v(is:ie, js:je) = v_next(is:ie, js:je)
  end subroutine

  subroutine load()
    type(gr_checkpoint) :: checkpoint
    call gr_checkpoints_newest(checkpoints, checkpoint)
    if (.not. c_associated(checkpoint%handle)) return
    call gr_checkpoint_read(checkpoint, 'q', layout, gr_field(q, owned=[2, 2]))
    call gr_checkpoint_read(checkpoint, 'u', layout, gr_field(u, owned=[2, 2]))
    call gr_checkpoint_read(checkpoint, 'v', layout, gr_field(v, owned=[2, 2]))
    call gr_checkpoint_step(checkpoint, done)
    call gr_checkpoint_close(checkpoint)
  end subroutine

  subroutine save()
    type(gr_checkpoint_writer) :: writer
    call gr_checkpoint_begin(checkpoints, steps, writer)
    call gr_checkpoint_add(writer, 'q', layout, gr_field(q, owned=[2, 2]))
    call gr_checkpoint_add(writer, 'u', layout, gr_field(u, owned=[2, 2]))
    call gr_checkpoint_add(writer, 'v', layout, gr_field(v, owned=[2, 2]))
    call gr_checkpoint_commit(writer)
    call gr_checkpoint_writer_destroy(writer)
  end subroutine

  subroutine write_file()
    type(gr_writer) :: writer
    integer :: i, j
    call gr_writer_create(comm, output, writer=writer)
    call add_axis(writer, 'latitude', [(180 / pi * latitude(j), j=1, nlat)], 'degrees_north')
    call add_axis(writer, 'longitude', [(180 / pi * longitude(i), i=1, nlon)], 'degrees_east')
    call add_field(writer, 'q', q)
    call add_field(writer, 'u', u)
    call add_field(writer, 'v', v)
    call gr_writer_commit(writer)
    call gr_writer_destroy(writer)
  end subroutine

  subroutine add_axis(writer, name, values, units)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: name, units
    real(real64), intent(in) :: values(:)
    type(gr_attributes) :: attributes
    call gr_attributes_create(attributes)
    call gr_attributes_add_text(attributes, 'units', units)
    call gr_writer_add_coordinate(writer, name, values, GR_F64, attributes)
    call gr_attributes_destroy(attributes)
  end subroutine

  subroutine add_field(writer, name, f)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    real(real64), intent(in) :: f(:, :)
    call gr_writer_add_variable(writer, name, 'longitude latitude', GR_F64)
    call gr_writer_write(writer, name, [is, js], [ie, je], field=gr_field(f, owned=[2, 2]))
  end subroutine

  !> The mean of q over the sphere, with the same bits on any number of ranks.
  real(real64) function mean()
    type(gr_area_sum) :: sum
    real(real64) :: weights(nlat), values(1)
    integer :: j
    call gr_area_weights([(180 / pi * latitude(j), j=1, nlat)], weights)
    call gr_area_sum_create(comm, layout, 1, 2, weights, GR_SCALE_MEAN, sum)
    call gr_area_sum_apply(sum, gr_field(q, owned=[2, 2]), values)
    call gr_area_sum_destroy(sum)
    mean = values(1)
  end function

  !> Means, and the largest deviation of the wind from the exact solution: friction slows it by exp(-2 friction t).
  subroutine report()
    real(real64) :: error, factor, end
    integer :: i, j, rank
    factor = exp(-2 * friction * dt * steps)
    error = 0
    do j = js, je
      do i = is, ie
        error = max(error, abs(u(i, j) - factor * sin(latitude(j)) * cos(longitude(i))))
        error = max(error, abs(v(i, j) + factor * sin(longitude(i))))
      end do
    end do
    call MPI_Allreduce(MPI_IN_PLACE, error, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
    end = mean()
    call gr_comm_rank(comm, rank)
    if (rank == 0) print '(3(a, es12.6e2))', 'mean ', end, ', was ', begin, '; error of the wind ', error
  end subroutine
end program tracer
