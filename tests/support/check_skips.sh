#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Skipped cases of a program that passes are written down, counted, and judged: check_skips.sh SCRIPTS LAUNCHER... PROGRAM
set -uo pipefail

skips=$1/skips
tab=$'\t'
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf 'FAILED: %s\n' "$1"
    cat "$folder"/*
    exit 1
}

export GRATICULE_TEST_SKIPS=$folder/lines GRATICULE_TEST_NAME=the.test.np2
"$@" >"$folder/out" 2>&1 || fail "exit $?"
printf '%s\t%s\t%s\n' the.test.np2 Skips.on_all_ranks "a tool is not installed" \
    the.test.np2 Skips.on_the_last_rank "the last rank sits out (on rank 1)" >"$folder/expected"
cmp -s "$folder/lines" "$folder/expected" || fail "other lines"

# So is a run on GPUs where none is visible.
GRATICULE_TEST_SKIPS=$folder/gpu GRATICULE_TEST_MEMORY=gpu CUDA_VISIBLE_DEVICES='' HIP_VISIBLE_DEVICES='' "$@" >"$folder/out" 2>&1
[ $? -eq 77 ] || fail "a run on GPUs without one does not end with 77"
grep -q "^the.test.np2${tab}the whole test${tab}GRATICULE_TEST_MEMORY=gpu, and Kokkos (.*) finds no device\$" "$folder/gpu" ||
    fail "a run on GPUs without one leaves no line"

"$skips" "$folder/lines" >"$folder/out" || fail "exit $? of scripts/skips"
grep -qx '2 cases were skipped, in 1 tests:' "$folder/out" || fail "no count"
grep -q 'the.test.np2: Skips.on_all_ranks: a tool' "$folder/out" || fail "the tool is not reported"
! grep -q 'Skips.on_the_last_rank:' "$folder/out" || fail "a reason of ranks is reported"
"$skips" --strict "$folder/lines" >"$folder/out" && fail "exit 0 of scripts/skips --strict"
sed -i 1d "$folder/lines"
"$skips" --strict "$folder/lines" >"$folder/out" || fail "a reason of ranks is refused"
# A second MPI may be missing; the one that is needed, or another thing of it, may not.
printf '%s\t%s\t%s\n' install.choose_mpi "the whole test" "no second MPI is installed: there is no mpicc.openmpi" >"$folder/lines"
"$skips" --strict "$folder/lines" >"$folder/out" || fail "a second MPI that is missing is refused"
grep -q ' no second MPI is installed: ' "$folder/out" || fail "a second MPI that is missing is not counted"
for reason in "MPI is not installed" "mpicc.openmpi is not installed" "SLURM: no second MPI is installed"; do
    printf '%s\t%s\t%s\n' the.test "the whole test" "$reason" >"$folder/lines"
    "$skips" --strict "$folder/lines" >"$folder/out" && fail "exit 0 of scripts/skips --strict: $reason"
done
rm "$folder/lines"
"$skips" --strict "$folder/lines" >"$folder/out" || fail "refuses a run without skips"

# Tests in shell write the same.
. "$(dirname "${BASH_SOURCE[0]}")/skips.sh"
(skip no such tool) >"$folder/out"
[ $? -eq 77 ] || fail "a skipped script does not end with 77"
grep -q 'the.test.np2.*no such tool$' "$folder/lines" || fail "a skipped script leaves no line"
