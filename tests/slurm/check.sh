#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests under SLURM, on the two nodes of cluster.sh: check.sh FOLDER CASE [PROGRAM ARGUMENT...].
# The environment names FAILING_DRIVER. Ends with 77 where the cluster could not be started.
set -uo pipefail

base=$1
name=$2
shift 2
if [ -e "$base/reason" ]; then
    printf 'skipped: %s\n' "$(cat "$base/reason")"
    exit 77
fi
export SLURM_CONF=$base/slurm.conf
out=$base/out.$name
err=$base/err.$name

fail() {
    printf 'FAILED: %s\n' "$*"
    sed 's/^/  stdout: /' "$out"
    sed 's/^/  stderr: /' "$err"
    exit 1
}

two_nodes=(srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --kill-on-bad-exit=1 --time=5 --quiet)

# run_for SECONDS OPTION... PROGRAM ARGUMENT...: on 4 ranks of two nodes; exit status in $code
run_for() {
    local seconds=$1 begin=$SECONDS
    shift
    # Not the status of `timeout`: 137 is also what srun makes of MPI_Abort.
    timeout --kill-after=10 "$seconds" "${two_nodes[@]}" "$@" >"$out" 2>"$err"
    code=$?
    [ $((SECONDS - begin)) -lt "$seconds" ] || fail "does not end within $seconds s: $*"
}

# Any test program; what it prints is printed.
case_program() { exec "${two_nodes[@]}" --mpi=pmi2 "$@"; }

# A program whose last rank ends while the others wait for it.
case_failing_program() {
    run_for 30 --mpi=pmi2 "$@"
    [ $code -ne 0 ] || fail "exit 0: $*"
}

# Without its plugin srun starts 4 worlds of one rank, each of which would do all the work.
case_world_of_one() {
    run_for 60 --mpi=none "$FAILING_DRIVER" --mode good
    [ $code -eq 2 ] || fail "exit $code, expected 2"
    [ "$(grep -c 'srun --mpi=pmi2' "$err")" -eq 1 ] || fail "the message does not name --mpi=pmi2 once"
    run_for 60 --mpi=none "$FAILING_DRIVER" --mode good --allow-single-rank
    [ $code -eq 0 ] || fail "exit $code with --allow-single-rank"
}

# Statuses that all ranks return pass through srun; that of an abort does not.
case_exit_codes() {
    local case
    for case in good:0 all-input:3 agreed:3 check:4 program:1 again:85; do
        run_for 60 --mpi=pmi2 "$FAILING_DRIVER" --mode "${case%:*}"
        [ $code -eq "${case#*:}" ] || fail "exit $code of mode ${case%:*}, expected ${case#*:}"
    done
    run_for 60 --mpi=pmi2 "$FAILING_DRIVER" --mode agreed
    [ "$(grep -c 'file x is bad' "$err")" -eq 1 ] || fail "not one message"
}

# One rank ends without a word, or throws where the others do not, while these wait for it.
case_lonely_failures() {
    local mode
    for mode in killed crashed left alone terminate; do
        run_for 30 --mpi=pmi2 "$FAILING_DRIVER" --mode $mode
        [ $code -ne 0 ] || fail "exit 0 of mode $mode"
    done
}

declare -F "case_$name" >/dev/null || fail "no case $name"
"case_$name" "$@"
