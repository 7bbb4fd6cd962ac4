#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# make_forecaster.sh FOLDER: a small simulation, a network with a history of 2 trained on it, and its forecast of 3 steps from day 1.
# The environment names the folder of the drivers (BIN) and the launcher (MPIEXEC).
set -euo pipefail
rm -rf "$1"
mkdir -p "$1"
cd "$1"
# run PROGRAM ARGUMENT...
run() {
    # shellcheck disable=SC2086
    $MPIEXEC 1 "$BIN/$1" --threads 1 --progress none --log-level warn "${@:2}"
}
run graticule-swe --case random --nlat 16 --nlon 32 --days 3 --every 6h --output swe
run graticule-train --input swe/series.nc --prognostic h,u,v --diagnostic vorticity --lead 6h --history 2 --channels 4 --blocks 1 --epochs 1 \
    --train-fraction 0.7 --output net
run graticule-forecast --checkpoint net --input swe/series.nc --start 2000-01-02 --steps 3 --output forecast
