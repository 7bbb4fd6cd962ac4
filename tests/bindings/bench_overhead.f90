! SPDX-License-Identifier: BSD-3-Clause
!> The call that bench_overhead.cpp times.
subroutine fortran_exchange(halo, cells, columns, rows, levels) bind(c)
  use, intrinsic :: iso_c_binding
  use graticule
  implicit none
  type(c_ptr), value :: halo
  integer(c_int), value :: columns, rows, levels
  real(c_float), intent(inout), target, asynchronous :: cells(columns, rows, levels)
  type(gr_halo) :: plan
  plan%handle = halo
  call gr_halo_exchange(plan, gr_field(cells))
end subroutine
