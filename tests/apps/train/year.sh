#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A year of 6-hourly fields as 365 files, as a store of one step per chunk and as one of shards trains with the same losses, bit for
# bit, on 1 and 2 ranks: year.sh. The environment names BIN and MPIEXEC (with its option for the number of ranks). Ends with 77
# when it is skipped.
# shellcheck disable=SC2015
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"
need ncgen netcdf-bin

# cdl FIRST COUNT: the steps [FIRST, FIRST + COUNT) of the year
cdl() {
    awk -v first="$1" -v count="$2" '
        function list(name, n,    i) { printf "%s = ", name; for (i = 0; i < n; ++i) printf "%s%.5g", i ? ", " : "", value(name, i); print ";" }
        function value(name, i,    t, y, x) {
            if (name == "latitude") return 78.75 - 22.5 * i
            if (name == "longitude") return 22.5 * i
            if (name == "time") return 6 * (first + i)
            t = first + int(i / 128); y = int(i / 16) % 8; x = i % 16
            return name == "z" ? 500 + 90 * sin(0.4 * x + 0.05 * t) * cos(0.5 * y - 2) : 9 * cos(0.4 * x + 0.05 * t) * sin(0.5 * y)
        }
        BEGIN {
            print "netcdf year { dimensions: time = UNLIMITED; latitude = 8; longitude = 16;"
            print "variables: double time(time); time:units = \"hours since 2001-01-01\"; double latitude(latitude);"
            print "latitude:units = \"degrees_north\"; double longitude(longitude); longitude:units = \"degrees_east\";"
            print "float z(time, latitude, longitude); float u(time, latitude, longitude); data:"
            list("latitude", 8); list("longitude", 16); list("time", count); list("z", 128 * count); list("u", 128 * count)
            print "}"
        }'
}
cdl 0 1460 | ncgen -k nc4 -o year.nc || fail "ncgen"
mkdir days
for ((day = 0; day < 365; ++day)); do
    cdl $((4 * day)) 4 | ncgen -k nc4 -o "days/$day.nc" || fail "ncgen"
done
quiet=(--threads 1 --progress none --log-level warn)
launch 1 "$BIN/graticule-repartition" year.nc steps.zarr --chunk time=1 "${quiet[@]}"
succeeds
launch 1 "$BIN/graticule-repartition" year.nc shards.zarr --chunk time=1 --shard time=146 "${quiet[@]}"
succeeds

for ranks in 1 2; do
    for input in 'days/*.nc' steps.zarr shards.zarr; do
        launch $ranks "$BIN/graticule-train" --input "$input" --inputs z --targets u --train-fraction 0.75 --epochs 1 --batch 16 \
            --channels 2 --blocks 1 --memory 1MB --output "net$ranks" "${quiet[@]}"
        succeeds
        sha256sum <"net$ranks/loss.csv" >>"losses$ranks"
    done
    [ "$(wc -l <"net$ranks/loss.csv")" -gt 60 ] || fail "few losses"
    [ "$(sort -u "losses$ranks" | wc -l)" -eq 1 ] || fail "other losses on $ranks ranks"
done
