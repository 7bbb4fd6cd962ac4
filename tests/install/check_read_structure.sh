#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs find the graticule-read-structure of the installation that they belong to, wherever that lies.
#
#   check_read_structure.sh --move PREFIX MOVED                   copies an installation (hard links) to another place
#   check_read_structure.sh MOVED CONSUMER BUILD LAUNCHER...      runs a program that was linked with it, and its drivers
#
# The copy's graticule-read-structure leaves a mark. The build folder's is there too, and must not be taken; without both,
# where BUILD/bin can be hidden in a mount namespace, programs name the folders in which they looked.
set -uo pipefail

fail() {
    printf 'FAILED: %s\n' "$*"
    cat out 2>/dev/null
    exit 1
}

# leave_mark PROGRAM REAL: PROGRAM adds a line to the file that MARK names, and does what REAL does.
leave_mark() {
    printf '#!/bin/sh\n[ -z "$MARK" ] || echo %s >>"$MARK"\nexec "%s" "$@"\n' "$1" "$2" >"$1"
    chmod +x "$1"
}

if [ "$1" = --move ]; then
    rm -rf "$3"
    cp -al "$2" "$3" || fail "cannot copy $2"
    program=$3/bin/graticule-read-structure
    mkdir "$3/real" && mv "$program" "$3/real" || fail "$2 has no graticule-read-structure"
    # It finds its libraries from where it lies.
    leave_mark "$program" "$3/real/graticule-read-structure"
    exit 0
fi

script=$(realpath "$0")
moved=$(realpath "$1")
consumer=$(realpath "$2")
build=$3
shift 3
launcher=("$@")
work=$(mktemp -d)
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 1
export MARK=$work/mark
unset GRATICULE_READ_STRUCTURE

# took EXPECTED COMMAND...: on 2 ranks; the program that read the files
took() {
    local expected=$1
    shift
    rm -f "$MARK"
    timeout 120 "${launcher[@]}" 2 "$@" >out 2>&1 || fail "exit $?: $*"
    [ "$(sort -u "$MARK" 2>/dev/null)" = "$expected" ] || fail "$1 took '$(sort -u "$MARK" 2>/dev/null)' instead of '$expected'"
    ! grep -q graticule-read-structure out || fail "$1 complains"
}

if [ "${GRATICULE_TEST_HIDDEN:-no}" = yes ]; then
    mkdir empty
    mount --bind empty "$build/bin" || fail "mount"
    took "$moved/bin/graticule-read-structure" "$consumer"
    # Nowhere: a line names the folders.
    mv "$moved/bin/graticule-read-structure" "$moved/away"
    timeout 120 "${launcher[@]}" 2 "$consumer" >out 2>&1
    code=$?
    mv "$moved/away" "$moved/bin/graticule-read-structure"
    [ $code = 0 ] || fail "exit $code without the program"
    # Rank 0 lists the file for all, and says it once.
    [ "$(grep -c 'graticule-read-structure was not found in' out)" = 1 ] || fail "not one line about the missing program"
    for folder in "$(dirname "$consumer")" "$moved/bin" "$build/bin" PATH; do
        grep 'was not found in' out | grep -qF "$folder" || fail "the line does not name $folder"
    done
    exit 0
fi

took "$moved/bin/graticule-read-structure" "$consumer"
cp consumer.nc fields.nc
# A copy of the program that was linked, elsewhere.
cp "$consumer" elsewhere
took "$moved/bin/graticule-read-structure" ./elsewhere
# The programs of the installation, by their paths and by PATH.
if [ -x "$moved/bin/graticule-info" ]; then
    took "$moved/bin/graticule-read-structure" "$moved/bin/graticule-info" fields.nc
    PATH=$moved/bin:$PATH took "$moved/bin/graticule-read-structure" graticule-info fields.nc
fi
# What the environment says comes first.
leave_mark "$work/named" "$moved/real/graticule-read-structure"
GRATICULE_READ_STRUCTURE=$work/named took "$work/named" "$consumer"
GRATICULE_READ_STRUCTURE=none took "" "$consumer"
# One of another version, or one that does not start, is passed over.
mkdir bin
printf '#!/bin/sh\nexit 2\n' >bin/graticule-read-structure
chmod +x bin/graticule-read-structure
cp "$consumer" bin/consumer
took "$moved/bin/graticule-read-structure" bin/consumer

if ! unshare --mount true 2>/dev/null; then
    echo "The part without the build folder needs a mount namespace."
    exit 0
fi
GRATICULE_TEST_HIDDEN=yes unshare --mount bash "$script" "$moved" "$consumer" "$build" "${launcher[@]}" || exit 1
