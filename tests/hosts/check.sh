#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Ranks on several hosts, made of namespaces of this machine: check.sh FOLDER CASE [PROGRAM ARGUMENT...].
# The environment has GRATICULE_BIN, DELAYED_HUB and HYDRA, the launcher. Ends with 77 where hosts cannot be made.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/../support/skips.sh"
. "$here/hosts.sh"

base=$1/$2
name=$2
shift 2
out=$base/out
err=$base/err

reason=$(why_no_hosts)
[ -z "$reason" ] || skip "$reason"
trap remove_hosts EXIT

fail() {
    printf 'FAILED: %s\n' "$*"
    [ ! -e "$out" ] || sed 's/^/  stdout: /' "$out"
    [ ! -e "$err" ] || sed 's/^/  stderr: /' "$err"
    exit 1
}

# begin HOST[=NAME]...
begin() {
    make_hosts "$base" "$@" || fail "no hosts"
}

# Any test program on two hosts of two ranks.
case_program() {
    begin n1 n2
    on_hosts 2 "$@"
}

# The same where each frame takes 0.5 ms from host to host.
case_delayed() {
    local took
    [ -c /dev/net/tun ] || skip "no namespaces may be made here that a program joins: there is no /dev/net/tun"
    delay_us=500
    begin n1 n2
    # No program listens there: the answer is a refusal.
    # shellcheck disable=SC2016 # the other shell expands this
    took=$(run_on n1 bash -c 'begun=${EPOCHREALTIME/.}
        for _ in 1 2 3 4 5; do (exec 3<>/dev/tcp/n2/9) 2>/dev/null; done
        echo $((${EPOCHREALTIME/.} - begun))')
    [ "$took" -ge $((5 * 2 * delay_us)) ] || fail "five messages and their answers take $took us"
    on_hosts 2 "$@"
}

# Both hosts have the same name: what counts is where ranks are, not what their host is called.
case_equal_names() {
    begin n1=node n2=node
    by_address=yes
    [ "$(on_hosts 1 hostname | sort -u)" = node ] || fail "the hosts have other names"
    on_hosts 2 "$@"
}

# run NAME COMMAND...: on both hosts into the folder "two", and on one of them, with as many ranks, into "one"
run() {
    local step=$1 place
    shift
    for place in two one; do
        mkdir -p "$base/$place"
        cd "$base/$place" || exit 1
        if [ $place = two ]; then limit=90 on_hosts 2 "$@"; else limit=90 launch_on n1 4 "$@"; fi >"$out" 2>"$err"
        code=$?
        [ $code -eq 0 ] || fail "exit $code of $step on $place (124: not within 90 s): $*"
        cp "$out" "$step.stdout"
    done
}

# same FILE...: of both places
same() {
    local file
    for file in "$@"; do
        [ -s "$base/one/$file" ] || fail "there is no $file"
        cmp "$base/one/$file" "$base/two/$file" >"$out" 2>&1 || fail "$file has other bytes than on one host"
    done
}

case_drivers() {
    local bin=$GRATICULE_BIN quiet=(--threads 1 --progress none --log-level warn)
    begin n1 n2
    run fields "$bin/graticule-make-fields" fields.nc --nlat 24 --nlon 48 --levels 2 --samples 3 --threads 1 --progress none
    same fields.nc
    run repartition "$bin/graticule-repartition" fields.nc turned.nc --order longitude,latitude,level,sample "${quiet[@]}"
    same turned.nc
    run info "$bin/graticule-info" fields.nc
    same info.stdout
    run swe "$bin/graticule-swe" --case random --nlat 16 --nlon 32 --days 2 --every 6h "${quiet[@]}" --output swe
    same swe/series.nc
    run bench "$bin/graticule-bench" halo --grid 48x96 --channels 2 --repetitions 3 --threads 1
    [ -x "$bin/graticule-train" ] || return 0
    run train "$bin/graticule-train" --input swe/series.nc --prognostic h,u,v --lead 6h --channels 4 --blocks 1 --epochs 1 \
        --train-fraction 0.7 "${quiet[@]}" --output net
    same "net/last/$(cd "$base/one/net/last" && echo checkpoint-*.h5)"
    # Losses in the log are sums of MPI, in an order that depends on the hosts.
    paste -d, "$base/one/net/loss.csv" "$base/two/net/loss.csv" | awk -F, '
        NR > 1 { for (i = 1; i <= NF / 2; ++i) if (($i - $(i + NF / 2)) ^ 2 > 1e-28 * $i ^ 2) wrong = 1 }
        END { exit wrong || NR < 3 }' || fail "other losses"
    run forecast "$bin/graticule-forecast" --checkpoint net --input swe/series.nc --start 2000-01-01T12 --steps 4 "${quiet[@]}" \
        --output forecast
    same forecast/forecast.nc forecast/scores.csv
}

# start_exchange PROGRAM: 4 ranks that exchange for ever, a wait of 4 s is an error
start_exchange() {
    export GRATICULE_STALL_SECONDS=1 GRATICULE_STALL_LIMIT=4
    on_hosts 2 "$1" endless >"$out" 2>"$err" &
    job=$!
    for _ in {1..300}; do
        [ "$(grep -c exchanges "$out" 2>/dev/null)" -lt 4 ] || return 0
        sleep 0.1
    done
    fail "no rank has exchanged"
}

# ends_on PROGRAM HOST...: no rank is left there after a while
ends_on() {
    local program=$1 host
    shift
    for _ in {1..600}; do
        local left=
        for host in "$@"; do ! still_runs "$host" "$program" || left="$left $host"; done
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    fail "ranks are left on$left after a minute"
}

job_ends() {
    for _ in {1..600}; do
        if ! kill -0 "$job" 2>/dev/null; then
            wait "$job"
            code=$?
            [ $code -ne 0 ] || fail "exit 0"
            return
        fi
        sleep 0.1
    done
    fail "the launcher does not end within a minute"
}

# A host that the others cannot reach: the ranks of both sides end by themselves, and say whom they have waited for.
case_cut_link() {
    begin n1 n2
    start_exchange "$1"
    cut_link n2
    ends_on "$1" n1 n2
    mend_link n2
    job_ends
    grep -qE 'rank [01] .*no answer of rank 2 3' "$err" || fail "no rank of n1 names those that it has waited for"
}

# A host that is gone, with all of its processes.
case_dead_host() {
    begin n1 n2
    start_exchange "$1"
    kill_host n2
    ends_on "$1" n1
    job_ends
}

declare -F "case_$name" >/dev/null || fail "no case $name"
"case_$name" "$@"
