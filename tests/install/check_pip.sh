#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_pip.sh SOURCE BUILD CMAKE PYTHON LAUNCHER...: `pip install .` in an environment of its own, with the torch of PYTHON, then the
# example on real fields from another folder. Compiles all layers, in BUILD/pip, so that a compiler cache serves the next time. Needs DATA.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"
source=$1
build=$2
export CMAKE_EXECUTABLE=$3
python=$4
shift 4
fail() {
    printf 'FAILED: %s\n' "$*"
    tail -n 40 "$work/log" 2>/dev/null
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent.parent)') || fail "the torch of $python"
"$python" -m venv "$work/env" >"$work/log" 2>&1 || fail "an environment"
export PATH=$work/env/bin:$PATH PYTHONNOUSERSITE=1
unset PYTHONPATH
# The packages of the project's Python stand for those that a user has.
printf '%s\n' "$packages" >"$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/user.pth"
python -c 'import torch, mpi4py, numpy' >"$work/log" 2>&1 || fail "the packages of a user"
pip --disable-pip-version-check install -q scikit-build-core >"$work/log" 2>&1 || skip "scikit-build-core is not to be had"
value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
CC=$(value CMAKE_C_COMPILER) CXX=$(value CMAKE_CXX_COMPILER) MPI_C_COMPILER=$(value MPI_C_COMPILER) Kokkos_ROOT=$(value Kokkos_DIR)
CMAKE_CXX_COMPILER_LAUNCHER=$(value CMAKE_CXX_COMPILER_LAUNCHER)
export CC CXX MPI_C_COMPILER Kokkos_ROOT CMAKE_CXX_COMPILER_LAUNCHER
pip --disable-pip-version-check install --no-build-isolation --config-settings=build-dir="$build/pip" "$source" >"$work/log" 2>&1 || fail "pip install"

cd "$work" || exit 1
package=$(python -c 'import graticule, pathlib; print(pathlib.Path(graticule.__file__).parent)') || fail "import"
case $package in "$work"/env/*) ;; *) fail "the package is $package" ;; esac
for file in py.typed engine.py AGENTS.md libgraticule_c.so graticule-read-structure; do
    [ -e "$package/$file" ] || fail "the package lacks $file"
done
for file in "$package"/*.so "$package/graticule-read-structure"; do
    paths=$(readelf -d "$file" | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p')
    case :$paths: in *"$work"* | *"$build"* | *::*) fail "$file looks for libraries in $paths" ;; esac
    ! grep -qF "$build/pip/bin" "$file" || fail "$file names a folder of its build"
done
"$@" 2 python "$source/tests/install/consumer_python/consumer.py" "$package" >log 2>&1 || fail "the consumer"
grep -q 'python: 2 ranks agree' log || fail "the consumer did not report"
file=$DATA/eraint_uvz.nc
[ -e "$file" ] || skip "$file is not in GRATICULE_TEST_DATA"
"$@" 2 python "$source/apps/examples/python/train.py" "$file" --variable z --steps 20 --width 4 --picture forecast.png >log 2>&1 || fail "the example"
cat log
losses=$(sed -n 's/^step .* loss //p' log)
python -c 'import sys; a = [float(x) for x in sys.argv[1:]]; sys.exit(not (len(a) > 1 and a[-1] < a[0]))' $losses || fail "the loss does not decrease"
