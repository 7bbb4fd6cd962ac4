#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_exported_closure.sh PYTHON SOURCES PROGRAM...: the commands of apps/examples/README.md: each closure example takes the network that
# scripts/export.py makes of closure_net.py, learns with it, and prints what the others print. The environment names the launcher (MPIEXEC).
set -euo pipefail
python=$1
sources=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    printf 'FAILED: %s\n' "$*"
    cat out 2>/dev/null
    exit 1
}
"$python" "$sources/scripts/export.py" "$sources/apps/examples/python/closure_net.py:closure" net.pt2 --input 1x3x24x48 >out 2>&1 || fail "the export"
first=
for program in "$@"; do
    # shellcheck disable=SC2086
    timeout 120 $MPIEXEC 2 "$program" net.pt2 tuned.pt2 150 >out 2>&1 || fail "exit $? of $program"
    line=$(grep '^loss' out) || fail "no loss of $program"
    first=${first:-$line}
    [ "$line" = "$first" ] || fail "$program differs: $first"
done
sed -n 's/^.*error of the forecast \(.*\), without the network \(.*\)$/\1 \2/p' out | awk '$1 < 0.5 * $2 { good = 1 } END { exit !good }' ||
    fail "the network does not learn"
