! SPDX-License-Identifier: BSD-3-Clause
!> Exported networks from Fortran: arrays with halos, levels first, sections; training on ranks as on one.
!>
!>   test_fortran_nn FOLDER [DATA]: FOLDER has what write_networks made, DATA exported networks with Python's outputs
program test_fortran_nn
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use graticule
  use graticule_nn
  use check
  implicit none
  integer, parameter :: nlon = 48, nlat = 24, nlev = 3
  type(gr_comm) :: comm, self
  type(gr_layout) :: layout, one
  character(1000) :: folder, data
  real(c_double) :: x(nlon, nlat, nlev), y(nlon, nlat), truth(nlon, nlat), weights(nlat)
  integer :: is, ie, js, je, stat

  call begin()
  call get_command_argument(1, folder)
  call get_command_argument(2, data)
  call gr_init()
  call make_fields()
  call describes()
  call refuses()
  call runs_on_any_array()
  call takes_whole_values()
  call learns()
  call saves()
  if (.not. golden('unet_probe', 3, 2, 24, 48) .or. .not. golden('makani_sfno', 4, 4, 33, 64)) then
    if (world_rank == 0) print '(a)', 'skipped: the exported networks are missing (GRATICULE_TEST_DATA/programs)'
  end if
  call gr_layout_destroy(layout)
  call gr_layout_destroy(one)
  call gr_comm_destroy(self)
  call gr_comm_destroy(comm)
  call gr_finalize()
  call finish()

contains

  !> Fields, this rank's box of blocks in longitude and latitude, and what one rank computes.
  subroutine make_fields()
    integer :: dims(2), lo(2), hi(2), i, j, k
    call gr_comm_create(MPI_COMM_WORLD, comm)
    call gr_comm_create(MPI_COMM_SELF, self)
    dims = 0
    call MPI_Dims_create(world_size, 2, dims)
    call gr_layout_create([nlon, nlat], dims, layout)
    call gr_layout_create([nlon, nlat], [1, 1], one)
    call gr_layout_owned(layout, world_rank, lo, hi)
    is = lo(1)
    js = lo(2)
    ie = hi(1)
    je = hi(2)
    do k = 1, nlev
      do j = 1, nlat
        do i = 1, nlon
          x(i, j, k) = sin(0.37d0 * (i + 7 * j + 31 * k)) + 0.1d0 * cos(0.011d0 * i * j)
        end do
      end do
    end do
    truth = 0.5d0 * x(:, :, 1) * cshift(x(:, :, 2), 1, 1)
    call gr_area_weights([(-90 + (j - 0.5d0) * 180 / nlat, j=1, nlat)], weights)
    call alone('closure.pt2', y)
  end subroutine

  !> What one rank computes, in f64.
  subroutine alone(name, result)
    character(*), intent(in) :: name
    real(c_double), intent(out), target :: result(:, :)
    type(gr_net) :: net
    type(gr_net_options) :: options
    options%has_type = 1
    options%type = GR_F64
    call gr_net_load(self, trim(folder) // '/' // name, options, net)
    call gr_net_bind_input(net, 'x', one, gr_field(x))
    call gr_net_bind_output(net, 'y', one, gr_field(result))
    call gr_net_run(net)
    call gr_net_destroy(net)
  end subroutine

  subroutine load(net)
    type(gr_net), intent(inout) :: net
    type(gr_net_options) :: options
    options%has_type = 1
    options%type = GR_F64
    options%num_threads = 1
    call gr_net_load(comm, trim(folder) // '/closure.pt2', options, net)
  end subroutine

  subroutine describes()
    type(gr_net) :: net, copy
    character(:), allocatable :: text
    integer :: count
    call gr_net_load(comm, trim(folder) // '/several.pt2', net=net)
    call gr_net_num_inputs(net, count)
    call that(count == 2, 'inputs')
    call gr_net_num_outputs(net, count)
    call that(count == 2, 'outputs')
    call gr_net_input_name(net, 2, text)
    call that(text == 'factors', 'name of an input')
    call gr_net_output_name(net, 1, text)
    call that(text == 'scaled', 'name of an output')
    call gr_net_text(net, text)
    call that(index(text, "input 'x': f32 [1, 2, 6, 8], rows are divided, not bound") > 0, 'text')
    call gr_net_input_name(net, 3, text, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'of 2')
    copy = net
    call gr_net_destroy(net)
    call that(.not. c_associated(net%handle), 'a destroyed handle')
    call gr_net_num_outputs(copy, count, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'net is a copy of a handle that was freed')
    call gr_net_destroy(copy, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'net is a copy of a handle that was freed')
  end subroutine

  subroutine refuses()
    type(gr_net) :: net
    type(gr_optimizer) :: optimizer
    real(c_double), target :: u(is:ie, js:je, nlev)
    call gr_net_load(comm, trim(folder) // '/refused.pt2', net=net, stat=stat)
    call fails(stat, GR_ERROR_INPUT, 'aten.nonzero.default in head')
    call gr_net_load(comm, trim(folder) // '/missing.pt2', net=net, stat=stat)
    call fails(stat, GR_ERROR_INPUT, 'missing.pt2')
    call gr_net_run(net, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'net holds no gr_net')
    call load(net)
    call gr_net_bind_input(net, 'z', layout, gr_field(u), stat)
    call fails(stat, GR_ERROR_ARGUMENT, "name is 'z'")
    call gr_net_bind_input(net, 'x', layout, gr_field(u(:, :, :2)), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'fields have 2 values per cell')
    call gr_net_bind_input(net, 'x', fields=gr_field(u), stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'layout is NULL')
    call gr_net_bind_target(net, 'y', layout, gr_field(u(:, :, 1)), weights=weights(:3), stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, "bind input 'x' first")
    call gr_net_run(net, stat)
    call fails(stat, GR_ERROR_PROGRAM, "input 'x' is not bound")
    call gr_optimizer_create(net, GR_ADAM, -1d0, optimizer=optimizer, stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'rate is -1')
    call gr_net_destroy(net)
  end subroutine

  !> Every kind of array gives the values of one rank: halos, levels first, every second cell, rows from the north.
  subroutine runs_on_any_array()
    type(gr_net) :: net
    real(c_double), asynchronous :: with_halo(is - 2:ie + 2, js - 2:je + 2, nlev), out(is - 1:ie + 1, js - 1:je + 1)
    real(c_double), target :: levels_first(nlev, is:ie, js:je), sparse(2 * (ie - is + 1), js:je, nlev)
    real(c_double), target :: swapped(js:je, is:ie, nlev), swapped_out(js:je, is:ie)
    real(c_float), target :: upside_down(is:ie, js:je, nlev), upside_down_out(is:ie, js:je)
    real(c_double), target :: u(is:ie, js:je), v(is:ie, js:je, 2)
    integer :: k
    call load(net)
    with_halo = -777
    out = -777
    with_halo(is:ie, js:je, :) = x(is:ie, js:je, :)
    call gr_net_bind_input(net, 'x', layout, gr_field(with_halo, owned=[3, 3, 1]))
    call gr_net_bind_output(net, 'y', layout, gr_field(out, owned=[2, 2]))
    call gr_net_start(net)
    call gr_net_run(net, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'call gr_net_finish first')
    call gr_net_finish(net)
    call that(all(abs(out(is:ie, js:je) - y(is:ie, js:je)) < 1d-13), 'arrays with halos')
    call that(all(out(is - 1, :) == -777) .and. all(out(:, je + 1) == -777) .and. all(out(ie + 1, :) == -777), 'halos')

    do k = 1, nlev
      levels_first(k, :, :) = x(is:ie, js:je, k)
    end do
    out = -777
    call gr_net_bind_input(net, layout=layout, fields=gr_field(levels_first, axes=[2, 3]))
    call gr_net_run(net)
    call that(all(abs(out(is:ie, js:je) - y(is:ie, js:je)) < 1d-13), 'levels first')

    sparse(::2, :, :) = x(is:ie, js:je, :)
    out = -777
    call gr_net_bind_input(net, 'x', layout, gr_field(sparse(::2, :, :)))
    call gr_net_run(net)
    call that(all(abs(out(is:ie, js:je) - y(is:ie, js:je)) < 1d-13), 'every second cell')

    do k = 1, nlev
      swapped(:, :, k) = transpose(x(is:ie, js:je, k))
    end do
    call gr_net_bind_input(net, 'x', layout, gr_field(swapped, axes=[2, 1]))
    call gr_net_bind_output(net, 'y', layout, gr_field(swapped_out, axes=[2, 1]))
    call gr_net_run(net)
    call that(all(abs(transpose(swapped_out) - y(is:ie, js:je)) < 1d-13), 'latitude first')

    upside_down = real(x(is:ie, je:js:-1, :), c_float)
    call gr_net_bind_input(net, 'x', layout, gr_field(upside_down(:, je:js:-1, :)))
    call gr_net_bind_output(net, 'y', layout, gr_field(upside_down_out(:, je:js:-1)))
    call gr_net_run(net)
    call that(all(abs(upside_down_out(:, je:js:-1) - y(is:ie, js:je)) < 1d-6), 'rows from the north, in f32')

    u = x(is:ie, js:je, 1)
    v = x(is:ie, js:je, 2:3)
    call gr_net_bind_input(net, 'x', layout, [gr_field(u), gr_field(v)])
    call gr_net_bind_output(net, 'y', layout, [gr_field(out, owned=[2, 2])])
    call gr_net_run(net)
    call that(all(abs(out(is:ie, js:je) - y(is:ie, js:je)) < 1d-13), 'two arrays')
    call gr_net_destroy(net)
  end subroutine

  subroutine takes_whole_values()
    type(gr_net) :: net
    type(gr_layout) :: small
    real(c_double), allocatable, target :: field(:, :, :), scaled(:, :, :)
    real(c_double), target :: factors(2), mean(2)
    integer :: lo(2), hi(2), i, j
    call gr_layout_create([8, 6], [1, world_size], small)
    call gr_layout_owned(small, world_rank, lo, hi)
    allocate (field(lo(1):hi(1), lo(2):hi(2), 2), scaled(lo(1):hi(1), lo(2):hi(2), 2))
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        field(i, j, 1) = i + 10 * j
        field(i, j, 2) = -i
      end do
    end do
    factors = [2, 4]
    call gr_net_load(comm, trim(folder) // '/several.pt2', net=net)
    call gr_net_bind_input(net, layout=small, fields=gr_field(field))
    call gr_net_bind_input(net, 'factors', fields=gr_field(factors))
    call gr_net_bind_output(net, layout=small, fields=gr_field(scaled))
    call gr_net_bind_output(net, fields=gr_field(mean))
    call gr_net_run(net)
    call that(all(scaled(:, :, 1) == 2 * field(:, :, 1) + 1) .and. all(scaled(:, :, 2) == 4 * field(:, :, 2) - 2), 'scaled')
    call that(all(abs(mean - [80d0, -20d0]) < 1d-5), 'mean')
    call gr_net_destroy(net)
    call gr_layout_destroy(small)
  end subroutine

  !> Eight steps of training. @return losses before each step and at the end
  subroutine train(on, of, lo, hi, kind, losses, save_as)
    type(gr_comm), intent(in) :: on
    type(gr_layout), intent(in) :: of
    integer, intent(in) :: lo(2), hi(2)
    integer(c_int), intent(in) :: kind
    real(c_double), intent(out) :: losses(9)
    character(*), intent(in), optional :: save_as
    type(gr_net) :: net
    type(gr_net_options) :: options
    type(gr_optimizer) :: optimizer
    real(c_double), target :: input(lo(1):hi(1), lo(2):hi(2), nlev), target(lo(1):hi(1), lo(2):hi(2))
    integer :: step
    input = x(lo(1):hi(1), lo(2):hi(2), :)
    target = truth(lo(1):hi(1), lo(2):hi(2))
    options%has_type = 1
    options%type = GR_F64
    call gr_net_load(on, trim(folder) // '/closure.pt2', options, net)
    call gr_net_bind_input(net, 'x', of, gr_field(input))
    if (kind == GR_ADAMW) then
      call gr_net_bind_target(net, 'y', of, gr_field(target))
    else
      call gr_net_bind_target(net, 'y', of, gr_field(target), weights=weights)
    end if
    call gr_optimizer_create(net, kind, 1d0, optimizer=optimizer)
    call gr_optimizer_set_rate(optimizer, 0.02d0)
    do step = 1, 8
      call gr_net_learn(net, optimizer, losses(step))
    end do
    call gr_net_learn(net, loss=losses(9))
    if (present(save_as)) call gr_net_save(net, save_as)
    call gr_optimizer_destroy(optimizer)
    call gr_net_destroy(net)
  end subroutine

  subroutine learns()
    real(c_double) :: many(9), alone(9)
    integer(c_int) :: kind
    do kind = GR_SGD, GR_ADAMW
      call train(comm, layout, [is, js], [ie, je], kind, many)
      call train(self, one, [1, 1], [nlon, nlat], kind, alone)
      call that(alone(9) < 0.97d0 * alone(1), 'the loss falls')
      call that(all(abs(many - alone) <= 1d-10 * alone), 'training as on one rank')
    end do
  end subroutine

  subroutine saves()
    real(c_double) :: losses(9)
    real(c_double), target :: tuned(nlon, nlat)
    character(1100) :: path
    character(20) :: name
    integer :: unit
    write (name, '(a, i0, a)') 'tuned-f-', world_size, '.pt2'
    path = trim(folder) // '/' // name
    call train(comm, layout, [is, js], [ie, je], GR_ADAMW, losses, path)
    call alone(trim(name), tuned)
    call that(abs(sum((tuned - truth)**2) / size(truth) - losses(9)) < 1d-6, 'a saved network')
    call that(maxval(abs(tuned - y)) > 1d-3, 'a network that has learned')
    call MPI_Barrier(MPI_COMM_WORLD)
    if (world_rank /= 0) return
    open (newunit=unit, file=path)
    close (unit, status='delete')
  end subroutine

  !> Whether the network is there; its outputs are those of Python, in f32 and f64.
  logical function golden(network, inputs, outputs, rows, columns)
    character(*), intent(in) :: network
    integer, intent(in) :: inputs, outputs, rows, columns
    real(c_float), allocatable :: input(:, :, :), output(:, :, :)
    real(c_double), allocatable, target :: u(:, :, :), v(:, :, :)
    type(gr_net) :: net
    type(gr_net_options) :: options
    type(gr_layout) :: cut
    integer :: unit, dims(2), lo(2), hi(2), kind
    allocate (input(columns, rows, inputs), output(columns, rows, outputs))
    inquire (file=trim(data) // '/programs/' // network // '/program.pt2', exist=golden)
    if (.not. golden) return
    open (newunit=unit, file=trim(data) // '/programs/' // network // '/input_0.bin', access='stream', action='read')
    read (unit) input
    close (unit)
    open (newunit=unit, file=trim(data) // '/programs/' // network // '/output_0.bin', access='stream', action='read')
    read (unit) output
    close (unit)
    dims = 0
    call MPI_Dims_create(world_size, 2, dims)
    call gr_layout_create([columns, rows], dims, cut)
    call gr_layout_owned(cut, world_rank, lo, hi)
    allocate (u(lo(1):hi(1), lo(2):hi(2), inputs), source=real(input(lo(1):hi(1), lo(2):hi(2), :), c_double))
    allocate (v(lo(1):hi(1), lo(2):hi(2), outputs))
    do kind = 0, 1
      options%has_type = kind
      options%type = GR_F64
      call gr_net_load(comm, trim(data) // '/programs/' // network // '/program.pt2', options, net)
      call gr_net_bind_input(net, layout=cut, fields=gr_field(u))
      call gr_net_bind_output(net, layout=cut, fields=gr_field(v))
      call gr_net_run(net)
      call that(all(abs(v - output(lo(1):hi(1), lo(2):hi(2), :)) < 1d-5 * maxval(abs(output))), network)
      call gr_net_destroy(net)
    end do
    call gr_layout_destroy(cut)
  end function
end program test_fortran_nn
