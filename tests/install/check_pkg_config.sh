#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_pkg_config.sh PREFIX SOURCES MPICC MPIFORT LAUNCHER...: the consumers by pkg-config and the compilers of MPI alone.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"
prefix=$1
sources=$2
mpicc=$3
mpifort=$4
shift 4
command -v pkg-config >/dev/null || skip "pkg-config is not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() {
    printf 'FAILED: %s\n' "$*"
    cat out 2>/dev/null
    exit 1
}
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name graticule_c.pc)")
export PKG_CONFIG_PATH
# Debian's wrapper of Open MPI for Fortran leaves out the folder of libmpi, which beside MPICH is that of MPICH; for mpicc it names it.
folders() { "$mpicc" -showme:libdirs 2>/dev/null | tr ' ' '\n' | sed -n 's/^\//-L\//p'; }
flags() { folders; pkg-config --cflags --libs "$1" || fail "pkg-config $1"; }
# What it says is a list of options.
# shellcheck disable=SC2046
{
    "$mpicc" -std=c11 "$sources/c.c" -o consumer_c $(flags graticule_c) >out 2>&1 || fail "mpicc"
    "$@" 2 ./consumer_c >out 2>&1 || fail "the consumer in C"
    grep -q 'c: 2 ranks agree' out || fail "the consumer in C did not report"
    if [ -e "$PKG_CONFIG_PATH/graticule_c_nn.pc" ]; then
        "$mpicc" -std=c11 "$sources/c_nn.c" -o consumer_c_nn $(flags graticule_c_nn) >out 2>&1 || fail "mpicc with networks"
        "$@" 2 ./consumer_c_nn >out 2>&1 || fail "the consumer in C with networks"
        grep -q 'c_nn: 2 ranks agree' out || fail "the consumer in C with networks did not report"
    fi
    if [ -e "$PKG_CONFIG_PATH/graticule_fortran_nn.pc" ]; then
        "$mpifort" "$sources/fortran_nn.f90" -o consumer_fortran_nn $(flags graticule_fortran_nn) >out 2>&1 || fail "mpifort with networks"
        "$@" 2 ./consumer_fortran_nn >out 2>&1 || fail "the consumer in Fortran with networks"
        grep -q 'fortran_nn: 2 ranks agree' out || fail "the consumer in Fortran with networks did not report"
    fi
    if [ -e "$PKG_CONFIG_PATH/graticule_fortran.pc" ]; then
        "$mpifort" "$sources/fortran.f90" -o consumer_fortran $(flags graticule_fortran) >out 2>&1 || fail "mpifort"
        "$@" 2 ./consumer_fortran >out 2>&1 || fail "the consumer in Fortran"
        grep -q 'fortran: 2 ranks agree' out || fail "the consumer in Fortran did not report"
    fi
    # The examples that are installed, by the lines of their README.
    examples=$prefix/share/graticule/examples
    [ -e "$examples/README.md" ] || fail "the README of the examples is not installed"
    "$mpicc" "$examples/c/tracer.c" -o tracer_c $(flags graticule_c) >out 2>&1 || fail "mpicc with the example"
    "$@" 2 ./tracer_c c.nc 4 >out 2>&1 || fail "the example in C"
    grep -q '^mean ' out || fail "the example in C did not report"
    if [ -e "$PKG_CONFIG_PATH/graticule_fortran.pc" ]; then
        "$mpifort" "$examples/fortran/tracer.f90" -o tracer_fortran $(flags graticule_fortran) >out 2>&1 || fail "mpifort with the example"
        "$@" 2 ./tracer_fortran fortran.nc 4 >out 2>&1 || fail "the example in Fortran"
        grep -q '^ *mean ' out || fail "the example in Fortran did not report"
        "$mpifort" "$examples/fortran/cubed_sphere.f90" -o cubed_sphere $(flags graticule_fortran) >out 2>&1 || fail "mpifort with cubed_sphere.f90"
        "$@" 2 ./cubed_sphere 8 >out 2>&1 || fail "the example of a cubed sphere"
        grep -q 'error .*change of the mass' out || fail "the example of a cubed sphere did not report"
        cmp c.nc fortran.nc || fail "the examples in C and Fortran wrote other files"
    fi
    if [ -e "$PKG_CONFIG_PATH/graticule_fortran_i8.pc" ]; then
        # Of a code whose default integers have 8 bytes: the options of the package say so.
        printf '%s\n' 'program long' '  use mpi, only: MPI_COMM_WORLD' '  use graticule' '  implicit none' '  type(gr_comm) :: comm' \
            '  integer :: num_ranks' '  call gr_init()' '  call gr_comm_create(MPI_COMM_WORLD, comm)' '  call gr_comm_size(comm, num_ranks)' \
            '  print *, "bytes", storage_size(num_ranks) / 8, num_ranks' '  call gr_finalize()' 'end program' >long.f90
        "$mpifort" long.f90 -o long $(flags graticule_fortran_i8) >out 2>&1 || fail "mpifort with long integers"
        "$@" 2 ./long >out 2>&1 || fail "the program with long integers"
        grep -q 'bytes *8 *2' out || fail "the program with long integers did not report"
    fi
}
