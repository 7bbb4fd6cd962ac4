! SPDX-License-Identifier: BSD-3-Clause
! Ends with 0 if C descriptors of assumed-type arrays are right: rank, extents and strides of sections.
program descriptors
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    function graticule_describes(array, rank, extent, stride) bind(c) result(right)
      import
      type(*), dimension(..), target, asynchronous :: array
      integer(c_int), value :: rank, extent, stride
      integer(c_int) :: right
    end function
  end interface
  real(c_double), allocatable, target, asynchronous :: a(:, :, :)
  integer(c_int), target :: b(7)
  allocate (a(0:5, -2:3, 4))
  if (passed(a, 3, 6, 8) + passed(a(4:1:-1, :, :), 3, 4, -8) + passed(a(0:4:2, 1, :), 2, 3, 16) + passed(b, 1, 7, 4) /= 4) &
    error stop 1

contains

  !> As the module does: one such dummy argument passed on as another.
  function passed(array, rank, extent, stride) result(right)
    type(*), dimension(..), target, asynchronous :: array
    integer, intent(in) :: rank, extent, stride
    integer :: right
    right = graticule_describes(array, rank, extent, stride)
  end function
end program descriptors
