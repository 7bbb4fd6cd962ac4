#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Trains for longer than a job may last:  sbatch requeue.sh --input FIELDS.nc --output DIR [OPTION...]
#
# Two minutes before the time limit SLURM sends USR1 to the ranks. They finish their step, write a checkpoint to
# DIR/checkpoints and the file DIR/stopped, and end with exit code 85. The job is then requeued under the same number and
# continues where it stopped.
# The same happens when the job is preempted or requeued by hand (TERM), or when a node fails (from the last checkpoint of
# --checkpoint-every). The losses have the same bits as those of an uninterrupted training.
# Any other error ends the job; when submitted again it continues from the last checkpoint as well.
#
# Change: --time, --nodes and --ntasks-per-node, and --signal where a step and a checkpoint take longer than a minute (SLURM
# may send it up to a minute early); add --partition and --account where your site wants them. Environment: GRATICULE_BIN,
# the folder of graticule-train (otherwise that of `bin` below); GRATICULE_SRUN_MPI, how srun starts your MPI:
# pmi2 for MPICH, pmix for Open MPI.
#SBATCH --job-name=graticule-train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -uo pipefail

bin=${GRATICULE_BIN:-${SLURM_SUBMIT_DIR:-.}/build/bin}

# srun of SLURM 22.05 and newer ignores the --cpus-per-task of the job, and would bind each rank to one core.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK=${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}; fi

# Older versions of SLURM do not tell jobs when they end.
if [ -z "${SLURM_JOB_END_TIME:-}" ]; then
    end=$(squeue --noheader --job="$SLURM_JOB_ID" --format=%e) && SLURM_JOB_END_TIME=$(date --date="$end" +%s) &&
        export SLURM_JOB_END_TIME
fi

every=(--checkpoint-every 100)
output=graticule-train
before=
for option in "$@"; do
    case $option in
        --checkpoint-every | --checkpoint-every=*) every=() ;;
        --output=*) output=${option#*=} ;;
    esac
    if [ "$before" = --output ]; then output=$option; fi
    before=$option
done
# What a run that stopped early leaves. Of this run: it may end before graticule-train removes that of the one before.
rm -f "$output/stopped"

# A rank that dies does not leave the others waiting until the time limit. Not --kill-on-bad-exit=1: it ends ranks that are
# about to end, and their exit code is lost.
ending=(--kill-on-bad-exit=0 --wait=60)

# A job that continues on fewer nodes may keep the number of tasks that it began with in its environment.
tasks=()
if [ -n "${SLURM_NTASKS_PER_NODE:-}" ] && [ -n "${SLURM_JOB_NUM_NODES:-}" ]; then
    tasks=(--ntasks=$((SLURM_JOB_NUM_NODES * SLURM_NTASKS_PER_NODE)))
fi

# In the background and waited for, so that signals to this shell (scancel --full) do not end it before the ranks have ended.
trap : USR1 TERM
srun --mpi="${GRATICULE_SRUN_MPI:-pmi2}" "${ending[@]}" "${tasks[@]}" \
    "$bin/graticule-train" "${every[@]}" "$@" &
ranks=$!
while :; do
    wait "$ranks"
    status=$?
    kill -0 "$ranks" 2>/dev/null || break
done

# Exit code 85, which some launchers lose, or the file that says the same.
if [ $status -eq 85 ] || [ -e "$output/stopped" ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
