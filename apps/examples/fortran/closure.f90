! SPDX-License-Identifier: BSD-3-Clause
! A model of a tracer whose source is unknown: a network in its time step learns the source from observations.
!
!   mpiexec -n 4 example_fortran_closure NET.pt2 TUNED.pt2 STEPS
!
! NET.pt2 is an exported network [1, 3, 24, 48] -> [1, 1, 24, 48], tracer and wind in, source of the tracer out, such as
! that of ../python/closure_net.py. The model learns for STEPS steps, saves the network, and forecasts with and without
! it.
program closure
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use graticule
  use graticule_nn
  implicit none
  integer, parameter :: nlat = 24, nlon = 48, forecast_steps = 20
  real(real64), parameter :: pi = acos(-1.0_real64), diffusivity = 0.002_real64, dt = 0.05_real64
  real(real64), parameter :: dphi = pi / nlat, dlambda = 2 * pi / nlon
  integer :: is, ie, js, je                                 ! the model's own bounds
  real(real64), allocatable, asynchronous :: q(:, :)        ! tracer, with a halo of one
  real(real64), allocatable, asynchronous :: u(:, :), v(:, :)  ! wind
  real(real64), allocatable, target :: observed(:, :), source(:, :), missing(:, :), rate(:, :)
  real(real64) :: weights(nlat), loss, first_loss, without, with
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  type(gr_net) :: net
  type(gr_optimizer) :: optimizer
  integer :: steps, step, rank
  character(1000) :: file, tuned, text

  if (command_argument_count() /= 3) then
    write (error_unit, '(a)') 'use: example_fortran_closure NET.pt2 TUNED.pt2 STEPS'
    stop 2, quiet=.true.
  end if
  call get_command_argument(1, file)
  call get_command_argument(2, tuned)
  call get_command_argument(3, text)
  read (text, *) steps
  call gr_init()  ! starts MPI, too
  call make_model()
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_layout_create_boxes(comm, [nlon, nlat], reshape([is, js], [2, 1]), reshape([ie, je], [2, 1]), layout)
  call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
  call gr_halo_create(comm, layout, kind, halo)

  call gr_net_load(comm, file, net=net)
  call gr_net_bind_input(net, layout=layout, fields=[gr_field(q, owned=[2, 2]), gr_field(u), gr_field(v)])
  call gr_net_bind_output(net, layout=layout, fields=gr_field(source))
  call gr_net_bind_target(net, layout=layout, fields=gr_field(missing), weights=weights)
  call gr_optimizer_create(net, GR_ADAM, 0.01_real64, optimizer=optimizer)

  do step = 1, steps
    if (mod(step - 1, forecast_steps) == 0) call set_initial_state()  ! the next event
    call learn_from_observation()
    if (step == 1) first_loss = loss
  end do
  call gr_net_save(net, tuned)
  without = error_of_forecast(.false.)
  with = error_of_forecast(.true.)
  call gr_comm_rank(comm, rank)
  if (rank == 0) print '(4(a, es10.4e2))', 'loss ', loss, ', was ', first_loss, '; error of the forecast ', with, &
    ', without the network ', without

  call gr_optimizer_destroy(optimizer)
  call gr_net_destroy(net)
  call gr_halo_destroy(halo)
  call gr_layout_destroy(layout)
  call gr_comm_destroy(comm)
  call gr_finalize()

contains

  pure real(real64) function latitude(j)
    integer, intent(in) :: j
    latitude = -pi / 2 + ((j - 1) + 0.5_real64) * dphi
  end function

  !> The model's own domain decomposition, and a wind that does not change.
  subroutine make_model()
    integer :: rank, ranks, dims(2), coords(2), i, j
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    dims = 0
    call MPI_Dims_create(ranks, 2, dims)
    coords = [rank / dims(2), mod(rank, dims(2))]
    js = nlat * coords(1) / dims(1) + 1
    je = nlat * (coords(1) + 1) / dims(1)
    is = nlon * coords(2) / dims(2) + 1
    ie = nlon * (coords(2) + 1) / dims(2)
    allocate (q(is - 1:ie + 1, js - 1:je + 1), u(is:ie, js:je), source=0.0_real64)
    v = u
    observed = u
    source = u
    missing = u
    rate = u
    do j = js, je
      do i = is, ie
        u(i, j) = cos(latitude(j)) * (1 + 0.3_real64 * sin(3 * (i - 1) * dlambda))
        v(i, j) = 0.5_real64 * sin(2 * latitude(j)) * cos(2 * (i - 1) * dlambda)
      end do
    end do
    call gr_area_weights([(180 / pi * latitude(j), j=1, nlat)], weights)
  end subroutine

  subroutine set_initial_state()
    integer :: i, j
    do j = js, je
      do i = is, ie
        q(i, j) = 0.5_real64 + 0.4_real64 * cos(latitude(j)) * sin((i - 1) * dlambda)
      end do
    end do
  end subroutine

  !> What the model does not know: the source of the tracer.
  elemental real(real64) function nature(tracer, east, north)
    real(real64), intent(in) :: tracer, east, north
    nature = 0.6_real64 * east * tanh(2 * tracer) - 0.8_real64 * tracer + 0.7_real64 * north
  end function

  !> Diffusion, which the model knows.
  subroutine diffuse()
    integer :: i, j
    real(real64) :: c
    do j = js, je
      c = cos(latitude(j))
      do i = is, ie
        rate(i, j) = diffusivity * ((q(i + 1, j) - 2 * q(i, j) + q(i - 1, j)) / max(c * dlambda, 0.1_real64)**2 &
          + (q(i, j + 1) - 2 * q(i, j) + q(i, j - 1)) / dphi**2)
      end do
    end do
  end subroutine

  !> The rate of change by what the model knows, and the source by the network.
  subroutine compute_rates()
    type(gr_pending) :: pending
    call gr_net_start(net)  ! the inputs travel to the rows of the network
    call gr_halo_start(halo, gr_field(q), pending)
    call gr_finish(pending)
    call diffuse()
    call gr_net_finish(net)
  end subroutine

  !> One step from an observed state to the next one: the difference is what the network should have given.
  subroutine learn_from_observation()
    call compute_rates()
    observed = q(is:ie, js:je) + dt * (rate + nature(q(is:ie, js:je), u, v))
    missing = (observed - q(is:ie, js:je)) / dt - rate
    call gr_net_learn(net, optimizer, loss)
    q(is:ie, js:je) = observed
  end subroutine

  !> Distance from nature after some steps without observations.
  real(real64) function error_of_forecast(with_network)
    logical, intent(in) :: with_network
    real(real64), allocatable :: truth(:, :)
    integer :: i, n
    call set_initial_state()
    do i = 1, forecast_steps  ! nature
      call compute_rates()
      q(is:ie, js:je) = q(is:ie, js:je) + dt * (rate + nature(q(is:ie, js:je), u, v))
    end do
    truth = q(is:ie, js:je)
    call set_initial_state()
    do n = 1, forecast_steps
      call compute_rates()
      if (.not. with_network) source = 0
      q(is:ie, js:je) = q(is:ie, js:je) + dt * (rate + source)
    end do
    error_of_forecast = sum((q(is:ie, js:je) - truth)**2)
    call MPI_Allreduce(MPI_IN_PLACE, error_of_forecast, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    error_of_forecast = sqrt(error_of_forecast / (nlon * nlat))
  end function
end program closure
