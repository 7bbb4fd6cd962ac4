#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Forecasts on one node:  sbatch forecast.sh --checkpoint DIR --input FIELDS.nc --start DATES --output DIR [OPTION...]
#
# Two minutes before the time limit SLURM sends USR1 to the ranks (it may be up to a minute earlier). They finish their step and
# end with a checkpoint and exit code 85; the job is then requeued under the same number and continues where it stopped, with
# the same bytes in forecast.nc.
#
# Change: --time; --ntasks-per-node: the cores of a node divided by --cpus-per-task; add --partition and --account where
# your site wants them. Environment: GRATICULE_BIN, the folder of graticule-forecast (otherwise that of `bin`
# below); GRATICULE_SRUN_MPI, how srun starts your MPI: pmi2 for MPICH, pmix for Open MPI.
#SBATCH --job-name=graticule-forecast
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -uo pipefail

bin=${GRATICULE_BIN:-${SLURM_SUBMIT_DIR:-.}/build/bin}

# srun of SLURM 22.05 and newer ignores the --cpus-per-task of the job, and would bind each rank to one core.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK=${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}; fi

output=forecast
before=
for option in "$@"; do
    case $option in --output=*) output=${option#*=} ;; esac
    if [ "$before" = --output ]; then output=$option; fi
    before=$option
done
rm -f "$output/stopped"

# A rank that dies does not leave the others waiting until the time limit. Not --kill-on-bad-exit=1: it ends ranks that are
# about to end, and their exit code is lost.
ending=(--kill-on-bad-exit=0 --wait=60)

# In the background and waited for, so that signals to this shell (scancel --full) do not end it before the ranks have ended.
trap : USR1 TERM
srun --mpi="${GRATICULE_SRUN_MPI:-pmi2}" "${ending[@]}" "$bin/graticule-forecast" "$@" &
ranks=$!
while :; do
    wait "$ranks"
    status=$?
    kill -0 "$ranks" 2>/dev/null || break
done

# Exit code 85, which some launchers lose, or the file that says the same.
if [ $status -eq 85 ] || [ -e "$output/stopped" ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
