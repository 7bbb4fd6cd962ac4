! SPDX-License-Identifier: BSD-3-Clause
! A tracer carried once round a cubed sphere, over four of its corners: means over cells that are linear in each cell,
! from its four neighbors, in two stages per step.
!
!   mpiexec -n 2 example_fortran_cubed_sphere [CELLS]
!
! CELLS along each side of the 6 faces, an even number: 24 without it. The error falls by 4 when it doubles.
program cubed_sphere
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use graticule
  implicit none
  !> Of each face: its outward normal, and the directions of growing i and j.
  integer, parameter :: normal(3, 6) = reshape([1, 0, 0, 0, 1, 0, -1, 0, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1], [3, 6])
  integer, parameter :: along_i(3, 6) = reshape([0, 1, 0, -1, 0, 0, 0, -1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0], [3, 6])
  integer, parameter :: along_j(3, 6) = reshape([0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, -1, 0, 0, 1, 0, 0], [3, 6])
  integer, parameter :: to(2, 4) = reshape([0, -1, 0, 1, -1, 0, 1, 0], [2, 4])  ! the neighbors of a cell
  real(real64), parameter :: pi = acos(-1.0_real64), axis(3) = [-1, 0, 1] / sqrt(2.0_real64)
  integer :: nc, nb, rank, num_ranks, n, b, s, i, j, step, num_steps
  integer, allocatable :: lower(:, :), upper(:, :)  ! (i, j, face) of the blocks of this rank
  real(real64), allocatable :: q(:, :, :), area(:, :, :), before(:, :, :), start(:, :, :)
  real(real64), allocatable :: centre(:, :, :, :), slope(:, :, :, :)
  real(real64), allocatable :: weight(:, :, :, :, :), middle(:, :, :, :, :), inflow(:, :, :, :)
  real(real64) :: mass(1), change(1), error(1), all(1)
  character(20) :: argument
  type(gr_comm) :: comm
  type(gr_layout) :: layout
  type(gr_halo) :: halo
  type(gr_halo_kind) :: kind
  type(gr_area_sum) :: integral

  nc = 24
  call get_command_argument(1, argument)
  if (argument /= '') read (argument, *) nc
  nb = nc / 2
  num_steps = 10 * nc
  call gr_init()  ! starts MPI, too
  call gr_comm_create(MPI_COMM_WORLD, comm)
  call gr_comm_rank(comm, rank)
  call gr_comm_size(comm, num_ranks)

  ! Quarters of the faces, in turn on the ranks.
  n = (24 - rank + num_ranks - 1) / num_ranks
  allocate (lower(3, n), upper(3, n))
  do b = 1, n
    s = rank + (b - 1) * num_ranks
    lower(:, b) = [mod(s, 2) * nb + 1, mod(s / 2, 2) * nb + 1, s / 4 + 1]
    upper(:, b) = lower(:, b) + [nb - 1, nb - 1, 0]
  end do
  call gr_layout_create_faces(comm, [nc, nc, 6], lower, upper, layout=layout)
  call gr_halo_kind_uniform(2, GR_EDGE_UNTOUCHED, 1, kind)
  call gr_halo_create(comm, layout, kind, halo)
  call make_cells()
  call gr_area_sum_create_cells(comm, layout, area, GR_SCALE_SUM, integral)

  start = q
  do step = 1, num_steps
    before = q
    call advance(2 * pi / num_steps)
    call advance(2 * pi / num_steps)
    q = 0.5 * (before + q)
  end do

  call gr_area_sum_apply(integral, own(start), mass)
  call gr_area_sum_apply(integral, own(q - start), change)
  call gr_area_sum_apply(integral, own((q - start)**2), error)
  call gr_area_sum_apply(integral, own(start**2), all)
  if (rank == 0) print '(2(a, es9.2))', 'error', sqrt(error / all), ', change of the mass', abs(change / mass)
  call gr_finalize()

contains

  function own(field)
    real(real64), intent(in) :: field(0:, 0:, :)
    real(real64) :: own(nb, nb, n)
    own = field(1:nb, 1:nb, :)
  end function

  subroutine make_cells()
    real(real64) :: corner(3, 4), one(3), other(3), away(3), p(2, 4), m(3)
    integer :: k, c
    allocate (q(0:nb + 1, 0:nb + 1, n), area(nb, nb, n), source=0.0_real64)
    allocate (centre(0:nb + 1, 0:nb + 1, n, 3), slope(0:nb + 1, 0:nb + 1, n, 3), source=0.0_real64)
    allocate (weight(3, 4, nb, nb, n), middle(3, 4, nb, nb, n), inflow(4, nb, nb, n))
    do b = 1, n
      do j = 1, nb
        do i = 1, nb
          do c = 1, 4  ! round the cell
            corner(:, c) = corner_at(i - merge(1, 0, c == 1 .or. c == 4), j - merge(1, 0, c < 3))
          end do
          area(i, j, b) = triangle(corner(:, 1), corner(:, 2), corner(:, 3)) + triangle(corner(:, 1), corner(:, 3), corner(:, 4))
          centre(i, j, b, :) = on_sphere(sum(corner, 2))
          q(i, j, b) = exp(6 * (centre(i, j, b, 2) - 1))
          ! The stream function is known, so the flow through each side is exact.
          do k = 1, 4
            associate (from => corner(:, [2, 4, 1, 3]), till => corner(:, [1, 3, 4, 2]))
              inflow(k, i, j, b) = dot_product(axis, till(:, k) - from(:, k))
              middle(:, k, i, j, b) = on_sphere(from(:, k) + till(:, k))
            end associate
          end do
        end do
      end do
    end do
    call gr_halo_exchange(halo, centre(:, :, :, 1), centre(:, :, :, 2), centre(:, :, :, 3))
    ! What each neighbor adds to the slope, by least squares in the plane that touches the sphere.
    do b = 1, n
      do j = 1, nb
        do i = 1, nb
          m = centre(i, j, b, :)
          away = merge([0, 0, 1], [1, 0, 0], abs(m(3)) < 0.5)
          one = on_sphere(cross(m, away))
          other = cross(m, one)
          do k = 1, 4
            away = centre(i + to(1, k), j + to(2, k), b, :) - m
            p(:, k) = [dot_product(away, one), dot_product(away, other)]
          end do
          associate (aa => sum(p(1, :)**2), ab => sum(p(1, :) * p(2, :)), bb => sum(p(2, :)**2))
            do k = 1, 4
              weight(:, k, i, j, b) = (bb * p(1, k) - ab * p(2, k)) * one + (aa * p(2, k) - ab * p(1, k)) * other
            end do
            weight(:, :, i, j, b) = weight(:, :, i, j, b) / (aa * bb - ab**2)
          end associate
        end do
      end do
    end do
  end subroutine

  subroutine advance(dt)
    real(real64), intent(in) :: dt
    real(real64) :: next(nb, nb, n), slope_here(3)
    integer :: k, x, y
    call gr_halo_exchange(halo, q)
    do b = 1, n
      do j = 1, nb
        do i = 1, nb
          slope_here = 0
          do k = 1, 4
            slope_here = slope_here + (q(i + to(1, k), j + to(2, k), b) - q(i, j, b)) * weight(:, k, i, j, b)
          end do
          slope(i, j, b, :) = slope_here
        end do
      end do
    end do
    ! Components in space are scalars on the faces.
    call gr_halo_exchange(halo, slope(:, :, :, 1), slope(:, :, :, 2), slope(:, :, :, 3))
    next = q(1:nb, 1:nb, :)
    do b = 1, n
      do j = 1, nb
        do i = 1, nb
          do k = 1, 4
            x = merge(i + to(1, k), i, inflow(k, i, j, b) > 0)  ! where the flow comes from
            y = merge(j + to(2, k), j, inflow(k, i, j, b) > 0)
            next(i, j, b) = next(i, j, b) + dt / area(i, j, b) * inflow(k, i, j, b) * &
              (q(x, y, b) + dot_product(slope(x, y, b, :), middle(:, k, i, j, b) - centre(x, y, b, :)))
          end do
        end do
      end do
    end do
    q(1:nb, 1:nb, :) = next
  end subroutine

  !> Corner (i, j) of the cells of block b, with equal angles between them.
  function corner_at(i, j) result(at)
    integer, intent(in) :: i, j
    real(real64) :: at(3), along(2)
    along = tan(pi / 2 * ((lower(:2, b) - 1 + [i, j]) / real(nc, real64) - 0.5))
    associate (face => lower(3, b))
      at = on_sphere(normal(:, face) + along(1) * along_i(:, face) + along(2) * along_j(:, face))
    end associate
  end function

  pure function on_sphere(a) result(unit)
    real(real64), intent(in) :: a(3)
    real(real64) :: unit(3)
    unit = a / norm2(a)
  end function

  pure function cross(a, b)
    real(real64), intent(in) :: a(3), b(3)
    real(real64) :: cross(3)
    cross = [a(2) * b(3) - a(3) * b(2), a(3) * b(1) - a(1) * b(3), a(1) * b(2) - a(2) * b(1)]
  end function

  pure real(real64) function triangle(a, b, c)
    real(real64), intent(in) :: a(3), b(3), c(3)
    triangle = 2 * atan2(abs(dot_product(a, cross(b, c))), 1 + dot_product(a, b) + dot_product(b, c) + dot_product(c, a))
  end function
end program cubed_sphere
