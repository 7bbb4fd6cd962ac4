#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains on many nodes. Each node holds the whole grid, divided among its ranks, and trains on its part of every batch:
#   sbatch --nodes=8 many_nodes.sh --input FIELDS.nc --output DIR --batch 32 [OPTION...]
#
# Halo exchanges then stay within nodes, and one gradient reduction per step crosses the network. If the grid does not fit into
# a node's memory, set --data-teams yourself: 1 divides one grid among all nodes.
#
# Change: --nodes, --time; --ntasks-per-node: the cores of a node divided by --cpus-per-task; add --partition and --account
# where your site wants them. Environment: GRATICULE_BIN, the folder of graticule-train (otherwise that of `bin`
# below); GRATICULE_SRUN_MPI, how srun starts your MPI: pmi2 for MPICH, pmix for Open MPI.
#SBATCH --job-name=graticule-train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail

bin=${GRATICULE_BIN:-${SLURM_SUBMIT_DIR:-.}/build/bin}

# srun of SLURM 22.05 and newer ignores the --cpus-per-task of the job, and would bind each rank to one core.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK=${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}; fi

teams=(--data-teams "${SLURM_JOB_NUM_NODES:?is set in jobs of SLURM}")
for option in "$@"; do
    case $option in
        --data-teams | --data-teams=*) teams=() ;;
    esac
done

# A rank that dies does not leave the others waiting until the time limit. Not --kill-on-bad-exit=1: it ends ranks that are
# about to end, and their exit code is lost.
ending=(--kill-on-bad-exit=0 --wait=60)

exec srun --mpi="${GRATICULE_SRUN_MPI:-pmi2}" "${ending[@]}" "$bin/graticule-train" "${teams[@]}" "$@"
