! SPDX-License-Identifier: BSD-3-Clause
!> The calls that bench_overhead.cpp times: with a field that is described in each call, and one that was described before.
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

subroutine fortran_exchange_described(halo, field) bind(c)
  use, intrinsic :: iso_c_binding
  use graticule
  implicit none
  type(c_ptr), value :: halo
  type(gr_field), intent(in) :: field
  type(gr_halo) :: plan
  plan%handle = halo
  call gr_halo_exchange(plan, field)
end subroutine
