#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The launcher sees a failure, in time, when the last rank ends by itself in each operation:
# ends.sh RUNS PROGRAM OPERATION... -- LAUNCHER...; an operation that ends in ! is to succeed
set -uo pipefail

runs=$1 program=$2
shift 2
operations=()
while [ "$1" != -- ]; do
    operations+=("$1")
    shift
done
shift
launch=("$@")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# run OPERATION NUMBER
run() {
    local operation=${1%!} here=$folder/$1.$2 code
    mkdir "$here"
    timeout --kill-after=5 120 "${launch[@]}" "$program" "$operation" "$here" </dev/null >"$here/out" 2>&1
    code=$?
    case $1 in
        *!) [ $code -ne 0 ] || return ;;
        *) [ $code -eq 0 ] || [ $code -eq 124 ] || [ $code -eq 137 ] || return ;;
    esac
    printf 'FAILED: run %s of %s: exit %s (124: it does not end)\n' "$2" "$1" "$code"
    sed 's/^/    /' "$here/out"
    : >"$folder/failed"
}

for operation in "${operations[@]}"; do
    for ((number = 1; number <= runs; ++number)); do
        while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
        run "$operation" "$number" &
    done
done
wait
[ ! -e "$folder/failed" ] || exit 1
printf '%s runs of %s operations end as they have to\n' "$runs" "${#operations[@]}"
