#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The installed drivers run without the project's folder: check_prefix.sh PREFIX SOURCE BUILD LAUNCHER...
#
# SOURCE/.deps and BUILD are hidden by empty folders in a mount namespace of this test where the user may make one, and
# everywhere no library of a driver may come from them.
set -uo pipefail
# As users start them: nothing is preloaded.
unset LD_PRELOAD
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"

script=$(realpath "$0")
prefix=$1
source=$2
build=$3
shift 3
launcher=("$@")
work=$(mktemp -d)
# The prefix may be mounted in there, and must not go.
trap 'cd /; umount "$work/prefix" 2>/dev/null; [ -e "$work/prefix/bin" ] || rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    printf 'FAILED: %s\n' "$*"
    cat out 2>/dev/null
    exit 1
}

compgen -G "$prefix/bin/graticule-*" >/dev/null || skip "the drivers are not built"

# Called by the test itself: in a namespace without the two folders, and the prefix, which lies in BUILD, elsewhere.
if [ "${GRATICULE_TEST_HIDDEN:-no}" = yes ]; then
    mkdir empty prefix
    mount --bind "$prefix" prefix || fail "mount"
    prefix=$work/prefix
    for folder in "$source/.deps" "$build"; do
        [ ! -d "$folder" ] || mount --bind empty "$folder" || fail "mount"
    done
fi
run() { timeout 120 "${launcher[@]}" 2 "$@" >out 2>&1 || fail "exit $?: $*"; }

for driver in "$prefix"/bin/graticule-*; do
    ldd "$driver" >out 2>&1 || fail "ldd $driver"
    ! grep -F "not found" out || fail "$driver lacks libraries"
    ! grep -F "$build/" out | grep -vF "$prefix/" || fail "$driver stands on the build folder"
    ! grep -F "$source/.deps/" out || fail "$driver stands on .deps"
    # Not drivers: what these start to read a file's structure, and to read exported networks.
    case ${driver##*/} in graticule-read-structure | graticule-info-network) continue ;; esac
    timeout 120 "$driver" --version >out 2>&1 || fail "$driver --version"
    grep -q "^${driver##*/} " out || fail "no version of $driver"
    page=$prefix/share/man/man1/${driver##*/}.1
    grep -qF -- '\-\-version' "$page" || fail "no manual page $page"
    if command -v man >/dev/null; then
        man --warnings -l "$page" 2>&1 >/dev/null | grep . >out && fail "warnings of $page"
    fi
done
run "$prefix/bin/graticule-make-fields" fields.nc --nlat 16 --nlon 32 --samples 4 --levels 1 --progress none
run "$prefix/bin/graticule-info" fields.nc
run "$prefix/bin/graticule-repartition" fields.nc other.nc --progress none
run "$prefix/bin/graticule-bench" halo --nlat 16 --nlon 32 --channels 1 --repetitions 3 --caches warm --progress none
if [ -x "$prefix/bin/graticule-train" ]; then
    run "$prefix/bin/graticule-train" --input fields.nc --inputs z --targets u,v --epochs 1 --channels 2 --blocks 1 --output trained --progress none
    [ -s trained/map.png ] || fail "no map of the training"
fi
for name in requeue.sh one_node.sh many_nodes.sh gpus.sh; do
    [ -x "$prefix/share/graticule/slurm/$name" ] || fail "no $name"
    bash -n "$prefix/share/graticule/slurm/$name" || fail "$name does not parse"
done
! grep -rF 'build/bin}' "$prefix/share/graticule/slurm" || fail "batch scripts look for the build folder"
[ -e "$prefix/share/doc/graticule/docs/slurm.md" ] || fail "no documentation"

if [ "${GRATICULE_TEST_HIDDEN:-no}" = no ] && unshare --mount true 2>/dev/null; then
    GRATICULE_TEST_HIDDEN=yes unshare --mount bash "$script" "$prefix" "$source" "$build" "${launcher[@]}" || exit 1
fi
