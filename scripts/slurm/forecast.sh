#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Forecasts on one node:  sbatch scripts/slurm/forecast.sh --checkpoint DIR --input FIELDS.nc --start DATES --output DIR [OPTION...]
#
# A minute before the time limit the forecast stops with a checkpoint; the job is then requeued under the same number and
# continues where it stopped, with the same bytes in forecast.nc.
#
# Change: --time; --ntasks-per-node: the cores of a node divided by --cpus-per-task; add --partition and --account where
# your site wants them. Environment: GRATICULE_BIN, the folder of graticule-forecast (build/bin of the folder where sbatch
# is called); GRATICULE_SRUN_MPI, how srun starts your MPI: pmi2 for MPICH, pmix for Open MPI.
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
output=forecast
before=
for option in "$@"; do
    case $option in --output=*) output=${option#*=} ;; esac
    if [ "$before" = --output ]; then output=$option; fi
    before=$option
done
rm -f "$output/stopped"

# In the background and waited for, so that signals to this shell (scancel --full) do not end it before the ranks have ended.
trap : USR1 TERM
srun --mpi="${GRATICULE_SRUN_MPI:-pmi2}" --kill-on-bad-exit=0 --wait=60 "$bin/graticule-forecast" "$@" &
ranks=$!
while :; do
    wait "$ranks"
    status=$?
    kill -0 "$ranks" 2>/dev/null || break
done

# Exit code 85, which some launchers lose, or the file that says the same.
if [ $status -eq 85 ] || [ -e "$output/stopped" ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
