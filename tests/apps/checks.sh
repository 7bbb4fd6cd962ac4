# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Common head of the tests of drivers from outside: a folder to work in, and how a case ends. $code is the last status.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    printf 'FAILED: %s\n' "$*"
    [ -s out ] && sed 's/^/  stdout: /' out
    [ -s err ] && sed 's/^/  stderr: /' err
    exit 1
}
need() { command -v "$1" >/dev/null || skip "$1 is not installed ($2)"; }
succeeds() { [ $code -eq 0 ] || fail "exit $code"; }

# Open MPI's launcher tells Kokkos of more ranks than cores, of which Kokkos warns on each rank.
export KOKKOS_DISABLE_WARNINGS=ON

# launch NUM_RANKS PROGRAM ARGUMENT...: output in the files out and err, exit status in $code. $MPIEXEC is split.
launch() {
    local ranks=$1
    shift
    # shellcheck disable=SC2086
    timeout 120 $MPIEXEC "$ranks" "$@" </dev/null >out 2>err  # launchers read ahead in the list of a loop
    code=$?
    [ $code -ne 124 ] || fail "hangs: $*"
    drop_notices err
}

# drop_notices FILE: Open MPI's launcher repeats each exit code between lines of dashes, which are not the program's.
drop_notices() { sed -i -e '/^$/d' -e '/^-\{70,\}$/,/^-\{70,\}$/d' "$1"; }

# small_disk KIB: an empty file system of that size in the folder `disk`, until the next one or the end of the case.
small_disk() {
    mkdir -p disk
    ! mountpoint -q disk || umount disk
    mount -t tmpfs -o "size=$1k" tmpfs disk 2>/dev/null || skip "this user may not mount file systems"
    trap 'umount -l "$work/disk"; rm -rf "$work"' EXIT
}
# room FOLDER FILE...: KiB that suffice for all files of a folder but half of these
room() {
    local folder=$1 kib
    kib=$(du -sk --apparent-size "$folder" | cut -f1)
    shift
    kib=$((kib - $(cd "$folder" && du -ck --apparent-size "$@" | tail -n 1 | cut -f1) / 2))
    echo $((kib + 4 * $(find "$folder" | wc -l)))
}
# names_full_disk PATTERN: exit code 1 and one line, which names a file that matches, and nothing temporary is left
names_full_disk() {
    [ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] || fail "exit $code on a full disk"
    grep -qE "disk/$1 cannot be written: No space left on device" err || fail "the message names another file than disk/$1"
    [ -z "$(find disk -name '*.part')" ] || fail "something was left behind"
}
