#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains a network on GPUs, one rank each:  sbatch gpus.sh --input fields.nc --output run [OPTION...]
# Another program of yours on graticule::nn:  sbatch gpus.sh -- PROGRAM [ARGUMENT...]
#
# The options are those of graticule-train. With neither --device among them nor `device:` in the file of --config (such as one
# from --dump-config, which has `device: auto`), GRATICULE_DEVICE is its value, and a node without a GPU is an error, not a slow
# training. The ranks of a node take its GPUs in turn, by their number on the node (Comm::node_rank()), never by variables of SLURM:
# under mpiexec these refer to the launcher's helpers. All GPUs of a node stay visible to all its ranks (--gpu-bind=none), because
# MPI accesses a peer's memory through them. report.json lists the device of each rank and its memory.
#
# Change: --gpus-per-node and --ntasks-per-node (the same number), --cpus-per-task (cores of a node divided by its GPUs),
# --nodes, --time; add --partition and --account where your site wants them. Environment: GRATICULE_BIN, the folder of
# graticule-train (otherwise that of `bin` below); GRATICULE_DEVICE (cuda; hip on AMD GPUs);
# GRATICULE_SRUN_MPI, how srun starts your MPI: pmi2 for MPICH, pmix for Open MPI, cray_shasta on Cray systems; settings
# that your MPI needs for GPUs (MPICH_GPU_SUPPORT_ENABLED=1 on Cray systems). Where MPI does not transfer device memory,
# Graticule detects this at start and sends messages through pinned host memory.
#SBATCH --job-name=graticule-gpus
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gpu-bind=none
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail

bin=${GRATICULE_BIN:-${SLURM_SUBMIT_DIR:-.}/build/bin}

# srun of SLURM 22.05 and newer ignores the --cpus-per-task of the job, and would bind each rank to one core.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK=${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}; fi

[ $# -gt 0 ] || { echo "gpus.sh: options of graticule-train, or -- PROGRAM [ARGUMENT...]" >&2; exit 2; }
if [ "$1" = -- ]; then
    shift
    [ $# -gt 0 ] || { echo "gpus.sh: no program after --: gpus.sh -- PROGRAM [ARGUMENT...]" >&2; exit 2; }
    program=("$@")
else
    # names_device FILE: its keys begin lines, or stand in braces
    names_device() { grep -qE "^([[:space:]]*|.*[{,][[:space:]]*)[\"']?device[\"']?[[:space:]]*:([[:space:]]|\$)" -- "$1" 2>/dev/null; }
    device=(--device "${GRATICULE_DEVICE:-cuda}")
    last=
    for option in "$@"; do
        config=
        case $option in
            --device | --device=*) device=() ;;
            --config=*) config=${option#--config=} ;;
        esac
        [ "$last" != --config ] || config=$option
        [ -z "$config" ] || ! names_device "$config" || device=()
        last=$option
    done
    program=("$bin/graticule-train" ${device[@]+"${device[@]}"} "$@")
fi

# A rank that dies does not leave the others waiting until the time limit. Not --kill-on-bad-exit=1: it ends ranks that are
# about to end, and their exit code is lost.
ending=(--kill-on-bad-exit=0 --wait=60)

exec srun --mpi="${GRATICULE_SRUN_MPI:-pmi2}" "${ending[@]}" "${program[@]}"
