#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --device of the drivers where there is no GPU: what is chosen, and what is said of a device that is missing. The environment
# names the folder of the programs (BIN) and the launcher (MPIEXEC).
# `A && B || fail` fails when either does.
# shellcheck disable=SC2015
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"

"$BIN/graticule-train" --version >out 2>err || fail "no version"
quiet=(--threads 1 --progress none --log-level warn)
if grep -qE 'Kokkos.*(Cuda|HIP)' out; then
    for value in cpu auto; do
        CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 launch 2 "$BIN/graticule-train" --input fields.nc --device $value "${quiet[@]}"
        [ $code -eq 2 ] && grep -qF "devices and none is visible here" err || fail "--device $value without a device"
    done
    skip "Kokkos computes on a device here; the error without one was tested"
fi
launch 1 "$BIN/graticule-make-fields" fields.nc --nlat 12 --nlon 16 --samples 4 --levels 1 "${quiet[@]}"
[ $code -eq 0 ] || fail "no fields"
train() { launch "$1" "$BIN/graticule-train" --input fields.nc --inputs z --targets u --epochs 1 --channels 2 --blocks 1 "${quiet[@]}" "${@:2}"; }
# fails TEXT...: a usage error that contains each
fails() {
    [ $code -eq 2 ] || fail "exit $code, expected 2"
    for text in "$@"; do grep -qF -- "$text" err || fail "the error lacks '$text'"; done
}

train 2 --output first --device cpu
succeeds
train 2 --output second --device auto
succeeds
train 2 --output third
succeeds
cmp first/loss.csv second/loss.csv && cmp first/loss.csv third/loss.csv || fail "the losses differ"
for report in first:cpu second:auto third:auto; do
    tr -d ' \n' <"${report%:*}/report.json" | grep -qF "\"device\":{\"asked\":\"${report#*:}\",\"kind\":\"cpu\"}" || fail "the report of ${report%:*}"
done

train 2 --output none --device cuda
fails "--device cuda" "Kokkos was built without CUDA" "LibTorch" "was built without CUDA"
[ ! -e none ] || fail "an output folder of a training that never began"
train 1 --output none --device hip:1
fails "--device hip:1" "Kokkos was built without HIP" "without HIP (ROCm)"
for value in gpu cuda: cuda:x cuda:-1 cuda:1x cuda:0:1 cpu:0 auto:1 CUDA; do
    train 1 --output none --device "$value"
    fails "--device $value" "valid are auto, cpu, cuda[:N] and hip[:N]"
done
launch 2 "$BIN/graticule-train" --input fields.nc --device cuda --dump-config
[ $code -eq 0 ] && grep -q 'device: *"\?cuda' out || fail "--dump-config"

launch 1 "$BIN/graticule-forecast" --checkpoint net --input fields.nc --start 2000-01-01 --device cuda:0 "${quiet[@]}"
fails "--device cuda:0" "Kokkos was built without CUDA" "LibTorch"
bench() { launch 2 "$BIN/graticule-bench" "$@" --grid 12x16 --channels 2 --repetitions 3 --caches warm "${quiet[@]}"; }
bench halo --device cuda
fails "--device cuda" "Kokkos was built without CUDA"
bench unet --device cuda
fails "--device cuda" "Kokkos was built without CUDA" "LibTorch"
bench layer --device cuda
fails "--device does not apply to the kind layer"
bench halo --device cpu
succeeds
