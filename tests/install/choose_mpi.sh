#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Of two MPIs side by side the configure step takes MPICH, and Open MPI where that is named, each with its own launcher and
# HDF5; a pair that does not match is refused: choose_mpi.sh SOURCE CMAKE OPTION...
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"

source=$1
shift
for family in mpich:libmpich-dev openmpi:libopenmpi-dev; do
    package=${family#*:}
    family=${family%:*}
    for program in mpicc mpiexec; do
        [ -x "/usr/bin/$program.$family" ] || skip "no second MPI is installed: there is no $program.$family (apt: $package)"
    done
    pkg-config --exists "hdf5-$family" || skip "no second MPI is installed with its HDF5: there is no hdf5-$family (apt: libhdf5-$family-dev)"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What is on PATH or named in the environment of this run would be taken.
unset MPI_C_COMPILER MPI_CXX_COMPILER MPICC MPICXX MPI_HOME MPI_ROOT HDF5_ROOT HDF5_DIR CMAKE_PREFIX_PATH
export PATH=/usr/bin:/bin

fail() {
    printf 'FAILED: %s\n' "$*"
    cat "$work/log"
    exit 1
}

# configure FOLDER OPTION...: what the configure step prints in the file log, its status in $code
configure() {
    local folder=$work/$1
    shift
    "${command[@]}" -S "$source" -B "$folder" -DGRATICULE_ENABLE_TORCH=OFF -DGRATICULE_BUILD_TESTS=OFF -DGRATICULE_BUILD_APPS=OFF "$@" \
        >"$work/log" 2>&1
    code=$?
}

# stands_on FAMILY: the compiler, the launcher and the HDF5 that the last configure step printed are all of that family
stands_on() {
    [ $code -eq 0 ] || fail "exit $code, expected $1"
    grep -qE "Graticule: MPI [0-9.]+ by /usr/bin/mpicc\.$1, started by /usr/bin/mpiexec\.$1\$" "$work/log" ||
        fail "not the compiler and the launcher of $1"
    grep -qE "Graticule: HDF5 [0-9.]+ at [^;]*/$1/[^;]*;[^;]*/$1/[^;]*(; [a-z]+ inflates)?\$" "$work/log" || fail "not the HDF5 of $1"
}

command=("$@")
configure default
stands_on mpich
configure named -DMPI_C_COMPILER=mpicc.openmpi
stands_on openmpi
configure named_mpich -DMPI_C_COMPILER=mpicc.mpich
stands_on mpich
MPI_C_COMPILER=mpicc.openmpi configure environment
stands_on openmpi
# Asked again with nothing named, a folder stays what it is.
configure environment
stands_on openmpi

library=$(pkg-config --libs-only-L hdf5-mpich | sed 's/^-L\([^ ]*\).*/\1/')
configure mixed -DMPI_C_COMPILER=mpicc.openmpi -DHDF5_ROOT="$library"
[ $code -ne 0 ] || fail "Open MPI with the HDF5 of MPICH is taken"
tr -s ' \n' ' ' <"$work/log" | grep -q 'MPI and HDF5 do not match: a program with both loads libmpi\.so[.0-9]* and libmpich\.so' ||
    fail "the refusal does not name both"
