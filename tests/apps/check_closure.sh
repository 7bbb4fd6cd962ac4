#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_closure.sh PROGRAM WRITE_NETWORKS RANKS LAUNCHER...: the network learns the source of the tracer, its forecast is better
# than that without it, and RANKS ranks print what one does. The network that it saves can be loaded and learns on.
set -euo pipefail
program=$1
write_networks=$2
ranks=$3
shift 3
launcher=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    printf 'FAILED: %s\n' "$*"
    cat out* 2>/dev/null
    exit 1
}
# run RANKS FILE ARGUMENT...
run() {
    local number=$1 output=$2
    shift 2
    timeout 120 "${launcher[@]}" "$number" "$program" "$@" >"$output" 2>&1 || fail "exit $? of $number ranks: $*"
}

"$write_networks" .
run 1 out1 closure.pt2 one.pt2 60
run "$ranks" outn closure.pt2 many.pt2 60
numbers() { sed -n 's/^loss \(.*\), was \(.*\); error of the forecast \(.*\), without the network \(.*\)$/\1 \2 \3 \4/p' "$1"; }
paste -d ' ' <(numbers out1) <(numbers outn) | awk '
    function near(a, b) { return a - b < 1e-3 * b && b - a < 1e-3 * b }
    NF == 8 && $1 < 0.2 * $2 && $3 < 0.5 * $4 && near($1, $5) && near($2, $6) && near($3, $7) && near($4, $8) { good = 1 }
    END { exit !good }' || fail "the network does not learn, or not alike on $ranks ranks"
run "$ranks" out2 many.pt2 more.pt2 1
first=$(numbers out2 | cut -d ' ' -f 2)
awk -v first="$first" -v begin="$(numbers outn | cut -d ' ' -f 2)" 'BEGIN { exit !(first != "" && first < 0.5 * begin) }' ||
    fail "the saved network has not learned"
if "${launcher[@]}" 1 "$program" missing.pt2 x.pt2 1 >out3 2>&1; then fail "no error for a missing network"; fi
grep -q 'missing.pt2' out3 || fail "the error does not name the file"
