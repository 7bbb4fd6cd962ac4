#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_examples.sh PROGRAM RANKS LAUNCHER...: the output of a simulation code has the same bytes on 1 and on RANKS ranks, with
# and without a restart on another number of ranks, and its wind slows down as the exact solution does.
set -euo pipefail
program=$1
ranks=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    printf 'FAILED: %s\n' "$*"
    cat out 2>/dev/null
    exit 1
}
# run RANKS ARGUMENT...
run() {
    local number=$1
    shift
    timeout 120 "${launcher[@]}" "$number" "$program" "$@" >out 2>&1 || fail "exit $? of $number ranks: $*"
}
launcher=("$@")

# The line comes without a backtrace; launchers may add others.
code=0
timeout 60 "${launcher[@]}" 1 "$program" >out 2>&1 || code=$?
[ $code != 0 ] && grep -q '^use: .* OUTPUT.nc STEPS' out && ! grep -q 'Backtrace' out || fail "exit $code without arguments"

run 1 one.nc 60
error=$(sed -n 's/.*error of the wind *//p' out)
awk -v error="$error" 'BEGIN { exit !(error != "" && error > 0 && error < 2e-3) }' || fail "the wind is wrong by '$error'"
run "$ranks" many.nc 60
cmp one.nc many.nc || fail "1 and $ranks ranks"
run "$ranks" half.nc 25 checkpoints
! cmp -s one.nc half.nc || fail "25 and 60 steps are the same"
run $((ranks % 3 + 1)) whole.nc 60 checkpoints
cmp one.nc whole.nc || fail "a restart on $((ranks % 3 + 1)) ranks"
if command -v ncdump >/dev/null; then
    ncdump -h one.nc >out
    grep -q 'double q(latitude, longitude)' out || fail "no q(latitude, longitude)"
fi
if "${launcher[@]}" 1 "$program" no/such/folder/out.nc 1 >out 2>&1; then fail "no error for a missing folder"; fi
grep -q 'folder' out || fail "the error does not name the folder"
