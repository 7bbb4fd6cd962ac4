! SPDX-License-Identifier: BSD-3-Clause
!> The Fortran module: library, layouts, fields of all kinds and sections, halos, repartitions, sums.
program test_fortran_engine
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use graticule
  use check
  implicit none
  integer, parameter :: nlon = 8, nlat = 12
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  integer :: stat

  call begin()
  call starts()
  call cuts_axes()
  call makes_layouts()
  call exchanges_halos()
  call uses_sections()
  call uses_all_kinds()
  call exchanges_all_faces()
  call splits_boxes()
  call counts_layers()
  call shares_memory()
  call divides_ranks()
  call returns_boxes()
  call has_adjoints()
  call moves_fields()
  call adds()
  call reports()
  call gr_layout_destroy(layout)
  call gives_up()
  call gr_comm_destroy(comm)
  call gr_finalize()
  call finish()

contains

  real(c_double) function cell(i, j)
    integer, intent(in) :: i, j
    cell = 100 * j + i
  end function

  !> What a ghost cell of a sphere with a pole on the outer face gets.
  real(c_double) function image(i, j, sign)
    integer, intent(in) :: i, j, sign
    integer :: column, row
    row = j
    column = i
    image = 1
    if (j < 1 .or. j > nlat) then
      row = merge(1 - j, 2 * nlat + 1 - j, j < 1)
      column = i + nlon / 2
      image = sign
    end if
    image = image * cell(modulo(column - 1, nlon) + 1, row)
  end function

  subroutine starts()
    type(gr_comm) :: integer_comm
    integer :: major, minor, patch, rank, size, node_size, node_rank
    logical :: initialized
    call gr_version(major, minor, patch)
    call that(major == GR_VERSION_MAJOR .and. minor == GR_VERSION_MINOR .and. patch == GR_VERSION_PATCH, 'version')
    call gr_is_initialized(initialized)
    call that(.not. initialized, 'not initialized')
    call gr_comm_create(MPI_COMM_WORLD, comm, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'gr_init was not called')
    call gr_init(check_mode='some', stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, "check_mode is 'some'")
    call gr_init()
    call gr_init(num_threads=1)
    call gr_finalize()
    call gr_is_initialized(initialized)
    call that(initialized, 'initialized')
    call gr_set_patience(200d0, 0d0)
    call gr_set_patience(-1d0, 0d0, stat)
    call fails(stat, GR_ERROR_USAGE, '-1')
    call gr_comm_create(MPI_COMM_WORLD, comm)
    call gr_comm_rank(comm, rank)
    call gr_comm_size(comm, size)
    call gr_comm_node(comm, node_size, node_rank)
    call that(rank == world_rank .and. size == world_size .and. node_size == size .and. node_rank == rank, 'ranks')
    call gr_comm_create(MPI_COMM_SELF%MPI_VAL, integer_comm)
    call gr_comm_size(integer_comm, size)
    call that(size == 1, 'a communicator of mpi')
    call gr_comm_destroy(integer_comm)
    call that(.not. c_associated(integer_comm%handle), 'a destroyed handle')
    call gr_comm_rank(integer_comm, rank, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'comm holds no gr_comm')
  end subroutine

  !> Steps with a halo of 3 cells and one exchange give what exchanges before each step give.
  subroutine counts_layers()
    type(gr_halo) :: deep, shallow
    type(gr_halo_depth) :: depth
    type(gr_halo_kind) :: kind
    real(c_double), allocatable :: u(:, :), v(:, :)
    integer :: lo(2), hi(2), glo(2), ghi(2), below(2), above(2), cells(2, 2), n, i, j, num_exchanges
    logical :: suffices, lower(2), upper(2)
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 3, kind)
    call gr_halo_create(comm, layout, kind, deep)
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
    call gr_halo_create(comm, layout, kind, shallow)
    call gr_halo_owned(deep, lo, hi)
    call gr_halo_local(deep, 1, glo, ghi)
    allocate (u(glo(1):ghi(1), glo(2):ghi(2)), v(lo(1) - 1:hi(1) + 1, lo(2) - 1:hi(2) + 1), source=0d0)
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        u(i, j) = cell(i, j)
        v(i, j) = cell(i, j)
      end do
    end do
    call gr_halo_depth_create(deep, 'tracer', depth=depth)
    call gr_halo_depth_commutes(depth, lower, upper)
    call that(all(lower) .and. all(upper), 'rules that commute with mirrors')
    num_exchanges = 0
    do n = 1, 4
      call gr_halo_depth_suffices(depth, [1, 1], [1, 1], suffices)
      if (.not. suffices) then
        call gr_halo_exchange(deep, gr_field(u))
        call gr_halo_depth_exchanged(depth)
        num_exchanges = num_exchanges + 1
      end if
      call gr_halo_depth_apply(depth, depth, [1, 1], [1, 1], GR_MIRRORS_DIFFER, cells(:, 1), cells(:, 2))
      call that(cells(1, 1) == lo(1) - 2 + mod(n - 1, 3), 'cells to compute')
      u(cells(1, 1):cells(1, 2), cells(2, 1):cells(2, 2)) = stepped(u, glo, cells)
      call gr_halo_depth_refill(depth, gr_field(u))
      call gr_halo_exchange(shallow, gr_field(v))
      v(lo(1):hi(1), lo(2):hi(2)) = stepped(v, lo - 1, reshape([lo, hi], [2, 2]))
      call that(all(u(lo(1):hi(1), lo(2):hi(2)) == v(lo(1):hi(1), lo(2):hi(2))), 'steps without exchanges')
    end do
    call that(num_exchanges == 2, 'the number of exchanges')
    call gr_halo_depth_inside(depth, below, above)
    call that(all(below == 2) .and. all(above == 2), 'layers inside')
    call gr_halo_depth_beyond(depth, below, above)
    call that(below(2) == 2 .and. above(2) == 2, 'layers beyond')
    call gr_halo_depth_valid(depth, below, above)
    call that(all(below == lo - 2) .and. all(above == hi + 2), 'valid cells')
    call gr_halo_depth_apply(depth, depth, [3, 1], [1, 1], GR_MIRRORS_DIFFER, below, above, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'field tracer has 2 valid ghost layers on the lower side of dimension 1')
    call gr_halo_depth_refill(depth, gr_field(u, parity=GR_ODD), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'field%parity is 1')
    call gr_halo_depth_written(depth)
    call gr_halo_depth_suffices(depth, [1, 0], [0, 0], suffices)
    call that(.not. suffices, 'written cells')
    call gr_halo_depth_destroy(depth)
    call gr_halo_destroy(deep)
    call gr_halo_destroy(shallow)
  end subroutine

  !> T at the centres of the rows, V on all their faces, from pole to pole: one row more, in the same call.
  subroutine exchanges_all_faces()
    type(gr_halo_kind) :: kinds(2)
    type(gr_halo) :: halo
    type(gr_layout) :: faces
    real(c_double), allocatable :: t(:, :), v(:, :)
    character(:), allocatable :: name
    integer :: lo(2), hi(2), vlo(2), vhi(2), i, j, row
    logical :: right
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kinds(1))
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kinds(2))
    kinds(2)%stagger(2) = GR_ALL_FACES
    call gr_halo_create(comm, layout, kinds, halo)
    call gr_halo_owned(halo, lo, hi)
    call gr_halo_layout(halo, 2, faces)
    call gr_layout_owned(faces, world_rank, vlo, vhi)
    call that(all(vlo == lo) .and. all(vhi == hi + [0, merge(1, 0, hi(2) == nlat)]), 'owned rows of V')
    allocate (t(lo(1) - 1:hi(1) + 1, lo(2) - 1:hi(2) + 1), v(lo(1) - 1:hi(1) + 1, lo(2) - 1:vhi(2) + 1))
    t = -1
    v = -1
    do j = lo(2), vhi(2)
      do i = lo(1), hi(1)
        if (j <= hi(2)) t(i, j) = cell(i, j)
        v(i, j) = cell(i, j)
      end do
    end do
    call gr_halo_exchange(halo, t, v, parity=[GR_EVEN, GR_ODD], kind=[1, 2])
    right = .true.
    do j = lbound(t, 2), ubound(t, 2)
      do i = lbound(t, 1), ubound(t, 1)
        right = right .and. t(i, j) == image(i, j, 1)
      end do
    end do
    call that(right, 'T beside V')
    right = .true.
    do j = lbound(v, 2), ubound(v, 2)
      row = j
      if (j < 1) row = 2 - j
      if (j > nlat + 1) row = 2 * (nlat + 1) - j
      do i = lbound(v, 1), ubound(v, 1)
        if (row == j) right = right .and. v(i, j) == cell(modulo(i - 1, nlon) + 1, row)
        if (row /= j) right = right .and. v(i, j) == -cell(modulo(i - 1 + nlon / 2, nlon) + 1, row)
      end do
    end do
    call that(right, 'V on all faces')
    call gr_halo_exchange(halo, t, v(:, lbound(v, 2) + 1:), kind=[1, 2], stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'field2: source of f64')
    call gr_long_copies(name)
    call that(len(name) < 32, 'how long runs are copied')
    call gr_layout_destroy(faces)
    call gr_halo_destroy(halo)
  end subroutine

  function stepped(u, first, cells) result(v)
    integer, intent(in) :: first(2), cells(2, 2)
    real(c_double), intent(in) :: u(first(1):, first(2):)
    real(c_double) :: v(cells(1, 1):cells(1, 2), cells(2, 1):cells(2, 2))
    integer :: i, j
    do j = cells(2, 1), cells(2, 2)
      do i = cells(1, 1), cells(1, 2)
        v(i, j) = mod(u(i - 1, j) + 2 * u(i + 1, j) + 3 * u(i, j - 1) + 5 * u(i, j + 1), 1009d0)
      end do
    end do
  end function

  !> A field in memory that the other ranks read.
  subroutine shares_memory()
    type(gr_node_memory) :: memory
    type(gr_halo) :: halo
    type(gr_halo_kind) :: kind
    type(gr_stats) :: stats
    type(c_ptr) :: address
    real(c_double), pointer :: u(:, :)
    integer(c_int64_t) :: num_bytes
    integer :: lo(2), hi(2), glo(2), ghi(2), i, j
    logical :: shared
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
    call gr_halo_create(comm, layout, kind, halo)
    call gr_halo_set_transport(halo, GR_TRANSPORT_NODE_SHARED)
    call gr_halo_owned(halo, lo, hi)
    call gr_halo_local(halo, 1, glo, ghi)
    call gr_node_memory_create(8_c_int64_t * product(ghi - glo + 1), memory)
    call gr_node_memory_address(memory, address)
    call gr_node_memory_size(memory, num_bytes)
    call gr_node_memory_is_shared(memory, shared)
    call that(num_bytes == 8 * product(ghi - glo + 1), 'the number of bytes')
    call c_f_pointer(address, u, ghi - glo + 1)
    u(glo(1):, glo(2):) => u
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        u(i, j) = cell(i, j)
      end do
    end do
    call gr_halo_exchange(halo, gr_field(u))
    call that(all([((u(i, j) == image(i, j, 1), i=glo(1), ghi(1)), j=glo(2), ghi(2))]), 'a halo in node memory')
    call gr_halo_stats(halo, stats)
    call that(stats%node_in_place_messages > 0 .or. world_size == 1 .or. .not. shared, 'read in place')
    call gr_halo_destroy(halo)
    call gr_node_memory_destroy(memory)
    call gr_node_memory_create(-8_c_int64_t, memory, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'num_bytes is -8')
  end subroutine

  subroutine divides_ranks()
    type(gr_teams) :: teams
    type(gr_comm) :: all, domain, data, missing
    type(MPI_Comm) :: of_library, own
    integer :: pair, size, rank, in_domain, in_data, number, nodes(world_size)
    integer(c_int) :: mpi_size
    pair = merge(2, 1, mod(world_size, 2) == 0)
    call gr_teams_create(comm, ['data  ', 'domain'], [0, pair], teams)
    call gr_teams_world(teams, all)
    call gr_teams_team(teams, 'domain', domain)
    call gr_teams_team(teams, 'data', data)
    call gr_teams_team(teams, 'ensemble', missing, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'ensemble')
    call gr_teams_destroy(teams)
    call gr_comm_rank(all, rank)
    call gr_comm_size(domain, size)
    call gr_comm_rank(domain, in_domain)
    call gr_comm_rank(data, in_data)
    call that(size == pair .and. in_domain == mod(rank, pair) .and. in_data == rank / pair, 'the last axis is fastest')
    call gr_comm_mpi(domain, of_library)
    call gr_comm_mpi(domain, number)
    call that(number == of_library%MPI_VAL, 'communicators of mpi and mpi_f08')
    call MPI_Comm_dup(of_library, own)
    call MPI_Comm_size(own, mpi_size)
    call that(mpi_size == pair, 'a communicator of MPI')
    call MPI_Comm_free(own)
    call gr_comm_destroy(domain)
    call gr_comm_destroy(data)
    call gr_comm_destroy(all)
    call gr_teams_create(comm, ['data'], [world_size + 1], teams, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'BadProcessGrid')
    call gr_teams_create(comm, ['data'], [1, 2], teams, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'sizes has 2 elements, 1 are needed')
    nodes = -1
    call gr_comm_nodes(comm, nodes)
    call that(all_zero(nodes), 'one node')
  end subroutine

  logical function all_zero(values)
    integer, intent(in) :: values(:)
    all_zero = .not. any(values /= 0)
  end function

  !> Boxes return to the ranks that hold their cells.
  subroutine returns_boxes()
    type(gr_layout) :: rows, shifted, back, columns
    type(gr_cuts) :: cuts(2)
    type(gr_relabel_options) :: options
    type(gr_relabelling) :: saving
    integer :: r, lo(2), hi(2)
    call gr_cuts_create([4], cuts(1))
    call gr_cuts_create([3, 3, 3], cuts(2))
    call gr_layout_create_cuts(cuts, layout=rows)
    call gr_layout_create_cuts(cuts, [1, 2, 0], shifted)
    call gr_layout_relabel(rows, shifted, layout=back, saving=saving)
    call that(saving%moved_cells_before == 36 .and. saving%moved_cells == 0, 'no cell is moved')
    do r = 0, 2
      call gr_layout_owned(back, r, lo, hi)
      call that(all(lo == [1, 3 * r + 1]) .and. all(hi == [4, 3 * r + 3]), 'the box of before')
    end do
    call gr_layout_destroy(back)
    ! The transposed grid on ranks 0 and 2, a node for each rank: each of 2 boxes of 18 cells has 6 at home.
    call gr_layout_create([9, 4], [1, 2], columns)
    options%ndim = 2
    options%has_permutation = 1
    options%permutation(:2) = [2, 1]
    call gr_layout_relabel(rows, columns, options, [0, 1, 2], [0, 2], back, saving)
    call that(saving%moved_cells == 24 .and. saving%off_node_cells == 24, 'cells that leave their nodes')
    call gr_layout_owned(back, 1, lo, hi)
    call that(any(hi < lo), 'a rank that may own nothing')
    call gr_layout_destroy(back)
    call gr_layout_relabel(rows, columns, layout=back, stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'LayoutMismatch')
    call gr_layout_destroy(rows)
    call gr_layout_destroy(shifted)
    call gr_layout_destroy(columns)
    call gr_cuts_destroy(cuts(1))
    call gr_cuts_destroy(cuts(2))
    call bounds_cost()
  end subroutine

  !> Rows to columns whose sizes are 1, 2, ..., n in two orders: the largest shares are those of equal sizes.
  subroutine bounds_cost()
    integer, parameter :: n = 1100, cells = n * (n + 1) / 2
    type(gr_layout) :: rows, columns, back
    type(gr_cuts) :: cuts(4)
    type(gr_relabelling) :: saving
    integer(c_int64_t) :: least
    integer :: i
    call gr_cuts_create([(1 + modulo(37 * i, n), i=1, n)], cuts(1))
    call gr_cuts_create([cells], cuts(2))
    call gr_cuts_create([cells], cuts(3))
    call gr_cuts_create([(1 + modulo(211 * i, n), i=1, n)], cuts(4))
    call gr_layout_create_cuts(cuts(:2), layout=columns)
    call gr_layout_create_cuts(cuts(3:), layout=rows)
    call gr_layout_relabel(rows, columns, layout=back, saving=saving)
    least = int(cells, c_int64_t)**2 - sum([(int(i, c_int64_t)**2, i=1, n)])
    call that(saving%moved_cells >= least .and. saving%moved_cells - saving%cost_above_least <= least, 'the bound of the cost')
    call that(saving%cost_above_least > 0, 'a cost that is not the least')
    call gr_layout_destroy(rows)
    call gr_layout_destroy(columns)
    call gr_layout_destroy(back)
    do i = 1, 4
      call gr_cuts_destroy(cuts(i))
    end do
  end subroutine

  subroutine cuts_axes()
    type(gr_cuts) :: cuts, other
    integer :: parts, sizes(3)
    real(c_double) :: weights(3)
    call gr_cuts_create([4, 0, 6], cuts)
    call gr_cuts_num_parts(cuts, parts)
    call gr_cuts_sizes(cuts, sizes)
    call that(parts == 3 .and. all(sizes == [4, 0, 6]), 'cuts in the order of the axis')
    call gr_cuts_sizes(cuts, sizes(:2), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'size(sizes) is 2, the cuts have 3 parts')
    call gr_cuts_destroy(cuts)
    call gr_cuts_create_balanced(10, 3, cuts)
    call gr_cuts_create_rebalanced(cuts, [4d0, 1d0, 1d0], cuts=other)
    call gr_cuts_sizes(other, sizes)
    call that(sum(sizes) == 10 .and. sizes(1) < 4, 'rebalanced')
    call gr_cuts_destroy(other)
    call gr_cuts_destroy(cuts)
    call gr_cuts_create_weighted([3d0, 1d0, 1d0, 1d0], 2, cuts=cuts)
    call gr_cuts_sizes(cuts, sizes(:2))
    call that(all(sizes(:2) == [1, 3]), 'weighted')
    call gr_cuts_destroy(cuts)
    call gr_cuts_create_weighted([-3d0], 2, cuts=cuts, stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, '-3')
    call gr_area_weights([-90d0, 0d0, 90d0], weights)
    call that(abs(sum(weights) - 1) < 1d-15 .and. weights(2) > weights(1), 'area weights')
    call gr_area_weights([-90d0, 0d0], weights, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'gr_area_weights: BadArgument: weights has 3 elements, 2 are needed')
  end subroutine

  subroutine makes_layouts()
    type(gr_layout) :: other
    type(gr_cuts) :: cuts(2)
    type(gr_comm) :: self
    type(gr_halo_kind) :: kind
    integer :: ndim, extents(2), lo(2), hi(2), r, cells
    character(:), allocatable :: text
    call gr_layout_create([nlon, nlat], [1, world_size], layout)
    call gr_layout_ndim(layout, ndim)
    call gr_layout_extents(layout, extents)
    call that(ndim == 2 .and. all(extents == [nlon, nlat]), 'extents in the order of Fortran')
    call gr_layout_owned(layout, 0, lo, hi)
    call that(all(lo == 1) .and. hi(1) == nlon .and. hi(2) == (nlat + world_size - 1) / world_size, 'inclusive bounds')
    call gr_layout_text(layout, text)
    call that(index(text, 'ranks of') > 0, text)
    call gr_layout_owned(layout, 0, lo(:1), hi, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'upper has 2 elements, 1 are needed')

    call gr_cuts_create([3, 5], cuts(1))
    call gr_cuts_create_balanced(6, 1, cuts(2))
    call gr_layout_create_cuts(cuts, [1, 0], other)
    call gr_layout_owned(other, 0, lo, hi)
    call that(all(lo == [4, 1]) .and. all(hi == [8, 6]), 'cuts of each axis')
    call gr_layout_destroy(other)
    call gr_layout_create_cuts(cuts, layout=other)
    call gr_layout_owned(other, 0, lo, hi)
    call that(all(lo == [1, 1]) .and. all(hi == [3, 6]), 'ranks in order')
    call gr_layout_destroy(other)
    call gr_cuts_destroy(cuts(1))
    call gr_cuts_destroy(cuts(2))

    ! The bounds that a model has: rank r owns rows of the opposite end.
    lo = [1, 2 * (world_size - 1 - world_rank) + 1]
    hi = [6, 2 * (world_size - world_rank)]
    call gr_layout_create_boxes(comm, [6, 2 * world_size], reshape(lo, [2, 1]), reshape(hi, [2, 1]), other)
    do r = 0, world_size - 1
      call gr_layout_owned(other, r, lo, hi)
      call that(all(lo == [1, 2 * (world_size - 1 - r) + 1]) .and. all(hi == [6, lo(2) + 1]), 'the bounds of a model')
    end do
    call gr_layout_destroy(other)
    call gr_layout_create_boxes(comm, [6, 4], reshape([1, 1, 1, 1], [2, 2]), reshape([6, 4, 6, 4], [2, 2]), other, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'size(lower, 2) is 2')

    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
    call gr_layout_create_best(comm, [64, 32], kind, 8, 10, other)
    cells = 0
    do r = 0, world_size - 1
      call gr_layout_owned(other, r, lo, hi)
      cells = cells + product(hi - lo + 1)
    end do
    call that(cells == 64 * 32, 'the best layout')
    call gr_layout_destroy(other)

    call gr_comm_create(MPI_COMM_SELF, self)
    block
      type(gr_layout) :: mine, shared
      call gr_layout_create([5], [1], mine)
      if (world_rank == 0) then
        call gr_layout_create_shared(comm, mine, self, shared)
      else
        call gr_layout_create_shared(comm, layout=shared)
      end if
      call gr_layout_owned(shared, 0, lo(:1), hi(:1))
      call that(hi(1) == 5, 'a shared layout')
      call gr_layout_destroy(shared)
      call gr_layout_destroy(mine)
    end block
    call gr_comm_destroy(self)
  end subroutine

  !> A scalar and a vector component in one message, on the model's own bounds.
  subroutine exchanges_halos()
    type(gr_halo) :: halo
    type(gr_halo_kind) :: kind
    type(gr_pending) :: pending
    type(gr_field) :: fields(2)
    real(c_double), allocatable, asynchronous :: q(:, :), u(:, :)
    logical :: complete
    integer :: lo(2), hi(2), glo(2), ghi(2), call_number, i, j
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 2, kind)
    call that(kind%longitude_axis == 1 .and. kind%lower_edge(2) == GR_EDGE_POLE_FACE .and. &
      kind%lower_edge(1) == GR_EDGE_PERIODIC, 'rules in the order of Fortran')
    call gr_halo_create(comm, layout, kind, halo)
    call gr_halo_owned(halo, lo, hi)
    call gr_halo_local(halo, 1, glo, ghi)
    call that(all(glo == lo - 2) .and. all(ghi == hi + 2), 'the local box')
    allocate (q(glo(1):ghi(1), glo(2):ghi(2)), u(glo(1):ghi(1), glo(2):ghi(2)))
    do call_number = 1, 3
      q = -1
      do j = lo(2), hi(2)
        do i = lo(1), hi(1)
          q(i, j) = cell(i, j)
        end do
      end do
      u = q
      fields = [gr_field(q), gr_field(u, parity=GR_ODD)]
      if (call_number == 1) then
        call gr_halo_exchange(halo, fields)
      else if (call_number == 2) then
        call gr_halo_start(halo, fields, pending)
        complete = .false.
        do while (.not. complete)
          call gr_test(pending, complete)
        end do
        call gr_finish(pending)
        call that(.not. c_associated(pending%handle), 'a finished call')
      else
        call gr_halo_exchange(halo, gr_field(q))
        call gr_halo_start(halo, gr_field(u, parity=GR_ODD), pending)
        call gr_finish(pending)
      end if
      call that(all_right(q, glo, 1), 'the halo of a scalar')
      call that(all_right(u, glo, -1), 'the halo of a vector')
    end do
    call gr_finish(pending, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'pending holds no gr_pending')
    call gr_halo_exchange(halo, gr_field(q(:, glo(2) + 1:)), stat)
    call fails(stat, GR_ERROR_PROGRAM, 'FieldMismatch')
    call gr_halo_exchange(halo, gr_field(q, kind=2), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'fields(1): kind= is 2 of a plan with 1 kinds')
    call gr_halo_exchange(halo, gr_field(q, axes=[1, 3]), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'fields(1): axes= are not dimensions of the array')
    call gr_halo_exchange(halo, gr_field(q, owned=[1]), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'fields(1): owned= has not one place for each dimension')
    call that(all_right(q, glo, 1), 'a refused call changes nothing')
    call gr_halo_destroy(halo)
  end subroutine

  logical function all_right(a, glo, sign)
    integer, intent(in) :: glo(2), sign
    real(c_double), intent(in) :: a(glo(1):, glo(2):)
    integer :: i, j
    all_right = .true.
    do j = glo(2), ubound(a, 2)
      do i = glo(1), ubound(a, 1)
        if (a(i, j) /= image(i, j, sign)) all_right = .false.
      end do
    end do
  end function

  !> Levels first, rows from north to south, in the middle of a larger array: the same memory, no copies.
  subroutine uses_sections()
    type(gr_halo) :: halo
    type(gr_halo_kind) :: kind
    real(c_double), allocatable, asynchronous, target :: large(:, :, :)
    integer :: lo(2), hi(2), i, j, k, wrong, touched, n(2)
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
    call gr_halo_create(comm, layout, kind, halo)
    call gr_halo_owned(halo, lo, hi)
    n = hi - lo + 1
    allocate (large(3, -1:n(1) + 5, 0:n(2) + 6))
    large = -7
    do j = 1, n(2)
      do i = 1, n(1)
        do k = 1, 3, 2
          large(k, i, n(2) + 1 - j) = cell(lo(1) + i - 1, lo(2) + j - 1) + 10000 * k
        end do
      end do
    end do
    ! Dimension 2 is the longitude, the last one the latitude, reversed; the first owned cell is large(:, 1, n(2)).
    call gr_halo_exchange(halo, gr_field(large(1:3:2, :, ubound(large, 3):lbound(large, 3):-1), axes=[2, 3], &
      owned=[1, 3, 7]))
    wrong = 0
    touched = 0
    do j = 0, n(2) + 1
      do i = 0, n(1) + 1
        do k = 1, 3, 2
          if (large(k, i, n(2) + 1 - j) /= image(lo(1) + i - 1, lo(2) + j - 1, 1) + 10000 * k) wrong = wrong + 1
        end do
      end do
    end do
    touched = count(large /= -7)
    call that(wrong == 0, 'a section')
    call that(touched == 2 * product(n + 2), 'no cell beside the section')
    call gr_halo_exchange(halo, gr_field(large, axes=[2, 3], owned=[1, 1, 2]), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'fields(1): owned(2) is 1')
    call gr_halo_destroy(halo)
  end subroutine

  subroutine uses_all_kinds()
    type(gr_halo) :: halo
    type(gr_halo_kind) :: kinds(2)
    integer(c_int8_t), allocatable, asynchronous :: i1(:, :)
    integer(c_int16_t), allocatable, asynchronous :: i2(:, :)
    integer(c_int32_t), allocatable, asynchronous :: i4(:, :)
    integer(c_int64_t), allocatable, asynchronous :: i8(:, :)
    real(c_float), allocatable, asynchronous :: r4(:, :)
    complex(c_float_complex), allocatable, asynchronous :: c4(:, :)
    complex(c_double_complex), allocatable, asynchronous :: c8(:, :, :)
    integer :: lo(2), hi(2), n(2), i
    call gr_halo_kind_uniform(2, GR_EDGE_PERIODIC, 1, kinds(1))
    kinds(2) = kinds(1)
    kinds(2)%lower(1) = 0
    kinds(2)%upper(1) = 0
    call gr_halo_create(comm, layout, kinds, halo)
    call gr_halo_local(halo, 2, lo, hi)
    call gr_halo_owned(halo, n, hi)
    call that(lo(1) == 1 .and. lo(2) == n(2) - 1, 'a kind without halo in longitude')
    n = hi - n + 1
    allocate (i1(0:n(1) + 1, 0:n(2) + 1), i2(0:n(1) + 1, 0:n(2) + 1), i4(0:n(1) + 1, 0:n(2) + 1))
    allocate (i8(0:n(1) + 1, 0:n(2) + 1), r4(0:n(1) + 1, 0:n(2) + 1), c4(0:n(1) + 1, 0:n(2) + 1))
    allocate (c8(0:n(1) + 1, 0:n(2) + 1, 2))
    i1 = 0; i2 = 0; i4 = 0; i8 = 0; r4 = 0; c4 = 0; c8 = 0
    do i = 1, n(1)
      i1(i, 1:n(2)) = int(i, c_int8_t)
      i2(i, 1:n(2)) = int(i, c_int16_t)
      i4(i, 1:n(2)) = i
      i8(i, 1:n(2)) = i
      r4(i, 1:n(2)) = i
      c4(i, 1:n(2)) = cmplx(i, -i)
      c8(i, 1:n(2), 2) = cmplx(i, -i, c_double_complex)
    end do
    call gr_halo_exchange(halo, gr_field(i1))
    call gr_halo_exchange(halo, gr_field(i2))
    call gr_halo_exchange(halo, gr_field(i4))
    call gr_halo_exchange(halo, gr_field(i8))
    call gr_halo_exchange(halo, [gr_field(r4), gr_field(r4(1:n(1), :), kind=2)], stat)
    call fails(stat, GR_ERROR_PROGRAM, 'AliasedFields')
    call gr_halo_exchange(halo, gr_field(r4))
    call gr_halo_exchange(halo, [gr_field(c4)])
    call gr_halo_exchange(halo, gr_field(c8))
    call that(all(i1(0, :) == n(1)) .and. all(i2(0, :) == n(1)) .and. all(i4(n(1) + 1, :) == 1), 'short integers')
    call that(all(i8(0, :) == n(1)) .and. all(r4(0, :) == n(1)) .and. all(c4(0, :) == cmplx(n(1), -n(1))), 'other kinds')
    call that(all(c8(0, :, 2) == cmplx(n(1), -n(1), c_double_complex)) .and. all(c8(:, :, 1) == 0), 'levels')
    call gr_halo_destroy(halo)
    kinds(2)%lower(2) = -1
    call gr_halo_create(comm, layout, kinds, halo, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'BadHaloWidth')
    kinds(2)%lower(2) = 1
    kinds(2)%upper_edge(2) = 40
    call gr_halo_create(comm, layout, kinds, halo, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'kinds(2)%upper_edge(2) is 40')
    call gr_halo_kind_tripolar(GR_EDGE_CONSTANT, GR_EDGE_TRIPOLAR_FACE, 1, kinds(1))
    call that(kinds(1)%upper_edge(2) == GR_EDGE_TRIPOLAR_FACE .and. kinds(1)%mirror_line == GR_COPY_MIRROR, 'tripolar')
  end subroutine

  subroutine splits_boxes()
    type(gr_halo) :: halo
    type(gr_halo_kind) :: kind
    integer :: lo(2), hi(2), in_lo(2), in_hi(2), los(2, 4), his(2, 4), num_boxes, b, cells
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
    kind%lower(1) = 2
    call gr_halo_create(comm, layout, kind, halo)
    call gr_halo_owned(halo, lo, hi)
    call gr_halo_interior(halo, 1, lower=in_lo, upper=in_hi)
    call that(all(in_lo == lo + [2, 1]) .and. all(in_hi == hi - 1), 'the interior')
    call gr_halo_border(halo, 1, reach_below(), num_boxes=num_boxes, lower=los, upper=his)
    cells = product(in_hi - in_lo + 1)
    do b = 1, num_boxes
      cells = cells + product(his(:, b) - los(:, b) + 1)
    end do
    call that(cells == product(hi - lo + 1), 'interior and border are the owned cells')
    call gr_halo_interior(halo, 1, [0, 0], [0, 0], in_lo, in_hi)
    call that(all(in_lo == lo) .and. all(in_hi == hi), 'no reach')
    call gr_halo_border(halo, 1, num_boxes=num_boxes, lower=los(:, :2), upper=his(:, :2), stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'size(lower, 2) is 2')
    call gr_halo_destroy(halo)
  end subroutine

  !> The widths of the kind, as the reach below.
  function reach_below() result(reach)
    integer :: reach(2)
    reach = [2, 1]
  end function

  subroutine has_adjoints()
    type(gr_halo) :: halo
    type(gr_halo_kind) :: kind
    type(gr_pending) :: pending
    real(c_double), allocatable, asynchronous :: x(:, :), y(:, :), x0(:, :), y0(:, :)
    real(c_double) :: sides(2)
    integer :: lo(2), hi(2), i, j, number
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
    call gr_halo_create(comm, layout, kind, halo)
    call gr_halo_owned(halo, lo, hi)
    allocate (x(lo(1) - 1:hi(1) + 1, lo(2) - 1:hi(2) + 1))
    do number = 1, 2
      x = 0
      y = x
      do j = lo(2) - 1, hi(2) + 1
        do i = lo(1) - 1, hi(1) + 1
          if (i >= lo(1) .and. i <= hi(1) .and. j >= lo(2) .and. j <= hi(2)) x(i, j) = modulo(7 * i + 3 * j, 11)
          y(i, j) = modulo(5 * i + 2 * j + world_rank, 13)
        end do
      end do
      x0 = x
      y0 = y
      call gr_halo_exchange(halo, gr_field(x, parity=GR_ODD))
      if (number == 1) then
        call gr_halo_exchange_adjoint(halo, gr_field(y, parity=GR_ODD))
      else
        call gr_halo_start_adjoint(halo, gr_field(y, parity=GR_ODD), pending)
        call gr_finish(pending)
      end if
      sides = [sum(x * y0), sum(x0 * y)]
      call MPI_Allreduce(MPI_IN_PLACE, sides, 2_c_int, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
      call that(sides(1) == sides(2) .and. sides(1) /= 0, 'the adjoint')
    end do
    call gr_halo_destroy(halo)
  end subroutine

  subroutine moves_fields()
    type(gr_layout) :: by_lon, swapped
    type(gr_repartition) :: plan
    type(gr_repartition_options) :: options
    type(gr_update) :: update
    type(gr_pending) :: pending
    type(gr_counts) :: counts
    type(gr_stats) :: stats
    real(c_double), allocatable, asynchronous :: old(:, :), new(:, :)
    real(c_float), allocatable, asynchronous :: turned(:, :)
    character(:), allocatable :: text
    integer :: lo(2), hi(2), i, j, targets, chosen
    call gr_layout_create([nlon, nlat], [world_size, 1], by_lon)
    call gr_repartition_create(comm, layout, by_lon, plan=plan)
    call gr_repartition_source(plan, lo, hi)
    allocate (old(lo(1):hi(1), lo(2):hi(2)))
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        old(i, j) = cell(i, j)
      end do
    end do
    call gr_repartition_num_targets(plan, targets)
    call gr_repartition_target(plan, 1, lo, hi)
    allocate (new(lo(1):hi(1), lo(2):hi(2)))
    new = -1
    call gr_repartition_apply(plan, gr_field(old), gr_field(new))
    call that(targets == 1 .and. moved(new, lo, 1d0), 'a repartition')
    update%alpha(1) = 0.5d0
    update%has_beta = 1
    update%beta(1) = 1
    call gr_repartition_start(plan, gr_field(old), gr_field(new), update, pending)
    call gr_finish(pending)
    call that(moved(new, lo, 1.5d0), 'alpha and beta')
    call gr_repartition_apply_adjoint(plan, gr_field(old), gr_field(new))
    call gr_repartition_start_adjoint(plan, [gr_field(old)], [gr_field(new)], pending=pending)
    call gr_finish(pending)
    call that(moved(old, lbound(old), 4d0), 'the adjoint adds')
    call gr_repartition_apply_inverse(plan, gr_field(old), gr_field(new))
    call that(moved(old, lbound(old), 1.5d0), 'the inverse')
    old = 0
    call gr_repartition_start_inverse(plan, [gr_field(old)], [gr_field(new)], [update], pending)
    call gr_finish(pending)
    call that(moved(old, lbound(old), 0.75d0), 'the inverse in flight')
    call gr_repartition_set_transport(plan, GR_TRANSPORT_POINT_TO_POINT)
    call gr_repartition_tune(plan, gr_field(old), gr_field(new), 2, chosen)
    call that(chosen >= 0 .and. chosen <= 2, 'a transport')
    call gr_repartition_counts(plan, counts)
    call gr_repartition_stats(plan, stats)
    call that(counts%receive_cells + counts%local_cells == size(new) .and. stats%num_calls > 6, 'traffic')
    call gr_repartition_report(plan, text)
    call that(len(text) > 0, 'a report')
    call gr_repartition_dump(plan, 'bindings-fortran-repartition.json')
    if (world_rank == 0) call remove_file('bindings-fortran-repartition.json')
    call gr_repartition_apply(plan, [gr_field(old), gr_field(old)], [gr_field(new)], stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'size(to) is 1 for 2 fields')
    call gr_repartition_destroy(plan)

    ! Latitude first, only the columns 2, 4, 6 from the last row to the first, as f32.
    call gr_layout_create([nlat, 3], [world_size, 1], swapped)
    options%ndim = 2
    options%has_permutation = 1
    options%permutation(:2) = [2, 1]
    options%has_from = 1
    options%from_first(:2) = [2, nlat]
    options%from_step(:2) = [2, -1]
    options%from_count(:2) = [3, nlat]
    call gr_repartition_create(comm, by_lon, swapped, options, plan)
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        new(i, j) = cell(i, j)
      end do
    end do
    call gr_repartition_target(plan, 1, lo, hi)
    allocate (turned(lo(1):hi(1), lo(2):hi(2)))
    call gr_repartition_apply(plan, gr_field(new), gr_field(turned))
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        call that(turned(i, j) == real(cell(2 * j, nlat + 1 - i)), 'permuted and selected')
      end do
    end do
    call gr_repartition_destroy(plan)
    call gr_layout_destroy(swapped)
    options%permutation(2) = 2
    call gr_repartition_create(comm, by_lon, by_lon, options, plan, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'AxesMismatch')
    call gr_layout_destroy(by_lon)

    ! The first and the last row on rank 0.
    block
      integer :: los(2, 2), his(2, 2), n
      real(c_double), asynchronous :: first(nlon, 1), last(nlon, 1), none(0, 0)
      los = reshape([1, 1, 1, nlat], [2, 2])
      his = reshape([nlon, 1, nlon, nlat], [2, 2])
      n = merge(2, 0, world_rank == 0)
      call gr_repartition_create_boxes(comm, layout, los(:, :n), his(:, :n), plan=plan)
      call gr_repartition_source(plan, lo, hi)
      do j = lo(2), hi(2)
        do i = lo(1), hi(1)
          old(i, j) = cell(i, j)
        end do
      end do
      if (world_rank == 0) then
        call gr_repartition_apply(plan, [gr_field(old)], [gr_field(first), gr_field(last)])
        call that(first(3, 1) == cell(3, 1) .and. last(nlon, 1) == cell(nlon, nlat), 'two boxes')
      else
        call gr_repartition_apply(plan, gr_field(old), gr_field(none))
      end if
      call gr_repartition_target(plan, 3, lo, hi, stat)
      call fails(stat, GR_ERROR_ARGUMENT, 'target is 2')
      call gr_repartition_destroy(plan)
    end block
  end subroutine

  logical function moved(a, lo, factor)
    integer, intent(in) :: lo(2)
    real(c_double), intent(in) :: a(lo(1):, lo(2):), factor
    integer :: i, j
    moved = .true.
    do j = lo(2), ubound(a, 2)
      do i = lo(1), ubound(a, 1)
        if (a(i, j) /= factor * cell(i, j)) moved = .false.
      end do
    end do
  end function

  subroutine remove_file(path)
    character(*), intent(in) :: path
    integer :: unit, failed
    open (newunit=unit, file=path, status='old', iostat=failed)
    call that(failed == 0, path // ' exists')
    if (failed == 0) close (unit, status='delete')
  end subroutine

  subroutine adds()
    type(gr_zonal) :: zonal
    type(gr_area_sum) :: area
    type(gr_pending) :: pending
    real(c_double), allocatable, asynchronous :: a(:, :), sums(:, :)
    real(c_double) :: total(1), weights(nlat)
    integer :: lo(2), hi(2), slo(2), shi(2), i, j
    call gr_zonal_create(comm, layout, 1, zonal=zonal)
    call gr_zonal_cells(zonal, lo, hi)
    call gr_zonal_sums(zonal, slo, shi)
    call that(slo(1) == 1 .and. shi(1) == 1 .and. slo(2) == lo(2) .and. shi(2) == hi(2), 'one cell along longitude')
    allocate (a(lo(1):hi(1), lo(2):hi(2)), sums(1, lo(2):hi(2)))
    do j = lo(2), hi(2)
      do i = lo(1), hi(1)
        a(i, j) = cell(i, j)
      end do
    end do
    call gr_zonal_apply(zonal, gr_field(a), gr_field(sums))
    call that(all([(sums(1, j) == sum(a(:, j)), j=lo(2), hi(2))]), 'zonal sums')
    sums = 0
    call gr_zonal_start(zonal, [gr_field(a)], [gr_field(sums)], pending)
    call gr_finish(pending)
    call that(all([(sums(1, j) == sum(a(:, j)), j=lo(2), hi(2))]), 'zonal sums in flight')
    sums = 5
    call gr_zonal_apply_adjoint(zonal, gr_field(a), gr_field(sums), GR_COTANGENTS_REPLICATED)
    call that(a(1, lo(2)) == cell(1, lo(2)) + 5, 'the adjoint of zonal sums')
    call gr_zonal_destroy(zonal)
    call gr_zonal_create(comm, layout, 1, GR_SUM_FAST, GR_SCALE_MEAN, [1, 1], [2, nlat], zonal)
    call gr_zonal_sums(zonal, slo, shi)
    a = a - 5
    call gr_zonal_apply(zonal, gr_field(a), gr_field(sums))
    call that(sums(1, lo(2)) == (a(1, lo(2)) + a(2, lo(2))) / 2, 'the mean of two columns')
    call gr_zonal_destroy(zonal)
    call gr_zonal_create(comm, layout, 3, zonal=zonal, stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'must be one of 2, got dimension 3')

    weights = 1
    call gr_area_sum_create(comm, layout, 1, 2, weights, GR_SCALE_MEAN, area)
    a = 3
    call gr_area_sum_apply(area, gr_field(a), total)
    call that(total(1) == 3, 'an area mean')
    call gr_area_sum_apply_adjoint(area, gr_field(a), [real(nlon * nlat, c_double)])
    call that(all(a == 4), 'the adjoint of an area mean')
    call gr_area_sum_apply(area, gr_field(a), weights(:2), stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'size(sums) is 2')
    call gr_area_sum_destroy(area)
  end subroutine

  subroutine reports()
    type(gr_halo) :: halo
    type(gr_halo_kind) :: kind
    type(gr_counts) :: counts
    type(gr_stats) :: stats
    real(c_double), allocatable, asynchronous :: a(:, :)
    character(:), allocatable :: text
    integer :: lo(2), hi(2), chosen
    call gr_halo_kind_sphere(GR_EDGE_POLE_FACE, 1, kind)
    call gr_halo_create(comm, layout, kind, halo)
    call gr_halo_local(halo, 1, lo, hi)
    allocate (a(lo(1):hi(1), lo(2):hi(2)))
    a = 0
    call gr_halo_set_transport(halo, GR_TRANSPORT_POINT_TO_POINT)
    call gr_halo_exchange(halo, gr_field(a))
    call gr_halo_counts(halo, counts)
    call gr_halo_stats(halo, stats)
    call that(stats%num_calls == 1 .and. stats%point_to_point_bytes == 8 * counts%send_cells, 'traffic of a halo')
    call gr_halo_report(halo, text)
    call that(index(text, 'cells out') > 0 .eqv. world_size > 1, 'the report of a halo')
    call gr_halo_tune(halo, gr_field(a), 2, chosen)
    call that(chosen >= 0 .and. chosen <= 2, 'the transport of a halo')
    call gr_halo_dump(halo, 'bindings-fortran-halo.json')
    if (world_rank == 0) call remove_file('bindings-fortran-halo.json')
    call gr_halo_set_transport(halo, 9, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'transport is 9')
    call gr_halo_destroy(halo)
  end subroutine

  subroutine gives_up()
    if (world_size == 1) return
    call gr_comm_announce_failure(comm, 'enough')
    call gr_comm_renew(comm)
  end subroutine
end program test_fortran_engine
