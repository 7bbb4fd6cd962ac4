#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests under SLURM, on the two nodes of cluster.sh: check.sh FOLDER CASE [PROGRAM ARGUMENT...].
# The environment names GRATICULE_SRUN_MPI (how srun starts this MPI; default: pmi2), FAILING_DRIVER, and for trainings
# GRATICULE_BIN, MAKE_FIELDS and SCRIPTS. Ends with 77 where the cluster could not be started.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"

base=$1
name=$2
shift 2
if [ -e "$base/reason" ]; then
    skip "$(cat "$base/reason")"
fi
export SLURM_CONF=$base/slurm.conf
mpi=${GRATICULE_SRUN_MPI:-pmi2}
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
case_program() { exec "${two_nodes[@]}" --mpi="$mpi" "$@"; }

# A program whose last rank ends while the others wait for it.
case_failing_program() {
    run_for 30 --mpi="$mpi" "$@"
    [ $code -ne 0 ] || fail "exit 0: $*"
}

# Without its plugin srun starts 4 worlds of one rank, each of which would do all the work.
case_world_of_one() {
    local worlds=()
    if [ "$mpi" = pmix ]; then
        # Open MPI 4.1.4 sees srun itself and ends in MPI_Init, but not where SLURM's variables are hidden in part. Its
        # worlds of one rank make and remove one folder, which fails now and then.
        run_for 60 --mpi=none "$FAILING_DRIVER" --mode good
        [ $code -ne 0 ] && grep -q 'direct launched using "srun"' "$err" || fail "exit $code, expected Open MPI's refusal"
        worlds=(sh -c 'unset SLURM_STEP_ID; OMPI_MCA_orte_tmpdir_base=$0/$SLURM_PROCID exec "$@"' "$base/tmp")
    fi
    run_for 60 --mpi=none "${worlds[@]}" "$FAILING_DRIVER" --mode good
    [ $code -eq 2 ] || fail "exit $code, expected 2"
    [ "$(grep -c "srun --mpi=$mpi" "$err")" -eq 1 ] || fail "the message does not name --mpi=$mpi once"
    run_for 60 --mpi=none "${worlds[@]}" "$FAILING_DRIVER" --mode good --allow-single-rank
    [ $code -eq 0 ] || fail "exit $code with --allow-single-rank"
}

# Statuses that all ranks return pass through srun; that of an abort does not.
case_exit_codes() {
    local case
    for case in good:0 all-input:3 agreed:3 check:4 program:1 again:85; do
        run_for 60 --mpi="$mpi" "$FAILING_DRIVER" --mode "${case%:*}"
        [ $code -eq "${case#*:}" ] || fail "exit $code of mode ${case%:*}, expected ${case#*:}"
    done
    run_for 60 --mpi="$mpi" "$FAILING_DRIVER" --mode agreed
    [ "$(grep -c 'file x is bad' "$err")" -eq 1 ] || fail "not one message"
}

# One rank ends without a word, or throws where the others do not, while these wait for it.
case_lonely_failures() {
    local mode
    for mode in killed crashed left alone terminate; do
        run_for 30 --mpi="$mpi" "$FAILING_DRIVER" --mode $mode
        [ $code -ne 0 ] || fail "exit 0 of mode $mode"
    done
}

# submit SCRIPT OUTPUT SBATCH-OPTION... -- TRAIN-OPTION...: the job's number in $job
submit() {
    local script=$1 output=$2
    local options=()
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    job=$(sbatch --parsable --chdir="$work" --time=50 --cpus-per-task=1 --output="$work/$output.log" "${options[@]}" \
        "$SCRIPTS/$script" --input "$work/fields.nc" --output "$work/$output" --channels 3 --blocks 1 --epochs "${epochs:-30}" --threads 1 \
        --progress none "$@" 2>"$err") || fail "sbatch refuses $script"
}

job_field() { scontrol --oneliner show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"; }

# wait_for STATE JOB: fails when the job ends otherwise or stays out
wait_for() {
    local state
    for _ in {1..2400}; do
        state=$(job_field "$2" JobState)
        case $state in
            "$1") return 0 ;;
            COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) break ;;
        esac
        sleep 0.2
    done
    cp "$work"/*.log "$out" 2>/dev/null
    fail "job $2 is $state, expected $1"
}

wait_for_checkpoint() {
    for _ in {1..3000}; do
        if compgen -G "$work/$1/checkpoints/checkpoint-*.h5" >/dev/null; then return 0; fi
        sleep 0.1
    done
    fail "no checkpoint in $1"
}

# wait_for_line TEXT LOG
wait_for_line() {
    for _ in {1..3000}; do
        if grep -qs -- "$1" "$work/$2"; then return 0; fi
        sleep 0.1
    done
    cp "$work/$2" "$out"
    fail "no '$1' in $2"
}

# SLURM itself holds a requeued job back for two minutes: a node refuses one that it has only just ended ("credential
# revoked").
start_again() {
    for _ in {1..300}; do
        if [ "$(sinfo --noheader --Node --format=%T | sort -u)" = idle ]; then break; fi
        sleep 0.2
    done
    sleep 10
    scontrol update JobId="$job" StartTime=now || fail "cannot be started at once"
}

prepare_training() {
    work=$base/work.$name
    rm -rf "$work"
    mkdir -p "$work"
    "$MAKE_FIELDS" "$work/fields.nc" >"$out" 2>"$err" || fail "no fields"
    export GRATICULE_BIN
}

two_by_two=(--nodes=2 --ntasks-per-node=2)

# The scripts as they are, but for the size of the job.
case_train_scripts() {
    prepare_training
    local epochs=2
    submit one_node.sh one --nodes=1 --ntasks-per-node=2 --
    local one=$job
    submit many_nodes.sh many "${two_by_two[@]}" -- --dtype f64 --verify
    wait_for COMPLETED "$one"
    wait_for COMPLETED "$job"
    grep -q "2 data teams" "$work/many.log" || { cp "$work/many.log" "$out"; fail "not one team a node"; }
    [ -e "$work/one/map.png" ] && [ -e "$work/many/map.png" ] || fail "outputs are missing"
    job=$(sbatch --parsable --chdir="$work" --gpus-per-node=0 "${two_by_two[@]}" --cpus-per-task=1 --time=5 --output="$work/gpus.log" \
        "$SCRIPTS/gpus.sh" -- "$GRATICULE_BIN/graticule-train" --version 2>"$err") || fail "sbatch refuses gpus.sh"
    wait_for COMPLETED "$job"
    grep -q graticule-train "$work/gpus.log" || fail "gpus.sh did not run the program"
    # The nodes here have no GPU: it trains on the host where that is asked for.
    job=$(GRATICULE_DEVICE=cpu sbatch --parsable --chdir="$work" --gpus-per-node=0 "${two_by_two[@]}" --cpus-per-task=1 --time=5 \
        --output="$work/gpus_train.log" "$SCRIPTS/gpus.sh" --help 2>"$err") || fail "sbatch refuses gpus.sh with options"
    wait_for COMPLETED "$job"
    grep -q -- --device "$work/gpus_train.log" || fail "gpus.sh did not run graticule-train"
}

# Stopped by the signal that --signal sends, the job goes back into the queue and its losses are those of one piece.
case_train_requeued() {
    prepare_training
    submit requeue.sh whole "${two_by_two[@]}" --
    wait_for COMPLETED "$job"
    submit requeue.sh parts "${two_by_two[@]}" -- --checkpoint-every 5
    local round
    for round in 1 2; do
        wait_for_checkpoint parts
        scancel --signal=USR1 "$job" || fail "no signal"
        wait_for PENDING "$job"
        [ "$(job_field "$job" Restarts)" = $round ] || fail "$(job_field "$job" Restarts) restarts, expected $round"
        [ ! -e "$work/parts/loss.csv" ] || fail "outputs of a training that has not ended"
        [ $round -eq 1 ] || break
        start_again
        wait_for RUNNING "$job"
        wait_for_line "resumed after step" parts.log
    done
    start_again
    wait_for COMPLETED "$job"
    cmp "$work/whole/loss.csv" "$work/parts/loss.csv" >"$out" 2>&1 || fail "other losses than those of one piece"
    grep -c "resumed after step" "$work/parts.log" | grep -qx 2 || fail "not resumed twice"
}

# forecast FOLDER OPTION...: a job of forecast.sh on a small network; its number in $job
forecast() {
    job=$(sbatch --parsable --chdir="$work" --time=50 --cpus-per-task=1 --output="$work/$1.log" "${two_by_two[@]}" \
        "$SCRIPTS/forecast.sh" --checkpoint "$work/net" --input "$work/swe/series.nc" --start 2000-01-01T12 --steps 120 --every 4 \
        --threads 1 --progress none --output "$work/$1" "${@:2}" 2>"$err") || fail "sbatch refuses forecast.sh"
}

# Stopped by the signal that --signal sends, a forecast goes back into the queue, and its files are those of one piece.
case_forecast_requeued() {
    work=$base/work.$name
    rm -rf "$work"
    mkdir -p "$work"
    export GRATICULE_BIN
    local quiet=(--threads 1 --progress none --log-level warn)
    "$GRATICULE_BIN/graticule-swe" --case random --nlat 16 --nlon 32 --days 3 --every 6h "${quiet[@]}" --output "$work/swe" \
        >"$out" 2>"$err" || fail "no simulation"
    "$GRATICULE_BIN/graticule-train" --input "$work/swe/series.nc" --prognostic h,u,v --lead 6h --channels 4 --blocks 1 --epochs 2 \
        --train-fraction 0.7 "${quiet[@]}" --output "$work/net" >"$out" 2>"$err" || fail "no network"
    forecast whole
    wait_for COMPLETED "$job"
    forecast parts --checkpoint-every 10
    wait_for_checkpoint parts
    scancel --signal=USR1 "$job" || fail "no signal"
    wait_for PENDING "$job"
    [ "$(job_field "$job" Restarts)" = 1 ] || fail "$(job_field "$job" Restarts) restarts, expected 1"
    [ -e "$work/parts/stopped" ] || fail "the file stopped is missing"
    [ ! -e "$work/parts/scores.csv" ] || fail "scores of a forecast that has not ended"
    start_again
    wait_for_line "continues after step" parts.log
    wait_for COMPLETED "$job"
    [ ! -e "$work/parts/stopped" ] || fail "the file stopped is left"
    local file
    for file in forecast.nc scores.csv; do
        cmp "$work/whole/$file" "$work/parts/$file" >"$out" 2>&1 || fail "another $file than that of one piece"
    done
}

# A rank that is killed ends the job with an error; submitted again it goes on from the last checkpoint.
case_train_killed() {
    prepare_training
    submit requeue.sh whole "${two_by_two[@]}" --
    wait_for COMPLETED "$job"
    submit requeue.sh killed "${two_by_two[@]}" -- --checkpoint-every 5
    wait_for_checkpoint killed
    local rank
    rank=$(pgrep --newest --full "^$GRATICULE_BIN/graticule-train .*--output $work/killed ") || fail "no rank to kill"
    kill -KILL "$rank"
    wait_for FAILED "$job"
    [ ! -e "$work/killed/loss.csv" ] || fail "outputs of a training that was killed"
    submit requeue.sh killed "${two_by_two[@]}" -- --checkpoint-every 5
    wait_for COMPLETED "$job"
    grep -q "resumed after step" "$work/killed.log" || fail "began anew"
    cmp "$work/whole/loss.csv" "$work/killed/loss.csv" >"$out" 2>&1 || fail "other losses than those of one piece"
}

# SLURM's own time limit: the signal that --signal asks for comes up to a minute early, the job goes back into the queue with a
# checkpoint, and goes on.
case_train_time_limit() {
    prepare_training
    local epochs=100000
    submit requeue.sh limited "${two_by_two[@]}" --time=2 --signal=USR1@60 -- --time-limit none --checkpoint-every 1000000
    wait_for RUNNING "$job"
    wait_for PENDING "$job"
    [ "$(job_field "$job" Restarts)" = 1 ] || fail "$(job_field "$job" Restarts) restarts, expected 1"
    compgen -G "$work/limited/checkpoints/checkpoint-*.h5" >/dev/null || fail "no checkpoint at the time limit"
    start_again
    wait_for_line "resumed after step" limited.log
    scancel "$job"
}

# A node fails, and the job is given the other one alone: it goes on from its last checkpoint on half as many ranks.
case_train_node_down() {
    prepare_training
    submit requeue.sh whole "${two_by_two[@]}" -- --dtype f64
    wait_for COMPLETED "$job"
    submit requeue.sh parts "${two_by_two[@]}" -- --dtype f64 --checkpoint-every 5
    wait_for_checkpoint parts
    scontrol update NodeName=n2 State=DOWN Reason=test || fail "the node stays up"
    wait_for PENDING "$job"
    scontrol update JobId="$job" NumNodes=1-1 NumTasks=2 NumCPUs=2 || fail "the job keeps its nodes"
    for _ in {1..300}; do
        if [ "$(sinfo --noheader --nodes=n1 --Node --format=%T)" = idle ]; then break; fi
        sleep 0.2
    done
    sleep 10
    scontrol update JobId="$job" StartTime=now || fail "cannot be started at once"
    wait_for COMPLETED "$job"
    scontrol update NodeName=n2 State=RESUME
    grep -q "resumed after step" "$work/parts.log" || { cp "$work/parts.log" "$out"; fail "began anew"; }
    # Other ranks, another order of sums: the losses differ in their last digits.
    paste -d, "$work/whole/loss.csv" "$work/parts/loss.csv" | awk -F, '
        NR > 1 { for (i = 1; i <= NF / 2; ++i) if (($i - $(i + NF / 2)) ^ 2 > 1e-16 * $i ^ 2) wrong = 1 }
        END { exit wrong || NR < 3 }' || { paste "$work/whole/loss.csv" "$work/parts/loss.csv" >"$out"; fail "other losses"; }
}

declare -F "case_$name" >/dev/null || fail "no case $name"
"case_$name" "$@"
