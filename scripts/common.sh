# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Shared by scripts/setup, scripts/run and scripts/test, which source it in the project folder.

build=${GRATICULE_BUILD_DIR:-build}

say() { printf '%s\n' "-- $*" >&2; }
fail() { printf '%s\n' "$@" >&2; exit 1; }

# Number of compile jobs: one per core, and one per 2.5 GB of memory (which sources with LibTorch need).
build_jobs() {
    local cores memory_kb jobs
    cores=$(nproc)
    memory_kb=$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)
    jobs=$((memory_kb / 2500000))
    [ "$jobs" -ge 1 ] || jobs=1
    [ "$jobs" -le "$cores" ] || jobs=$cores
    printf '%s' "${GRATICULE_JOBS:-$jobs}"
}

# build_targets TARGET...: with a status line on a terminal and plain lines in a log.
build_targets() {
    local ninja_status=${NINJA_STATUS:-[%f/%t, %e s] }
    NINJA_STATUS=$ninja_status cmake --build "$build" --parallel "$(build_jobs)" --target "$@" >&2
}

cache_value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

# What both launchers need on workstations and in containers: more ranks than cores, root, threads not pinned to one core.
launch_environment() {
    export OMP_PROC_BIND=${OMP_PROC_BIND:-false}
    export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe:-1}
    export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy:-none}
    export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy:-:oversubscribe}
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}
