#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests of graticule-swe from outside: check.sh CASE. The environment names the folder of the programs (BIN) and the
# launcher (MPIEXEC).
# `A && B || fail` fails when either does.
# shellcheck disable=SC2015
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"
# run NUM_RANKS ARGUMENT...: on a small grid
run() { launch "$1" "$BIN/graticule-swe" --nlat 16 --nlon 32 --threads 1 --progress none --log-level warn "${@:2}"; }

case_runs() {
    need ncdump netcdf-bin
    local name text
    for name in 1 2 5 6 galewsky random; do
        run 2 --case "$name" --days 0.5 --every 6h --output "$name" --report r.json
        succeeds
        [ ! -s err ] || fail "something on stderr"
        [ "$(head -c 4 "$name/map.png" | tail -c 3)" = PNG ] || fail "no map.png of case $name"
        for text in '"driver": "graticule-swe"' '"mass_drift":' '"energy_drift":' '"steps": 54' '"days_per_second":' '"others":' \
            '"process_grid":' '"num_nodes": 1'; do
            grep -qF -- "$text" r.json || fail "the report of case $name lacks '$text'"
        done
        case $name in
            1 | 2) grep -qF '"l2_height":' r.json || fail "no error of case $name" ;;
            *) ! grep -qF '"l2_height":' r.json || fail "an error of case $name, whose truth is not known" ;;
        esac
        ncdump -h "$name/series.nc" >out || fail "ncdump"
        for text in 'time = UNLIMITED ; // (3 currently)' 'float h(time, latitude, longitude) ;' 'float divergence(time' \
            'float vorticity(' 'time:units = "hours since' 'u:standard_name = "eastward_wind"'; do
            grep -qF -- "$text" out || fail "series.nc of case $name lacks '$text'"
        done
    done
    ncdump -v time 2/series.nc | grep -qF 'time = 0, 6, 12 ;' || fail "the times"
    grep -qF '"driver": "graticule-swe"' galewsky/report.json || fail "no report in the folder"
    # The end is hit between output times, and in less than one.
    run 2 --case 2 --days 1 --every 7h --output between
    succeeds
    ncdump -v time between/series.nc | grep -qF 'time = 0, 7, 14, 21, 24 ;' || fail "the times with an end between records"
    grep -qF '"simulated_days": 1.0,' between/report.json || fail "not a day"
    run 2 --case 2 --days 0.1 --every 6h --output early
    succeeds
    ncdump -v time early/series.nc | grep -qF 'time = 0, 2.4 ;' || fail "the times of a run shorter than --every"
    grep -qF '"steps": 11,' early/report.json && grep -qF '"simulated_days": 0.1,' early/report.json || fail "a short run"
    run 1 --case 2 --angle 45 --days 0.5 --every 6h --scheme arakawa-lamb --output al --report r.json
    succeeds
}

# The same bytes on other ranks, and after a stop at any step.
case_restarts() {
    local options="--case 5 --days 1 --every 3h --dtype f64"
    # shellcheck disable=SC2086
    run 1 $options --output whole
    succeeds
    # shellcheck disable=SC2086
    run 2 $options --partition 1x2 --output columns
    succeeds
    cmp whole/series.nc columns/series.nc || fail "other ranks give other bytes"
    # shellcheck disable=SC2086
    run 2 $options --output parts --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    grep -q '^the time limit after step 10 of' parts/stopped || fail "the file stopped"
    # shellcheck disable=SC2086
    run 1 $options --output parts --checkpoint-every 7
    succeeds
    [ ! -e parts/stopped ] || fail "the file stopped is left"
    cmp whole/series.nc parts/series.nc || fail "a restarted run gives other bytes"
    cmp whole/map.png parts/map.png || fail "a restarted run draws other pictures"
    # A complete run is complete.
    # shellcheck disable=SC2086
    run 2 $options --output parts
    succeeds
    cmp whole/series.nc parts/series.nc || fail "a run of a complete folder changes it"
    run 2 --case 5 --days 2 --every 3h --dtype f32 --output parts
    refuses 3 "parts/series.nc has values of type f64, not of --dtype f32"
    mv parts/series.nc .
    # shellcheck disable=SC2086
    run 2 $options --output parts
    refuses 3 "parts/series.nc has 0 records; the checkpoint resumes after 9"
    mv series.nc parts
    run 2 --case 5 --days 0.5 --every 3h --dtype f64 --output parts
    refuses 3 "after the end of this run (step 56)"
    run 1 --case 6 --days 1 --output parts
    [ $code -eq 3 ] && grep -qF 'is of another run' err || fail "exit $code for the checkpoint of another case"
    run 1 --case 6 --days 1 --output parts --resume never
    succeeds
    # Every option that the bytes depend on.
    run 1 --case 2 --days 1 --every 3h --output other --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    local change
    for change in '--case 6' '--angle 10' '--seed 2' '--nlat 18' '--nlon 34' '--scheme arakawa-lamb' '--step 600' '--every 6h'; do
        # shellcheck disable=SC2086
        launch 1 "$BIN/graticule-swe" $(echo "--nlat 16 --nlon 32 --case 2 --every 3h" | sed "s/${change% *} [^ ]*//") $change --days 1 \
            --threads 1 --progress none --log-level warn --output other
        [ $code -eq 3 ] && grep -qF 'is of another run' err || fail "exit $code when resumed with $change"
    done
    # Stopped at every look, also in the steps between the last whole --every and the end.
    options="--case 5 --days 0.4 --every 7h --dtype f64"
    # shellcheck disable=SC2086
    run 1 $options --output between
    succeeds
    while :; do
        # shellcheck disable=SC2086
        run 2 $options --output stopped --time-limit 0
        [ $code -eq 85 ] || break
    done
    succeeds
    cmp between/series.nc stopped/series.nc || fail "a restarted run with an end between records gives other bytes"
    run 2 --case 5 --days 1 --every 7h --dtype f64 --output stopped
    refuses 3 "is of another run"
}

# refuses STATUS TEXT: one line on stderr, which holds TEXT
refuses() {
    [ $code -eq "$1" ] || fail "exit $code, expected $1"
    [ "$(wc -l <err)" -eq 1 ] || fail "$(wc -l <err) lines on stderr, expected 1"
    grep -qF -- "$2" err || fail "stderr lacks '$2'"
}
case_errors() {
    SLURM_JOB_END_TIME=soon run 2 --case 2 --time-limit auto --output none
    refuses 2 "SLURM_JOB_END_TIME is 'soon', not a number of seconds since 1970"
    [ ! -e none ] || fail "an output of a run without a time limit that can be read"
    run 2 --case 3
    refuses 2 "--case"
    run 2 --every 6x
    refuses 2 "--every 6x"
    run 2 --every 1e300d
    refuses 2 "--every 1e300d is not a time"
    run 2 --case 5 --angle 30
    refuses 2 "--angle is for cases 1 and 2; --case 5 has no axis to tilt"
    launch 2 "$BIN/graticule-swe" --nlat 16 --nlon 33 --progress none
    refuses 2 "--nlon 33"
    run 2 --partition 3x1
    refuses 2 "--partition 3x1"
    run 2 --days 1e-9
    refuses 2 "--days 1e-09 is less than a millisecond"
    run 2 --output /dev/null/swe
    refuses 1 "--output /dev/null/swe cannot be created"
    # Steps that are too long for the waves.
    run 2 --case 6 --step 3600 --every 1d --days 20 --output blown
    refuses 1 "not finite after step"
    run 1 --help
    succeeds
    local option
    for option in --case --angle --nlat --nlon --days --scheme --every --output --checkpoint-every --resume --partition --emulator --report; do
        grep -qF -- "$option" out || fail "--help lacks $option"
    done
}

# A run that has its series finds no room for the picture: the message names it, on all ranks.
case_full_disk() {
    local options="--case 2 --days 0.5 --every 6h --checkpoint-every 54" ranks
    for ranks in 1 2; do
        small_disk 1024
        # shellcheck disable=SC2086
        run $ranks $options --output disk
        succeeds
        rm disk/map.png
        head -c 2M /dev/zero >disk/filler 2>/dev/null
        # shellcheck disable=SC2086
        run $ranks $options --output disk
        names_full_disk map.png
    done
}

# One run at a time in a folder; a killed one leaves it free.
case_locked() {
    local first
    "$BIN/graticule-swe" --case 2 --nlat 16 --nlon 32 --days 100000 --every 1000d --threads 1 --progress none --output shared >first.out 2>&1 &
    first=$!
    for _ in $(seq 1000); do
        [ -s shared/series.nc ] && break
        sleep 0.02
    done
    [ -s shared/series.nc ] || fail "the first run does not begin"
    local ranks
    for ranks in 1 2; do
        run $ranks --case 5 --days 0.5 --every 6h --output shared
        refuses 1 "shared cannot be written: graticule-swe (process $first on host $(uname -n), since "
    done
    run 2 --case 5 --days 0.5 --every 6h --output other
    succeeds
    [ ! -e other/.in-use ] || fail "a lock is left"
    kill -s KILL $first
    wait $first 2>/dev/null
    [ -e shared/.in-use ] || fail "a killed run leaves no lock file: the test means nothing"
    run 2 --case 2 --days 0.5 --every 6h --output shared --resume never
    succeeds
    [ -z "$(find shared -name '.*')" ] || fail "left behind: $(find shared -name '.*')"
}

# A folder that another rank does not see.
case_private_folder() {
    need unshare util-linux
    unshare -m true 2>/dev/null || skip "this user may not make mount namespaces"
    mkdir private there
    local program="$BIN/graticule-swe --case 2 --nlat 16 --nlon 32 --days 0.5 --every 6h --threads 1 --progress none --log-level warn"
    # shellcheck disable=SC2086
    timeout 120 $MPIEXEC 1 $program --output private : -n 1 unshare -m sh -c "mount -t tmpfs tmpfs private && exec $program --output private" >out 2>err
    code=$?
    [ $code -eq 1 ] && grep -qF -- "--output private cannot be written: rank 1 on host $(uname -n) does not find there what rank 0 has written" err &&
        grep -qF "must be on a file system that all nodes share" err || fail "exit $code of a folder that nodes do not share"
    ! grep -q ADIO err || fail "an error of MPI-IO"
    program="$BIN/graticule-make-fields --nlat 8 --nlon 16 --samples 2 --threads 1 --progress none there/x.nc"
    # shellcheck disable=SC2086
    timeout 120 $MPIEXEC 1 $program : -n 1 unshare -m sh -c "mount -t tmpfs tmpfs there && exec $program" >out 2>err
    code=$?
    [ $code -eq 1 ] && grep -qF "there/x.nc cannot be written: rank 1 on host" err || fail "exit $code of a file that nodes do not share"
    [ -z "$(ls -A there)" ] || fail "something was left behind"
}

# A trained network in place of the solver's steps.
case_emulator() {
    if [ ! -x "$BIN/graticule-train" ]; then
        run 2 --emulator net
        refuses 2 "built without LibTorch"
        return
    fi
    need ncdump netcdf-bin
    run 2 --case random --days 3 --every 6h --output simulation
    succeeds
    # learn FOLDER ARGUMENT...
    learn() {
        launch 2 "$BIN/graticule-train" --input simulation/series.nc --lead 6h --channels 4 --blocks 1 --epochs 2 --train-fraction 0.7 \
            --threads 1 --progress none --log-level warn --output "$@"
        succeeds
    }
    learn net --prognostic h,u,v --history 3
    local options="--case random --every 6h --emulator net"
    # shellcheck disable=SC2086
    run 2 $options --days 2 --output whole --report r.json
    succeeds
    local text
    for text in '"lead_seconds": 21600' '"first_states_of_solver": 3' '"mass_drift":' '"steps": 8' '"step_seconds": 21600'; do
        grep -qF -- "$text" r.json || fail "the report lacks '$text'"
    done
    ncdump -v time whole/series.nc | grep -qF 'time = 0, 6, 12, 18, 24, 30, 36, 42, 48 ;' || fail "the times"
    # Until the network has its history, the states are the solver's.
    # shellcheck disable=SC2086
    run 2 $options --days 0.5 --output short
    succeeds
    run 1 --case random --every 6h --days 0.5 --output solver
    succeeds
    ncdump short/series.nc | grep -v ':history' >short.txt
    ncdump solver/series.nc | sed 's/^netcdf .*/netcdf series {/' | grep -v ':history' >solver.txt
    cmp short.txt solver.txt || fail "the first states are not the solver's"
    # From then on they are those of the network in any other program.
    local ranks
    for ranks in 1 3; do
        launch $ranks "$LOAD_NETWORK" net simulation/series.nc 2 whole/series.nc 6 3
        succeeds
    done
    # Stopped after each of the first steps, also before the network has its states.
    local times=0
    while :; do
        # shellcheck disable=SC2086
        run 2 $options --days 2 --output parts --time-limit 0
        [ $code -ne 85 ] && break
        times=$((times + 1))
        [ $times -lt 20 ] || fail "stops for ever"
    done
    succeeds
    [ $times -eq 7 ] || fail "$times stops, expected 7"
    cmp whole/series.nc parts/series.nc || fail "a restarted run gives other bytes"

    # Waves of two rows of any height are gone after a step with a filter, and the bits are the same after a restart.
    learn rough --prognostic h,u,v --history 1 --polar-filter 0
    options="--case random --every 6h --emulator rough --days 2"
    # shellcheck disable=SC2086
    run 2 $options --output unfiltered
    succeeds
    # shellcheck disable=SC2086
    run 2 $options --emulator-filter 4 --output filtered
    succeeds
    # roughness FOLDER: the mean square of the fourth differences of h across the rows of the last record
    roughness() {
        ncdump -v h "$1/series.nc" | sed -n '/^ h =/,/;/p' | sed 's/^ h =//' | tr -d ' ;' | tr ',' '\n' | grep . | tail -n 512 |
            awk '{ x[NR - 1] = $1 } END {
                for (j = 2; j < 14; ++j) for (i = 0; i < 32; ++i) {
                    k = 32 * j + i; d = x[k - 64] - 4 * x[k - 32] + 6 * x[k] - 4 * x[k + 32] + x[k + 64]; sum += d * d }
                printf "%.6g\n", sum }'
    }
    awk -v with="$(roughness filtered)" -v without="$(roughness unfiltered)" 'BEGIN { exit !(with > 0 && with < without / 2) }' ||
        fail "the filter leaves $(roughness filtered) of $(roughness unfiltered)"
    # shellcheck disable=SC2086
    run 2 $options --emulator-filter 4 --output halves --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    # shellcheck disable=SC2086
    run 2 $options --output halves
    refuses 3 "is of another run"
    # shellcheck disable=SC2086
    run 2 $options --emulator-filter 4 --output halves
    succeeds
    cmp filtered/series.nc halves/series.nc || fail "a restarted run with a filter gives other bytes"
    # shellcheck disable=SC2086
    run 2 $options --emulator-filter 3 --output errors
    refuses 2 "--emulator-filter 3 is odd"
    run 2 --emulator-filter 4 --output errors
    refuses 2 "--emulator-filter is for --emulator only"

    run 2 --case random --emulator net --every 5h --output errors
    refuses 2 "--every 5h is no whole number of leads of the emulator, 21600 s"
    run 2 --case random --emulator net --every 6h --days 0.6 --output errors
    refuses 2 "--days 0.6 is no whole number of leads of the emulator, 21600 s"
    # In another flow than it was trained on it is lost at once, and says so, once.
    run 2 --case 1 --emulator net --every 6h --days 3 --output lost
    succeeds
    [ "$(grep -c "the emulator's state is far from the truth after .* mass has changed by .* and energy by" err)" -eq 1 ] || fail "no warning"
    launch 2 "$BIN/graticule-swe" --nlat 18 --nlon 32 --threads 1 --log-level warn --emulator net --output errors
    refuses 3 "was trained on another grid, of 16 x 32 cells; this run has --nlat 18 --nlon 32"
    run 2 --emulator nowhere --output errors
    refuses 3 "nowhere does not exist"
    run 2 --emulator simulation/series.nc --output errors
    refuses 3 "series.nc cannot be used: it is an HDF5 file, but not a checkpoint"
    run 2 --case random --seed 2 --every 6h --days 2 --emulator net --output parts
    refuses 3 "is of another run"
    learn flat --prognostic h,divergence
    run 2 --emulator flat --every 6h --output errors
    refuses 3 "has the prognostic variables h, divergence; an emulator of shallow water has h, u, v"
}

"case_$1"
