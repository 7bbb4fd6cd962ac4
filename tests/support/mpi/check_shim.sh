#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every kind of object that a program leaves behind fails it by name: check_shim.sh LAUNCHER... PROGRAM
set -uo pipefail

fail() {
    printf 'FAILED: %s\n%s\n' "$1" "$output"
    exit 1
}

output=$(timeout 60 "$@" nothing 2>&1) || fail "a program that leaves nothing"
while IFS=: read -r kind text; do
    if output=$(timeout 60 "$@" "$kind" 2>&1 </dev/null); then fail "exit 0 with a $kind left behind"; fi
    printf '%s' "$output" | grep -qF -- "$text" || fail "no word of the $kind"
done <<'KINDS'
request:1 requests of MPI_Send_init left at the end
receive:a receive of MPI_Recv_init was freed before it ended
communicator:1 communicators of MPI_Comm_split left at the end
type:1 data types of MPI_Type_commit left at the end
window:1 windows of MPI_Win_create left at the end
message:was never received (communicator of MPI_Init)
message of a communicator:was never received (communicator of MPI_Comm_dup)
KINDS
