#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Kills a program again and again while it writes checkpoints, and loads the newest on another number of ranks each time:
# kill_checkpoints.sh KILLS CHECKPOINT_LOOP MPIEXEC NUMPROC_FLAG [FLAGS...]
set -uo pipefail

kills=$1
program=$2
mpiexec=("${@:3:1}" "${@:5}")
numproc=$4
seed=${GRATICULE_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
printf 'seed %s\n' "$seed"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf 'FAILED: %s\n' "$1"
    ls -la "$folder"
    exit 1
}

for ((i = 0; i < kills; ++i)); do
    timeout --kill-after=10 60 "${mpiexec[@]}" "$numproc" 2 "$program" write "$folder" $((seed + i)) > "$folder.log" 2>&1
    code=$?
    if [ $code -eq 0 ] || [ $code -eq 124 ]; then
        cat "$folder.log"
        fail "kill $i: the writer ended with $code instead of being killed"
    fi
    timeout --kill-after=10 60 "${mpiexec[@]}" "$numproc" $((1 + i % 3)) "$program" check "$folder" ||
        fail "kill $i of seed $seed: exit $?"
done
rm -f "$folder.log"
