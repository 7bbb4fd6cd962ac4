#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The engine on simulated ranks: check_engine.sh PROJECT BUILD RANKS. Every cell, sum and error is right, and no rank sends
# more messages than the engine should.
set -uo pipefail
. "$1/tests/support/skips.sh"
project=$1 ranks=$3
export GRATICULE_BUILD_DIR=$2

command -v smpirun >/dev/null || skip "SimGrid, which simulates ranks, is not installed (libsimgrid-dev)"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cd "$project" || exit 1
# Apart, because the time of the simulator grows with the square of the number of messages.
code=0
for part in cells sums; do
    timeout --kill-after=10 850 scripts/simulate fat_tree "$ranks" tests/simulated/engine.cpp 721 1440 $part >>"$out" 2>&1 ||
        code=$?
done
# Links of two kinds, and fields that all ranks share.
if [ "$ranks" -le 64 ]; then
    timeout --kill-after=10 850 scripts/simulate h200 "$ranks" tests/simulated/engine.cpp 128 256 halo transposition pencils >>"$out" 2>&1 ||
        code=$?
fi
cat "$out"

# at_most PHASE MESSAGES: of the rank that sends most
at_most() {
    local sent
    sent=$(sed -n "s/^$1  *\([0-9]*\) messages.*/\1/p" "$out" | sort -n | tail -n 1)
    [ -n "$sent" ] && [ "$sent" -le "$2" ] && return
    printf 'FAILED: %s messages for "%s", and at most %s are right\n' "${sent:-no}" "$1" "$2"
    code=1
}
log=0
while [ $((1 << log)) -lt "$ranks" ]; do log=$((log + 1)); done
side=1
while [ $((side * side)) -lt "$ranks" ]; do side=$((side + 1)); done
at_most "3 exchanges: poles, blocks" 24
[ "$ranks" -gt 64 ] || at_most "32 levels, 10 exchanges" 80
[ "$ranks" -gt 64 ] || at_most "8 levels: rows to columns" $((ranks - 1))
at_most "ordered sum of 4,096" $((4 * side))
at_most "comparison of calls" $((2 * (side > 16 ? side : 16) + 1))
at_most "maximum" $log
at_most "agreed error of a rank" $((7 * log))
at_most "plan: poles, blocks" $((8 * log + 8))
exit $code
