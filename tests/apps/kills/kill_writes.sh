#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Kills a driver at its writes, runs the same command again, and compares all results with those of a run that was not
# killed: kill_writes.sh DRIVER POINTS [RANK], with DRIVER swe, forecast, train, repartition or repartition_store; on 1 rank, or on 2 of which
# RANK is killed.
#
# POINTS is `every` (each write to the file that records are appended to; of train and repartition, which append to none,
# each write to a file of the output), `K/M` (each M-th of these, beginning with the K-th), or a number of random points:
# any system call that changes a file or its name. The environment names the folder of the programs (BIN), the launcher
# (MPIEXEC), that of the prepared network for forecast (PREPARED), and the seed of random points (GRATICULE_TEST_SEED).
# `A && B || fail` fails when either does.
# shellcheck disable=SC2015
driver=$1
points=$2
rank=${3:-}
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"
need strace strace
strace -o /dev/null true 2>/dev/null || skip "this user may not trace processes"

seed=${GRATICULE_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$((seed % 32768))
printf 'seed %s\n' "$seed"

quiet="--threads 1 --progress none --log-level warn"
changes=pwrite64,pwritev,write,ftruncate,fallocate,rename,link,unlink,unlinkat,fsync,mkdir
case $driver in
    swe)
        command="$BIN/graticule-swe --case 5 --nlat 16 --nlon 32 --days 1.25 --every 6h --checkpoint-every 30 --output out $quiet"
        appended=out/series.nc
        ;;
    forecast)
        cp -r "$PREPARED"/. . || fail "first: forecast's check.sh prepared"
        command="$BIN/graticule-forecast --checkpoint ../net --input ../swe/series.nc --start 2000-01-01T06 --steps 3 --output out $quiet"
        appended=out/forecast.nc
        ;;
    train)
        launch 1 "$BIN/graticule-make-fields" --nlat 8 --nlon 16 --samples 12 fields.nc
        succeeds
        command="$BIN/graticule-train --input ../fields.nc --channels 4 --blocks 1 --epochs 3 --checkpoint-every 3 --output out $quiet"
        ;;
    repartition)
        launch 1 "$BIN/graticule-make-fields" --nlat 16 --nlon 32 --samples 12 fields.nc
        succeeds
        command="$BIN/graticule-repartition ../fields.nc out/moved.nc --order longitude,latitude,level,sample $quiet"
        ;;
    repartition_store)
        launch 1 "$BIN/graticule-make-fields" --nlat 16 --nlon 32 --samples 12 fields.nc
        succeeds
        command="$BIN/graticule-repartition ../fields.nc out/moved.zarr --order longitude,latitude,level,sample --chunk longitude=8 --shard longitude=16 $quiet"
        ;;
    *) fail "no driver $driver" ;;
esac

# traced RULES: the command in a new folder, by strace
traced() {
    rm -rf run && mkdir -p run/out && cd run || exit 1
    # shellcheck disable=SC2086
    case $rank in
        # Bash says on its stderr that it was killed.
        "") { timeout 300 strace -f -o ../trace "$@" $command >../out 2>../err; } 2>/dev/null ;;
        0) timeout 300 $MPIEXEC 1 strace -f -o ../trace "$@" $command : -n 1 $command >../out 2>../err ;;
        1) timeout 300 $MPIEXEC 1 $command : -n 1 strace -f -o ../trace "$@" $command >../out 2>../err ;;
        *) fail "rank $rank of 2" ;;
    esac
    code=$?
    cd ..
}
again() {
    cd run || exit 1
    # shellcheck disable=SC2086
    if [ -n "$rank" ]; then timeout 300 $MPIEXEC 2 $command >../out 2>../err; else timeout 300 $command >../out 2>../err; fi
    code=$?
    cd ..
}
# results FOLDER: what a run leaves, without times and names of processes
results() {
    (cd "$1" && find out -type f ! -name report.json ! -path '*/checkpoints/*' -exec sha256sum {} + | sort -k 2)
    (cd "$1" && find out -name '.*' | sort)
}

traced -e trace=none
succeeds
mv run whole
results whole >expected
[ -s expected ] || fail "no results"
if [ "$points" = every ] || [[ $points == */* ]]; then
    calls=pwrite64
    if [ -n "${appended:-}" ]; then filter=(-P "$work/run/$appended" -e trace=$calls); else filter=(-e trace=pwrite64,pwritev,rename); fi
else
    filter=(-e "trace=$changes")
fi
traced "${filter[@]}"
succeeds
# One line per call: its name, and its number among the calls of this name by the same thread, as strace counts.
sed -nE 's/^([0-9]+) +([a-z0-9]+)\(.*/\1 \2/p' trace | awk '{ print $2, ++count[$0] }' >calls
total=$(wc -l <calls)
[ "$total" -gt 0 ] || fail "nothing was traced"

killed=0
kill_at() {
    local name number
    read -r name number < <(sed -n "$1p" calls)
    traced "${filter[@]}" -e "inject=$name:signal=SIGKILL:when=$number"
    # The last calls may come in another number.
    if [ $code -eq 0 ]; then return; fi
    # The process that reads structures may be the one that is killed: the driver says so and ends.
    [ -n "$rank" ] || [ $code -eq 137 ] || grep -q 'was killed by signal 9' err || fail "call $1 of $total ($name): exit $code instead of the kill"
    killed=$((killed + 1))
    # A store is whole as soon as it has its name.
    [ ! -e run/out/moved.zarr ] || results run | grep -v '/\.' | cmp -s - <(grep -v '/\.' expected) || fail "call $1 of $total ($name): half a store"
    again
    [ $code -eq 0 ] || fail "call $1 of $total ($name): exit $code of the same command after the kill"
    results run >found
    cmp -s expected found || fail "call $1 of $total ($name): other results: $(diff expected found | xargs)"
}
case $points in
    every) for ((n = 1; n <= total; ++n)); do kill_at "$n"; done ;;
    */*) for ((n = ${points%/*}; n <= total; n += ${points#*/})); do kill_at "$n"; done ;;
    *) for ((n = 0; n < points; ++n)); do kill_at $((1 + (RANDOM * 32768 + RANDOM) % total)); done ;;
esac
printf '%s: %s kills at %s calls, all with the results of a run that was not killed\n' "$driver" "$killed" "$total"
[ "$killed" -gt 0 ] || fail "no run was killed"
