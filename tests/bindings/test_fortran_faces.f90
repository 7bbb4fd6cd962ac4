! SPDX-License-Identifier: BSD-3-Clause
!> The code of docs/grids.md: scalars and vectors of a cubed sphere, every cell by formula.
program test_fortran_faces
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use graticule
  use check
  implicit none
  integer, parameter :: nc = 48, bx = 20, by = 17, width = 2
  real(real64), parameter :: untouched = -12345
  !> Of the faces of the cube [-nc, nc]^3: outward normals, directions of growing j and of growing i.
  integer, parameter :: normals(3, 6) = reshape([1, 0, 0, 0, 1, 0, -1, 0, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1], [3, 6])
  integer, parameter :: along_j(3, 6) = reshape([0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, -1, 0, 0, 1, 0, 0], [3, 6])
  integer, parameter :: along_i(3, 6) = reshape([0, 1, 0, -1, 0, 0, 0, -1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0], [3, 6])
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_halo_kind) :: kinds(3)
  type(gr_halo) :: halo
  integer, allocatable :: lower(:, :), upper(:, :)
  real(real64), allocatable, asynchronous :: t(:, :, :), u(:, :, :), v(:, :, :)
  integer :: n
  logical :: c_grid = .false.

  call begin()
  call gr_init()
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call find_blocks()

  call gr_layout_create_faces(comm, [nc, nc, 6], lower, upper, layout=layout)  ! lower(3, n): the first i, j, and the face
  call gr_halo_kind_uniform(2, GR_EDGE_UNTOUCHED, 2, kinds(1))
  kinds(2:3) = kinds(1)
  kinds(2:3)%has_component = 1
  kinds(2:3)%component = [1, 2]  ! along i and along j
  call gr_halo_create(comm, layout, kinds, halo)
  allocate (t(-1:bx + 2, -1:by + 2, n), u(-1:bx + 2, -1:by + 2, n), v(-1:bx + 2, -1:by + 2, n))
  call fill(t, 1)
  call fill(u, 2)
  call fill(v, 3)

  call gr_halo_exchange(halo, t, u, v, kind=[1, 2, 3], owned=[3, 3, 1])

  call that(num_wrong(t, 1) == 0, 'scalars')
  call that(num_wrong(u, 2) + num_wrong(v, 3) == 0, 'vectors')
  call that(n > 1, 'several blocks on each rank')
  call gr_halo_destroy(halo)
  call exchanges_a_c_grid()
  call gr_layout_destroy(layout)
  call joins_tiles()
  call refuses_wrong_faces()
  call gr_comm_destroy(comm)
  call gr_finalize()
  call finish()

contains

  !> Errors of one rank reach all ranks and name what the program passed.
  subroutine refuses_wrong_faces()
    type(gr_face_joint) :: joints(2)
    type(gr_layout) :: cube, boxes
    type(gr_halo) :: plan
    type(gr_halo_kind) :: wrong(2)
    integer :: stat
    joints%face = [1, 2]
    joints%other_face = [2, 3]
    joints%axis = 1
    joints%other_axis = 1
    joints%is_upper = 1
    if (world_rank == 1) joints(2)%is_reversed = 1
    call gr_layout_create_faces(comm, [nc, nc, 6], lower, upper, joints, cube, stat)
    if (world_size > 1) then
      call fails(stat, GR_ERROR_PROGRAM, 'rank 0 has 2 joints; ...; joints(2): face 2 above dimension 1 meets face 3 below ' // &
        'dimension 1, rank 1 has 2 joints; ...; joints(2): face 2 above dimension 1 meets face 3 below dimension 1, ' // &
        'counted in opposite directions')
    else
      call gr_layout_destroy(cube)
    end if
    call gr_layout_create_faces(comm, [nc, nc, 6], lower, upper, layout=cube)
    call gr_halo_kind_uniform(2, GR_EDGE_UNTOUCHED, 2, kinds(1))
    wrong = kinds(1)
    wrong(2)%has_component = 1
    wrong(2)%component = 1
    call gr_halo_create(comm, cube, wrong, plan, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'kind 2 is component 1 of a vector')
    kinds(2:3) = kinds(1)
    kinds(2:3)%has_component = 1
    kinds(2:3)%component = [1, 2]
    call gr_halo_create(comm, cube, kinds, plan)
    call gr_halo_exchange(plan, t, kind=2, owned=[3, 3, 1], stat=stat)
    call fails(stat, GR_ERROR_PROGRAM, 'kind 2 is one component of a vector; the field of the other component must be beside it')
    call gr_halo_destroy(plan)
    kinds(1)%lower_edge(1) = GR_EDGE_PERIODIC
    kinds(1)%upper_edge(1) = GR_EDGE_PERIODIC
    call gr_halo_create(comm, cube, kinds, plan, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'on faces that meet, both are GR_EDGE_UNTOUCHED')
    call gr_layout_destroy(cube)
    call gr_layout_create_boxes(comm, [nc, nc], lower(:2, :), upper(:2, :), boxes, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'size(lower, 2) is ')
  end subroutine

  !> Blocks of 20 x 17 cells and less at the ends, in turn on the ranks.
  subroutine find_blocks()
    integer :: at, i, j, face, pass
    do pass = 1, 2
      if (pass == 2) allocate (lower(3, n), upper(3, n))
      n = 0
      at = 0
      do face = 1, 6
        do j = 1, nc, by
          do i = 1, nc, bx
            if (mod(at, world_size) == world_rank) then
              n = n + 1
              if (pass == 2) then
                lower(:, n) = [i, j, face]
                upper(:, n) = [min(i + bx - 1, nc), min(j + by - 1, nc), face]
              end if
            end if
            at = at + 1
          end do
        end do
      end do
    end do
  end subroutine

  !> u lies on faces between cells along i, v along j.
  subroutine exchanges_a_c_grid()
    c_grid = .true.
    kinds(2)%stagger(1) = GR_ALL_FACES
    kinds(3)%stagger(2) = GR_ALL_FACES
    call gr_halo_create(comm, layout, kinds, halo)
    deallocate (u, v)
    allocate (u(-1:bx + 3, -1:by + 2, n), v(-1:bx + 2, -1:by + 3, n))
    call fill(t, 1)
    call fill(u, 2)
    call fill(v, 3)

    call gr_halo_exchange(halo, t, u, v, kind=[1, 2, 3], owned=[3, 3, 1])

    call that(num_wrong(t, 1) + num_wrong(u, 2) + num_wrong(v, 3) == 0, 'a C grid')
    call gr_halo_destroy(halo)
  end subroutine

  !> Values more than cells along i and j.
  pure function more(field) result(extra)
    integer, intent(in) :: field
    integer :: extra(2)
    extra = 0
    if (c_grid .and. field > 1) extra(field - 1) = 1
  end function

  pure function face_of(normal) result(face)
    integer, intent(in) :: normal(3)
    integer :: face
    do face = 1, 6
      if (all(normals(:, face) == normal)) return
    end do
  end function

  !> What cell (i, j) on or around a face holds: of the scalar (1), or of the component along i (2) or along j (3).
  !> Round an edge both the place and the directions of the face are folded; what lies on it belongs to the lower face.
  pure function expected(field, i, j, face) result(value)
    integer, intent(in) :: field, i, j, face
    real(real64) :: value, vector(3)
    integer :: cells(2), along(3, 2), folded(3, 2), at(3), height, a, side, plane, extra(2)
    extra = more(field)
    cells = 2 * [i, j] - 1 - nc - extra
    along(:, 1) = along_i(:, face)
    along(:, 2) = along_j(:, face)
    folded = along
    at = 0
    height = nc
    plane = face
    do a = 1, 2
      side = 0
      if (abs(cells(a)) > nc) side = sign(1, cells(a))
      if (side /= 0) height = height - (side * cells(a) - nc)
      if (side /= 0) cells(a) = side * nc
      at = at + cells(a) * along(:, a)
      if (side /= 0) folded(:, a) = -side * normals(:, face)
      if (side /= 0) plane = face_of(side * along(:, a))
    end do
    do a = 1, 2
      if (extra(a) == 0 .or. abs(cells(a)) /= nc .or. any(folded(:, a) /= along(:, a))) cycle
      side = cells(a) / nc
      if (face_of(side * along(:, a)) < plane) folded(:, a) = -side * normals(:, plane)
    end do
    along = folded
    at = at + height * normals(:, face)
    value = at(1) + 200 * at(2) + 40000 * at(3)
    if (field == 1) return
    vector = [3 * at(1) + at(2) + 4 * at(3) + 7, at(1) + 5 * at(2) + 9 * at(3) - 1, 2 * at(1) + 6 * at(2) + 5 * at(3) + 2]
    value = dot_product(vector, real(along(:, field - 1), real64))
  end function

  subroutine fill(values, field)
    real(real64), intent(out) :: values(-1:, -1:, :)
    integer, intent(in) :: field
    integer :: b, i, j, last(2), plus(2)
    values = untouched
    plus = more(field)
    do b = 1, n
      last = upper(1:2, b) + merge(plus, 0, upper(1:2, b) == nc)
      do j = lower(2, b), last(2)
        do i = lower(1, b), last(1)
          values(i - lower(1, b) + 1, j - lower(2, b) + 1, b) = expected(field, i, j, lower(3, b))
        end do
      end do
    end do
  end subroutine

  function num_wrong(values, field) result(wrong)
    real(real64), intent(in) :: values(-1:, -1:, :)
    integer, intent(in) :: field
    integer :: wrong, b, i, j, last(2), plus(2)
    real(real64) :: right
    wrong = 0
    plus = more(field)
    do b = 1, n
      last = upper(1:2, b) + merge(plus, 0, upper(1:2, b) == nc)
      do j = lower(2, b) - width, last(2) + width
        do i = lower(1, b) - width, last(1) + width
          right = expected(field, i, j, lower(3, b))
          if ((i < 1 .or. i > nc + plus(1)) .and. (j < 1 .or. j > nc + plus(2))) right = untouched  ! where three faces meet
          if (values(i - lower(1, b) + 1, j - lower(2, b) + 1, b) /= right) wrong = wrong + 1
        end do
      end do
    end do
  end function

  !> Two tiles of 3 x 3 cells on the last rank: beyond i = 3 of the first lies j = 1 of the second, backwards.
  subroutine joins_tiles()
    type(gr_face_joint) :: joint
    real(real64) :: q(0:4, 0:4, 2)
    integer :: first(3, 2), last(3, 2), own, i, j, b, stat
    joint%face = 1
    joint%axis = 1
    joint%is_upper = 1
    joint%other_face = 2
    joint%other_axis = 2
    joint%is_reversed = 1
    first = reshape([1, 1, 1, 1, 1, 2], [3, 2])
    last = reshape([3, 3, 1, 3, 3, 2], [3, 2])
    own = merge(2, 0, world_rank == world_size - 1)
    call gr_layout_create_faces(comm, [3, 3, 2], first(:, :own), last(:, :own), joint, layout)
    call gr_halo_kind_uniform(2, GR_EDGE_UNTOUCHED, 1, kinds(1))
    call gr_halo_create(comm, layout, kinds(1), halo)
    q = -1
    do b = 1, 2
      do j = 1, 3
        do i = 1, 3
          q(i, j, b) = i + 10 * j + 100 * b
        end do
      end do
    end do
    call gr_halo_exchange(halo, q(:, :, :own), owned=[2, 2, 1])
    if (own == 2) then
      call that(all(q(4, 1:3, 1) == [213, 212, 211]), 'beyond i = 3 of the first tile')
      call that(all(q(1:3, 0, 2) == [133, 123, 113]), 'beyond j = 1 of the second tile')
      call that(all(q(0, :, 1) == -1) .and. all(q(:, 4, 2) == -1), 'no joint')
    end if
    call gr_halo_destroy(halo)
    call gr_layout_destroy(layout)
    joint%other_face = 3
    call gr_layout_create_faces(comm, [3, 3, 2], first(:, :own), last(:, :own), joint, layout, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'a joint has face 3 of 2 and axis 2 of 2')
    last(3, 1) = 2
    call gr_layout_create_faces(comm, [3, 3, 2], first(:, :own), last(:, :own), joint, layout, stat)
    call fails(stat, GR_ERROR_PROGRAM, 'which is not on one face')
    last(3, 1) = 1
    call gr_layout_create_faces(comm, [3, 3, 2], first(:, :own), last(:, :own), layout=layout, stat=stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'extents have 2 faces; without joints')
    joint%other_face = 2
    call gr_layout_create_faces(comm, [3, 3, 2], first(:, :own), last(:, :own), [joint], layout)
    kinds(1)%has_component = 1
    kinds(1)%component = 3
    call gr_halo_create(comm, layout, kinds(1), halo, stat)
    call fails(stat, GR_ERROR_ARGUMENT, 'component is 3, the kind has 2 axes')
    call gr_layout_destroy(layout)
  end subroutine
end program test_fortran_faces
