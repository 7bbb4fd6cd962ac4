#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One rank per GPU:  sbatch scripts/slurm/gpus.sh PROGRAM [ARGUMENT...], for programs of your own on graticule::nn.
#
# graticule-train itself computes on the cores of a node. The program must select the device of a rank by
# Comm::node_rank(), never by variables of SLURM: under mpiexec these refer to the launcher's helpers. All GPUs of a node stay
# visible to all its ranks, because MPI and node-shared memory access a peer's memory through them.
#
# Change: --gpus-per-node and --ntasks-per-node (the same number), --cpus-per-task (cores of a node divided by its GPUs),
# --nodes, --time; add --partition and --account where your site wants them. Environment: GRATICULE_SRUN_MPI, how srun starts
# your MPI: pmi2 for MPICH, pmix for Open MPI, cray_shasta on Cray systems; settings that your MPI needs for GPUs
# (MPICH_GPU_SUPPORT_ENABLED=1 on Cray systems). Where MPI does not transfer device memory, Graticule detects this at start
# and sends messages through pinned host memory.
#SBATCH --job-name=graticule-gpus
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gpu-bind=none
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail

program=${1:?a program and its arguments}
shift

# A rank that dies does not leave the others waiting until the time limit. Not --kill-on-bad-exit=1: it ends ranks that are
# about to end, and their exit code is lost.
ending=(--kill-on-bad-exit=0 --wait=60)

exec srun --mpi="${GRATICULE_SRUN_MPI:-pmi2}" "${ending[@]}" "$program" "$@"
