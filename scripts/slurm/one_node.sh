#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains on one node:  sbatch one_node.sh --input FIELDS.nc --output DIR [OPTION...]
#
# Change: --time; --ntasks-per-node: the cores of a node divided by --cpus-per-task; add --partition and --account where
# your site wants them. Environment: GRATICULE_BIN, the folder of graticule-train (otherwise that of `bin` below);
# GRATICULE_SRUN_MPI, how srun starts your MPI: pmi2 for MPICH, pmix for Open MPI.
#SBATCH --job-name=graticule-train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
set -euo pipefail

bin=${GRATICULE_BIN:-${SLURM_SUBMIT_DIR:-.}/build/bin}

# srun of SLURM 22.05 and newer ignores the --cpus-per-task of the job, and would bind each rank to one core.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK=${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}; fi

# If a rank dies, the others do not wait until the time limit. --kill-on-bad-exit=1 is not used: it kills ranks that are about
# to exit, and their exit code is lost.
ending=(--kill-on-bad-exit=0 --wait=60)

exec srun --mpi="${GRATICULE_SRUN_MPI:-pmi2}" "${ending[@]}" "$bin/graticule-train" "$@"
