#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# scripts/slurm/requeue.sh with an srun and an scontrol that only pretend: requeue.sh SCRIPT.
# `A && B || fail` fails when either does.
# shellcheck disable=SC2015
script=$1
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"

mkdir bin
cat >bin/srun <<'END'
#!/usr/bin/env bash
printf '%s\n' "$@" >arguments
if [ -n "$LEAVES" ]; then mkdir -p "$LEAVES" && echo "signal USR1 after step 3 of 9" >"$LEAVES/stopped"; fi
exit "$STATUS"
END
printf '#!/usr/bin/env bash\necho "$@" >requeued\n' >bin/scontrol
chmod +x bin/srun bin/scontrol
export PATH=$PWD/bin:$PATH SLURM_JOB_ID=7 SLURM_JOB_END_TIME=2000000000

# job STATUS LEAVES OPTION...: srun ends with STATUS and leaves LEAVES/stopped, if it is not empty
job() {
    rm -f requeued
    STATUS=$1 LEAVES=$2 bash "$script" --input x.nc "${@:3}" >out 2>err
    code=$?
    [ $code -eq "$1" ] || fail "exit $code, srun ended with $1"
}
is_requeued() { [ "$(cat requeued 2>/dev/null)" = "requeue 7" ] || fail "not requeued: $*"; }
is_not_requeued() { [ ! -e requeued ] || fail "requeued: $*"; }

job 85 ""
is_requeued "exit 85"
job 0 "" --output run
is_not_requeued "exit 0"
# The launcher has lost the code: 0, or that of a signal.
for options in "--output run" "--epochs 3 --output=run --lr 1e-3"; do
    for status in 0 143; do
        # shellcheck disable=SC2086
        job $status run $options
        is_requeued "exit $status and the file, $options"
    done
done
job 0 graticule-train
is_requeued "the file in the folder that is used without --output"
# Of an earlier run: a command that is refused at once would go round for ever.
mkdir -p run && echo old >run/stopped
job 2 "" --output run
is_not_requeued "an error, and a file of an earlier run"
grep -qx -- '--checkpoint-every' arguments && grep -qx 'run' arguments || fail "options are lost: $(xargs <arguments)"
