#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A SLURM cluster of two pretended nodes on this machine, of any user's own: cluster.sh start|stop FOLDER.
#
# All its files lie in FOLDER. Where it cannot be started the reason is printed and left in FOLDER/reason, and the exit
# status is 77. It ends with `stop`, and on its own when the process that called `start` has ended.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"

action=${1:?start or stop}
base=$(realpath -m "${2:?folder}")
here=$(dirname "$(realpath "$0")")
export SLURM_CONF=$base/slurm.conf
export PATH=$PATH:/usr/sbin:/sbin

give_up() {
    stop
    printf '%s\n' "$*" >"$base/reason"
    skip "$@"
}

# launch NAME COMMAND...: in a session of its own, so that nothing the test runner ends takes it along
launch() {
    local name=$1
    shift
    setsid "$@" >"$base/$name.log" 2>&1 </dev/null &
    printf '%s\n' $! >"$base/$name.pid"
}

# A pid counts only while it is a program that was started on this folder.
is_ours() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF -- "$base/"; }

stop() {
    local name pid
    if [ -s "$base/slurmctld.pid" ] && is_ours "$(cat "$base/slurmctld.pid")"; then
        timeout 10 scancel --user="$(id -un)" 2>/dev/null
    fi
    for name in watchdog n1 n2 slurmctld munged; do
        [ -s "$base/$name.pid" ] || continue
        pid=$(cat "$base/$name.pid")
        rm -f "$base/$name.pid"
        is_ours "$pid" || continue
        [ "$pid" != $$ ] || continue
        kill "$pid" 2>/dev/null
        for _ in {1..50}; do
            is_ours "$pid" || break
            sleep 0.1
        done
        ! is_ours "$pid" || kill -KILL "$pid" 2>/dev/null
    done
}

port_is_free() { ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Three ports in a row below those that the system hands out.
find_ports() {
    for _ in {1..50}; do
        port=$((20000 + RANDOM % 12000))
        if port_is_free $port && port_is_free $((port + 1)) && port_is_free $((port + 2)); then return 0; fi
    done
    return 1
}

write_configuration() {
    local user host
    user=$(id -un)
    host=$(hostname -s)
    # The nodes share this machine: PMIx keeps one folder per node under TmpFS.
    cat >"$SLURM_CONF" <<CONF
ClusterName=graticule
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$base/munge.sock
CredType=cred/munge
SlurmctldPort=$port
SlurmdSpoolDir=$base/spool/%n
StateSaveLocation=$base/state
SlurmctldPidFile=$base/slurmctld.own.pid
SlurmdPidFile=$base/slurmd.%n.own.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TmpFS=$base/tmp/%n
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=8 RealMemory=1000 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 State=UP
CONF
}

start() {
    local caller=$PPID name
    stop
    rm -rf "$base"
    mkdir -p "$base"/{munge,spool/n1,spool/n2,tmp/n1,tmp/n2,state}
    for name in munged slurmctld slurmd srun; do
        command -v $name >/dev/null || give_up "SLURM is not installed here: there is no $name (apt: slurm-wlm munge)"
    done
    local socket="$base/munge.sock"
    [ ${#socket} -le 100 ] || give_up "the folder's name is too long for a socket: $base"
    find_ports || give_up "no free ports"
    chmod 755 "$base"
    chmod 700 "$base/munge"
    head -c 128 /dev/urandom >"$base/munge/key"
    chmod 400 "$base/munge/key"
    write_configuration
    # What is chosen without this line, SLURM 22.05, needs /sys/fs/cgroup, which containers may lack; nothing uses it.
    printf 'CgroupPlugin=cgroup/v1\n' >"$base/cgroup.conf"
    launch munged munged --foreground --force --key-file="$base/munge/key" --socket="$socket" \
        --pid-file="$base/munged.own.pid" --seed-file="$base/munge/seed"
    for _ in {1..50}; do
        [ ! -S "$socket" ] || break
        sleep 0.1
    done
    [ -S "$socket" ] || give_up "munged does not start: $(tail -n 1 "$base/munged.log")"
    launch slurmctld slurmctld -D -c -f "$SLURM_CONF"
    launch n1 slurmd -D -N n1 -f "$SLURM_CONF"
    launch n2 slurmd -D -N n2 -f "$SLURM_CONF"
    for _ in {1..100}; do
        [ "$(timeout 10 sinfo --noheader --Node --format=%T 2>/dev/null | sort -u)" != idle ] || break
        sleep 0.3
    done
    [ "$(timeout 10 sinfo --noheader --Node --format=%T 2>/dev/null | sort -u)" = idle ] ||
        give_up "the nodes do not start: $(grep -h error: "$base/slurmctld.log" "$base/n1.log" | grep -v pmix | tail -n 3 | xargs -d '\n')"
    launch watchdog "$here/cluster.sh" watch "$base/" "$caller"
}

# Ends the cluster when process $1 has ended: a test runner that was interrupted calls no `stop`.
watch() {
    while [ -e "/proc/$1" ]; do sleep 2; done
    stop
}

case $action in
    start) start ;;
    stop) stop ;;
    watch) watch "${3:?process}" ;;
    *) printf 'cluster.sh start|stop FOLDER\n' >&2; exit 2 ;;
esac
exit 0
