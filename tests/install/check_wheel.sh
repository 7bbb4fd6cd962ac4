#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_wheel.sh SOURCE PYTHON [WHEEL]: the wheel of scripts/wheel (made where none is named) in new environments, with MPICH and with Intel MPI of
# the package index and with the MPICH of this machine: the same losses by mpiexec and by torchrun on real fields, one MPI library in the
# process, the drivers, errors where no MPI fits, and nothing left by pip uninstall. Needs DATA.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"
source=$1
python=$2
wheel=${3:+$(realpath "$3")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    printf 'FAILED: %s\n' "$*"
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

expected=
for extra in mpich intel machine; do
    env=$work/$extra
    bin=$env/bin
    "$python" -m venv "$env" >"$work/log" 2>&1 || fail "an environment"
    if [ $extra = machine ]; then
        mpiexec=$(command -v mpiexec.mpich) || { printf 'left out: this machine has no MPICH of its own\n'; continue; }
        "$bin/pip" install -q "$wheel" >"$work/log" 2>&1 || fail "pip install of $wheel"
    else
        mpiexec=$bin/mpiexec
        "$bin/pip" install -q "$wheel[$extra]" >"$work/log" 2>&1 || fail "pip install of $wheel[$extra]"
    fi
    if [ $extra = intel ]; then export I_MPI_FABRICS=shm; else unset I_MPI_FABRICS; fi
    cd "$work" || exit 1
    for launcher in "$mpiexec -n 2 $bin/python" "$bin/torchrun --nproc-per-node 2"; do
        # shellcheck disable=SC2086 # words of a command
        found=$(losses $launcher)
        [ "$(printf '%s\n' "$found" | grep -c .)" = 3 ] || fail "$extra: the example by $launcher"
        expected=${expected:-$found}
        [ "$found" = "$expected" ] || fail "$extra: losses by $launcher are" $found "instead of" $expected
    done
    library=$("$mpiexec" -n 2 "$bin/python" -c "$count" 2>"$work/log") || fail "$extra: one MPI library"
    case $extra in machine) case $library in "$work"/*) fail "$library is not the machine's" ;; esac ;; *) case $library in "$env"/*) ;; *) fail "$library is not of $env" ;; esac ;; esac
    "$mpiexec" -n 2 "$bin/graticule-info" "$file" >"$work/log" 2>&1 && grep -q 'latitude = 241' "$work/log" || fail "$extra: graticule-info"
    "$bin/graticule-train" --version >"$work/log" 2>&1 && grep -q graticule "$work/log" || fail "$extra: graticule-train"
    printf '%s: %s, the same losses by mpiexec and torchrun\n' "$extra" "$library"
    "$bin/pip" uninstall -q -y graticule >"$work/log" 2>&1 || fail "pip uninstall"
    left=$(find "$env" -iname '*graticule*' | head -n 3)
    [ -z "$left" ] || fail "pip uninstall leaves $left"
    rm -rf "$env"
done
cat <<<"$expected"
