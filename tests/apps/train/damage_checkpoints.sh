#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Damages checkpoints of a training and lets it go on: damage_checkpoints.sh COUNT FOLDER [RANKS]. The environment names
# DRIVER, MAKE_FIELDS, DAMAGE (damage_files) and MPIEXEC (with its option for the number of ranks), and may name a seed.
#
# A training leaves two checkpoints. Of the newer one, and of both in every fourth case, a mutant takes the place, and the
# training goes on by itself (even numbers), or from the damaged file by name (odd ones). It ends with the losses of the one
# that was never stopped, from whatever step it went on; or, from a file by name, with exit code 3 and one message that
# names the file. A signal, another exit code, other losses, and 10 s more than a whole training fail.
set -uo pipefail

count=$1
folder=$2
ranks=${3:-1}
seed=${GRATICULE_TEST_SEED:-1}
read -r -a launcher <<<"$MPIEXEC"
rm -rf "$folder"
mkdir -p "$folder"
log=$folder/log

fail() {
    printf 'FAILED: %s\n' "$*"
    sed 's/^/  /' "$log"
    exit 1
}

train() { # train SECONDS OUTPUT OPTION...
    local seconds=$1 output=$2
    shift 2
    timeout --kill-after=5 "$seconds" "${launcher[@]}" "$ranks" "$DRIVER" --input "$folder/fields.nc" --output "$folder/$output" \
        --channels 3 --blocks 1 --epochs 3 --checkpoint-every 1 --threads 1 --progress none "$@" >"$log" 2>&1
    code=$?
}

"${launcher[@]}" 1 "$MAKE_FIELDS" "$folder/fields.nc" >"$log" 2>&1 || fail "no fields"
slowest=0
for name in first whole; do
    start=$SECONDS
    train 200 $name
    [ $code = 0 ] || fail "exit $code of a whole training"
    ((slowest = SECONDS - start > slowest ? SECONDS - start : slowest))
done
cmp "$folder/first/loss.csv" "$folder/whole/loss.csv" || fail "two whole trainings differ"
mapfile -t checkpoints < <(cd "$folder/whole/checkpoints" && printf '%s\n' checkpoint-*.h5 | sort)
[ ${#checkpoints[@]} = 3 ] || fail "${#checkpoints[@]} checkpoints instead of 3"
older=${checkpoints[0]}
newer=${checkpoints[1]}

longest=0
resumed_newer=0
resumed_older=0
began=0
refused=0
for ((number = 0; number < count; ++number)); do
    rm -rf "$folder/again"
    mkdir -p "$folder/again/checkpoints"
    damaged=$folder/again/checkpoints/$newer
    "$DAMAGE" --seed "$seed" --mutant "$number" "$folder/whole/checkpoints/$newer" "$damaged" || fail "no mutant $number"
    if ((number % 4 == 0)); then
        "$DAMAGE" --seed "$seed" --mutant "$((number + 1))" "$folder/whole/checkpoints/$older" "$folder/again/checkpoints/$older" ||
            fail "no mutant $number"
    else
        cp "$folder/whole/checkpoints/$older" "$folder/again/checkpoints/$older"
    fi
    options=()
    ((number % 2 == 0)) || options=(--resume "$damaged")
    start=$SECONDS
    train $((slowest + 10)) again "${options[@]}"
    ((longest = SECONDS - start > longest ? SECONDS - start : longest))
    case $code in
        0)
            cmp "$folder/whole/loss.csv" "$folder/again/loss.csv" >>"$log" 2>&1 || fail "mutant $number (seed $seed): other losses"
            step=$(sed -nE 's/.*resumed after step ([0-9]+).*/\1/p' "$log" | head -n 1)
            case $step in
                4) ((++resumed_older)) ;;
                5) ((++resumed_newer)) ;;
                "")
                    grep -q 'warning no checkpoint is intact' "$log" || fail "mutant $number (seed $seed): began anew without a warning"
                    ((++began))
                    ;;
                *) fail "mutant $number (seed $seed): resumed after step $step" ;;
            esac
            ;;
        3)
            ((number % 2 == 1)) || fail "mutant $number (seed $seed): refused, although an older one is there or none is needed"
            [ "$(grep -cF "$newer" "$log")" = 1 ] || fail "mutant $number (seed $seed): not one line that names the file"
            ((++refused))
            ;;
        124 | 137) fail "mutant $number (seed $seed): more than $((slowest + 10)) s" ;;
        *) fail "mutant $number (seed $seed): exit $code" ;;
    esac
done
printf 'seed %s, %d damaged checkpoints, %d ranks: %d refused by name, %d went on from the damaged one, %d from an older one, %d began anew; at most %d s, a whole training %d s\n' \
    "$seed" "$count" "$ranks" $refused $resumed_newer $resumed_older $began $longest $slowest
((refused > 0 && resumed_older > 0)) || fail "nothing was damaged"
