#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What scripts/slurm/gpus.sh gives to srun, which is pretended here, and the cores per rank that each script beside it gives:
# check_gpus.sh GPUS.SH
set -uo pipefail

script=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf 'FAILED: %s\n' "$1"
    cat "$folder/out" "$folder/err"
    exit 1
}

# run STATUS ARGUMENT...: the program and its arguments, each in brackets, in $folder/out
run() {
    local status=$1 code
    shift
    PATH=$folder:$PATH "$script" "$@" >"$folder/out" 2>"$folder/err"
    code=$?
    [ $code -eq "$status" ] || fail "exit $code, expected $status: ${script##*/} $*"
}

# starts COMMAND ARGUMENT...
starts() { [ "$(cat "$folder/out")" = "$(printf '[%s]' "$@")" ] || fail "does not start $*"; }

# says TEXT: one line, and nothing is started
says() {
    [ ! -s "$folder/out" ] && [ "$(wc -l <"$folder/err")" -eq 1 ] && grep -qF -- "$1" "$folder/err" || fail "does not say: $1"
}

cat >"$folder/srun" <<'SRUN'
#!/bin/bash
while [[ ${1:-} == --* ]]; do shift; done
printf '[%s]' "$@"
SRUN
chmod +x "$folder/srun"
export GRATICULE_BIN=/bin/of
unset GRATICULE_DEVICE
train=$GRATICULE_BIN/graticule-train

run 0 --input "a b.nc"
starts $train --device cuda --input "a b.nc"
GRATICULE_DEVICE=hip run 0 --input a.nc
starts $train --device hip --input a.nc
# graticule-train takes one --device.
GRATICULE_DEVICE=hip run 0 --input a.nc --device cuda
starts $train --input a.nc --device cuda
run 0 --device=hip --input a.nc
starts $train --device=hip --input a.nc
# The command line would win over a file.
printf 'input: a.nc\ndevice: cuda:1\n' >"$folder/names it.yaml"
printf '{"input": a.nc, "device": cpu}\n' >"$folder/braces.yaml"
printf '# device: cpu\ninput: device.nc\n"static-file": a:device:b\n' >"$folder/without.yaml"
run 0 --config "$folder/names it.yaml" --epochs 2
starts $train --config "$folder/names it.yaml" --epochs 2
GRATICULE_DEVICE=hip run 0 --epochs 2 "--config=$folder/names it.yaml"
starts $train --epochs 2 "--config=$folder/names it.yaml"
run 0 --config "$folder/braces.yaml"
starts $train --config "$folder/braces.yaml"
run 0 --config "$folder/without.yaml"
starts $train --device cuda --config "$folder/without.yaml"
run 0 --config "$folder/none.yaml"
starts $train --device cuda --config "$folder/none.yaml"
run 0 -- program --device x
starts program --device x

run 2
says "options of graticule-train, or -- PROGRAM"
run 2 --
says "no program after --"

# srun of SLURM 22.05 takes them from SRUN_CPUS_PER_TASK alone, and refuses an empty one.
printf '#!/bin/bash\nprintf "[%%s]" "${SRUN_CPUS_PER_TASK-unset}"\n' >"$folder/srun"
export SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=1 SLURM_JOB_END_TIME=2000000000
unset SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK
for script in "$(dirname "$script")"/*.sh; do
    run 0 --output "$folder/none"
    starts unset
    SLURM_CPUS_PER_TASK=4 run 0 --output "$folder/none"
    starts 4
    SLURM_CPUS_PER_TASK=4 SRUN_CPUS_PER_TASK=2 run 0 --output "$folder/none"
    starts 2
done
