# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced: hosts of this machine, each with a network, processes, shared memory, /tmp and a host name of its own.
#
#   make_hosts FOLDER HOST[=NAME]...    HOST is its name in the network, NAME what it calls itself (HOST without it)
#   on_hosts RANKS_PER_HOST PROGRAM ARGUMENT...    by Hydra, from a host "login" that all are connected to
#   run_on HOST COMMAND...
#   cut_link HOST, mend_link HOST, kill_host HOST
#   remove_hosts
# All files of these hosts are those of this machine, but for /tmp and /dev/shm. Needs root.
#
# With $delay_us (microseconds), the hosts are not joined by a bridge of the kernel but by the program $DELAYED_HUB, which holds each
# frame for that time: kernels without netem cannot.

export PATH=$PATH:/usr/sbin:/sbin
host_folder=
declare -A host_process=() host_parent=() host_number=()
host_names=()
hub_process=

# Prints the reason why hosts cannot be made here, and nothing where they can.
why_no_hosts() {
    local command
    if [ "$(id -u)" -ne 0 ]; then
        echo "no namespaces may be made here: this is not root"
        return
    fi
    for command in unshare nsenter ip; do
        if ! command -v $command >/dev/null; then
            echo "no namespaces may be made here: there is no $command (apt: util-linux iproute2)"
            return
        fi
    done
    # Read to its end: a launcher that is cut off fails.
    if ! "${HYDRA:-mpiexec}" --version 2>/dev/null | grep HYDRA >/dev/null; then
        echo "no namespaces may be made here: the launcher ${HYDRA:-mpiexec} is not Hydra, which can enter them"
        return
    fi
    if ! unshare --net --uts --ipc --mount --pid --fork --mount-proc true 2>/dev/null; then
        echo "no namespaces may be made here: $(unshare --net --uts --ipc --mount --pid --fork --mount-proc true 2>&1)"
        return
    fi
    if ! unshare --net sh -c 'ip link add a0 type veth peer name b0 && ip link add s0 type bridge' 2>/dev/null; then
        echo "no namespaces may be made here: the kernel has no veth or no bridge"
    fi
}

# wait_for_file FILE
wait_for_file() {
    for _ in {1..200}; do
        [ ! -e "$1" ] || return 0
        sleep 0.05
    done
    printf 'FAILED: no host has made %s\n' "$1"
    return 1
}

# A process that does nothing, as the first one of its namespaces. A folder below /tmp stays visible.
begin_host() {
    set -e
    local folder=$1 host=$2 name=$3
    hostname "$name"
    mount -t tmpfs tmpfs /dev/shm
    case $PWD/:$folder/ in
        /tmp/* | *:/tmp/*) ;;
        *) mount -t tmpfs tmpfs /tmp ;;
    esac
    mount --bind "$folder/names" /etc/hosts
    ip link set lo up
    touch "$folder/$host.begun"
    [ "$host" != login ] || exec sleep infinity
    # The first process of a host takes care of processes whose parents have ended.
    while :; do sleep 3600; done
}

# join HOST: by a bridge in the network of "login"
join() {
    local i=${host_number[$1]}
    run_on login ip link add "to-$i" type veth peer name eth0 netns "${host_process[$1]}" &&
        run_on login ip link set "to-$i" master switch &&
        run_on login ip link set "to-$i" up
}

# give_address HOST ADDRESS
give_address() {
    run_on "$1" ip addr add "$2/24" dev eth0 && run_on "$1" ip link set eth0 up
}

make_hosts() {
    local host i=0
    host_folder=$(realpath -m "$1")
    shift
    rm -rf "$host_folder"
    mkdir -p "$host_folder"
    host_names=("${@%%=*}")
    host_number[login]=254
    printf '127.0.0.1 localhost\n10.77.0.254 login\n' >"$host_folder/names"
    for host in "${host_names[@]}"; do
        i=$((i + 1))
        host_number[$host]=$i
        printf '10.77.0.%s %s\n' $i "$host" >>"$host_folder/names"
    done
    export -f begin_host
    # With the processes of this machine, because it starts programs in the namespaces of the others.
    unshare --net --uts --ipc --mount bash -c 'begin_host "$@"' - "$host_folder" login login </dev/null &
    host_process[login]=$!
    for host in "$@"; do
        unshare --net --uts --ipc --mount --pid --fork --mount-proc --kill-child \
            bash -c 'begin_host "$@"' - "$host_folder" "${host%%=*}" "${host#*=}" </dev/null &
        host_parent[${host%%=*}]=$!
    done
    wait_for_file "$host_folder/login.begun" || return 1
    for host in "${host_names[@]}"; do
        wait_for_file "$host_folder/$host.begun" || return 1
        host_process[$host]=$(cat "/proc/${host_parent[$host]}/task/${host_parent[$host]}/children")
        host_process[$host]=${host_process[$host]%% *}
        # Hydra's launcher gets names or addresses.
        printf '%s' "${host_process[$host]}" >"$host_folder/$host.process"
        printf '%s' "${host_process[$host]}" >"$host_folder/10.77.0.${host_number[$host]}.process"
    done
    if [ -n "${delay_us:-}" ]; then
        "$DELAYED_HUB" "$host_folder/joined" "$delay_us" "${host_process[@]}" </dev/null &
        hub_process=$!
        wait_for_file "$host_folder/joined" || return 1
    else
        run_on login ip link add switch type bridge && run_on login ip link set switch up &&
            run_on login ip link add eth0 type veth peer name to-254 && run_on login ip link set to-254 master switch &&
            run_on login ip link set to-254 up || return 1
        for host in "${host_names[@]}"; do join "$host" || return 1; done
    fi
    for host in login "${host_names[@]}"; do give_address "$host" "10.77.0.${host_number[$host]}" || return 1; done
    # In the place of ssh: [-OPTION...] HOST COMMAND...
    cat >"$host_folder/enter" <<ENTER
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
process=\$(cat "$host_folder/\$1.process") || exit 1
shift
exec nsenter --target "\$process" --net --uts --ipc --mount --pid sh -c "\$*"
ENTER
    chmod +x "$host_folder/enter"
}

run_on() {
    local host=$1 processes=--pid
    shift
    [ "$host" != login ] || processes=
    # shellcheck disable=SC2086 # no argument where it is empty
    nsenter --target "${host_process[$host]}" --net --uts --ipc --mount $processes --wd="$PWD" "$@"
}

# listed HOST...: for -hosts, by address where $by_address is set
listed() {
    local host names=()
    for host in "$@"; do
        if [ -n "${by_address:-}" ]; then names+=("10.77.0.${host_number[$host]}"); else names+=("$host"); fi
    done
    (IFS=, && printf '%s' "${names[*]}")
}

# launch_on "HOST..." RANKS_PER_HOST PROGRAM ARGUMENT...: for $limit seconds at most
launch_on() {
    local hosts number=$2
    read -ra hosts <<<"$1"
    shift 2
    run_on login timeout --kill-after=10 "${limit:-500}" "${HYDRA:-mpiexec}" -launcher ssh -launcher-exec "$host_folder/enter" \
        -hosts "$(listed "${hosts[@]}")" -ppn "$number" -n $((number * ${#hosts[@]})) "$@"
}
on_hosts() { launch_on "${host_names[*]}" "$@"; }

cut_link() { run_on login ip link set "to-${host_number[$1]}" down; }
mend_link() { run_on login ip link set "to-${host_number[$1]}" up; }
kill_host() { kill -KILL "${host_process[$1]}"; }

# Whether a process of PROGRAM's name is left on HOST.
still_runs() { run_on "$1" pgrep -x "$(basename "$2" | cut -c 1-15)" >/dev/null 2>&1; }

remove_hosts() {
    local host process network=
    # The launcher may wait for hosts that are gone.
    [ -z "${host_process[login]:-}" ] || network=$(readlink "/proc/${host_process[login]}/ns/net")
    for process in /proc/[0-9]*; do
        [ -n "$network" ] && [ "$(readlink "$process/ns/net")" = "$network" ] && kill -KILL "${process#/proc/}"
    done 2>/dev/null
    [ -z "$hub_process" ] || kill -KILL "$hub_process" 2>/dev/null
    for host in "${!host_process[@]}"; do kill -KILL "${host_process[$host]}" 2>/dev/null; done
    for host in "${!host_parent[@]}"; do kill -KILL "${host_parent[$host]}" 2>/dev/null; done
    wait 2>/dev/null
    host_process=() host_parent=() host_number=() host_names=() hub_process=
}
