#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Trainings on 2 ranks that are stopped or killed and go on: interrupt.sh CASE FOLDER. The environment names DRIVER,
# MAKE_FIELDS and MPIEXEC (with its option for the number of ranks).
set -uo pipefail

name=$1
folder=$2
read -r -a launcher <<<"$MPIEXEC"
rm -rf "$folder"
mkdir -p "$folder"
log=$folder/log

fail() {
    printf 'FAILED: %s\n' "$*"
    sed 's/^/  /' "$log"
    exit 1
}

"${launcher[@]}" 1 "$MAKE_FIELDS" "$folder/fields.nc" >"$log" 2>&1 || fail "no fields"

# start RANKS OUTPUT OPTION...: in the background, as $pid; finish: its exit status in $code
start() {
    local ranks=$1 output=$2
    shift 2
    env --default-signal=HUP "${launcher[@]}" "$ranks" "$DRIVER" --input "$folder/fields.nc" --output "$folder/$output" --channels 3 --blocks 1 \
        --epochs "${epochs:-60}" --threads 1 --progress none "$@" >"$log" 2>&1 &
    pid=$!
}

finish() {
    wait "$pid"
    code=$?
}

train() {
    start "$@"
    finish
}

# ranks_of PID: the driver's processes that a launcher has started
ranks_of() {
    local child
    for child in $(pgrep -P "$1"); do
        if [ "$(cat "/proc/$child/comm" 2>/dev/null)" = graticule-train ]; then printf '%s\n' "$child"; fi
        ranks_of "$child"
    done
}

# interrupt SIGNAL OUTPUT: sends it to one of two ranks after the first checkpoint
interrupt() {
    start 2 "$2" --checkpoint-every 5
    for _ in {1..600}; do
        if compgen -G "$folder/$2/checkpoints/checkpoint-*.h5" >/dev/null; then break; fi
        sleep 0.1
    done
    kill "-$1" "$(ranks_of "$pid" | tail -n 1)" || fail "no rank to send $1 to"
    finish
}

expect_no_outputs() {
    local file
    for file in loss.csv prediction.nc map.png report.json; do
        [ ! -e "$folder/$1/$file" ] || fail "$file is there although the training has not ended"
    done
    [ -z "$(find "$folder/$1" -maxdepth 1 \( -name '*.tmp*' -o -name ".*" \) ! -name .in-use)" ] || fail "temporary files are left over"
}

expect_the_same_curve() {
    cmp "$folder/whole/loss.csv" "$folder/$1/loss.csv" >>"$log" 2>&1 || fail "loss.csv of $1 differs"
}

case_signals() {
    train 2 whole
    [ $code -eq 0 ] || fail "exit $code"
    local signal
    for signal in USR1 TERM HUP; do
        interrupt $signal $signal
        [ $code -eq 85 ] || fail "exit $code after $signal, expected 85"
        grep -q "stopped by signal $signal" "$log" || fail "does not say that $signal stopped it"
        expect_no_outputs $signal
        grep -qxE "signal $signal after step [0-9]+ of 120" "$folder/$signal/stopped" || fail "the file stopped does not say so"
        train 2 $signal --checkpoint-every 50
        [ $code -eq 0 ] || fail "exit $code of the resumed training"
        [ ! -e "$folder/$signal/stopped" ] || fail "the file stopped stays when the training has ended"
        grep -q "resumed after step" "$log" || fail "began anew"
        expect_the_same_curve $signal
    done
    # A training that has ended has nothing to do but its outputs.
    rm "$folder/USR1/loss.csv"
    train 2 USR1 --checkpoint-every 50
    [ $code -eq 0 ] || fail "exit $code"
    grep -q "resumed after step 120 of 120" "$log" || fail "a complete training was repeated"
    expect_the_same_curve USR1
    train 2 USR1 --lr 1e-3
    [ $code -eq 2 ] || fail "exit $code of a training with another --lr, expected 2"
    grep -q -- "--lr 0.001" "$log" || fail "does not name the option that differs"
}

# A signal to the launcher, which hands it on. Hydra 4.0.2 then ends with 0 in some runs: the file tells what happened.
case_launcher() {
    train 2 whole
    [ $code -eq 0 ] || fail "exit $code"
    start 2 handed --checkpoint-every 5
    for _ in {1..600}; do
        if compgen -G "$folder/handed/checkpoints/checkpoint-*.h5" >/dev/null; then break; fi
        sleep 0.1
    done
    kill -USR1 "$pid" || fail "no launcher"
    finish
    grep -qxE "signal USR1 after step [0-9]+ of 120" "$folder/handed/stopped" || fail "no file stopped"
    expect_no_outputs handed
    # What ends with an error is not to be run again: nothing but a stop leaves the file.
    train 2 handed --lr 1e-3
    [ $code -eq 2 ] || fail "exit $code of a training with another --lr, expected 2"
    [ ! -e "$folder/handed/stopped" ] || fail "the file stopped outlives the next start"
    train 2 handed --checkpoint-every 50
    [ $code -eq 0 ] || fail "exit $code of the resumed training"
    expect_the_same_curve handed
}

case_killed() {
    train 2 whole
    [ $code -eq 0 ] || fail "exit $code"
    interrupt KILL killed
    [ $code -ne 0 ] && [ $code -ne 85 ] || fail "exit $code although a rank was killed"
    [ ! -e "$folder/killed/stopped" ] || fail "the file stopped although it was killed"
    expect_no_outputs killed
    train 2 killed --checkpoint-every 50
    [ $code -eq 0 ] || fail "exit $code of the resumed training"
    grep -q "resumed after step" "$log" || fail "began anew"
    expect_the_same_curve killed
}

case_time_limit() {
    train 2 whole
    [ $code -eq 0 ] || fail "exit $code"
    train 2 limited --time-limit 0
    [ $code -eq 85 ] || fail "exit $code at the time limit, expected 85"
    grep -q "stopped by the time limit after step 1 of 120" "$log" || fail "does not name the time limit"
    expect_no_outputs limited
    SLURM_JOB_END_TIME=$(($(date +%s) + 30)) train 2 limited
    [ $code -eq 85 ] || fail "exit $code before the end of a job, expected 85"
    grep -q "stopped by the time limit after step 2 of 120" "$log" || fail "goes on where a job ends"
    # A certain file, of which a copy may lie anywhere.
    cp "$folder"/limited/checkpoints/checkpoint-*-step-000000001.h5 "$folder/mine.h5"
    train 2 limited --resume "$folder/mine.h5"
    [ $code -eq 0 ] || fail "exit $code"
    grep -q "resumed after step 1 of 120" "$log" || fail "not resumed from the file that was named"
    expect_the_same_curve limited
    epochs=1 train 2 limited --resume never
    [ $code -eq 0 ] || fail "exit $code"
    [ "$(wc -l <"$folder/limited/loss.csv")" -eq 3 ] || fail "did not start anew"
    train 2 limited --resume "$folder/absent.h5"
    [ $code -eq 3 ] || fail "exit $code without the file to resume from, expected 3"
}

declare -F "case_$name" >/dev/null || fail "no case $name"
"case_$name"
