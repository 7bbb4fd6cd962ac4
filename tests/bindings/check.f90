! SPDX-License-Identifier: BSD-3-Clause
!> Assertions for test programs in Fortran: failures are counted on each rank and fail the run.
module check
  use, intrinsic :: iso_fortran_env, only: error_unit, int32
  use mpi_f08
  use graticule, only: gr_error_text, gr_error_status, gr_error_rule
  implicit none
  integer :: world_rank = 0, world_size = 1
  integer(int32) :: num_failures = 0  ! of the kind that MPI was compiled with, whatever that of default integers is

contains

  subroutine begin()
    integer(int32) :: level, rank, num_ranks
    call MPI_Init_thread(MPI_THREAD_SERIALIZED, level)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, num_ranks)
    world_rank = rank
    world_size = num_ranks
  end subroutine

  !> `condition` holds.
  subroutine that(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    num_failures = num_failures + 1
    write (error_unit, '(a, i0, 4a)') 'rank ', world_rank, ' failed: ', what, ' (last error: ', gr_error_text() // ')'
  end subroutine

  !> The last call failed with this status, and its text contains `part`.
  subroutine fails(stat, expected, part)
    integer, intent(in) :: stat, expected
    character(*), intent(in) :: part
    call that(stat == expected .and. gr_error_status() == stat .and. index(gr_error_text(), part) > 0 &
      .and. len(gr_error_rule()) > 0, 'an error with the text ' // part)
  end subroutine

  subroutine finish()
    integer(int32) :: all
    call MPI_Allreduce(num_failures, all, 1_int32, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call MPI_Finalize()
    if (all /= 0) error stop 1
  end subroutine
end module check
