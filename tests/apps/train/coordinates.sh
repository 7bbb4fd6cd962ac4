#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What coordinates had in the input is in prediction.nc: coordinates.sh. The environment names DRIVER and MPIEXEC (with its
# option for the number of ranks). Ends with 77 when it is skipped.
# shellcheck disable=SC2015
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"
need ncgen netcdf-bin
need ncdump netcdf-bin

# numbers COUNT FUNCTION-OF-i: separated by commas
numbers() { awk -v n="$1" "BEGIN { for (i = 0; i < n; ++i) printf \"%s%.6f\", i ? \", \" : \"\", $2 }"; }
{
    cat <<'CDL'
netcdf in {
dimensions: time = 4; lev = 2; lat = 12; lon = 24; bnds = 2; letters = 3;
variables:
    double time(time); time:units = "days since 2000-02-28"; time:calendar = "360_day"; time:standard_name = "time";
        time:long_name = "middle of the day"; time:axis = "T"; time:bounds = "time_bnds"; time:note = 1.5f, 2.f;
    double time_bnds(time, bnds);
    float lev(lev); lev:standard_name = "atmosphere_hybrid_sigma_pressure_coordinate"; lev:long_name = "level";
        lev:units = "1"; lev:positive = "down"; lev:axis = "Z"; lev:formula_terms = "ap: hyam b: hybm ps: ps";
    double hyam(lev); hyam:units = "Pa";
    double hybm(lev); hybm:units = "1";
    float ps(time, lat, lon); ps:units = "Pa";
    float lat(lat); lat:standard_name = "latitude"; lat:units = "degrees_north"; lat:axis = "Y"; lat:bounds = "lat_bnds";
    float lat_bnds(lat, bnds);
    float lon(lon); lon:standard_name = "longitude"; lon:units = "degrees_east"; lon:axis = "X"; lon:topology = "circular";
    int crs; crs:grid_mapping_name = "latitude_longitude"; crs:earth_radius = 6371229.;
    double height; height:standard_name = "height"; height:units = "m"; height:positive = "up"; height:axis = "Z";
    char season(time, letters); season:long_name = "season";
    int64 stamp(time); stamp:long_name = "nanoseconds"; stamp:units = "1";
    short gap(time); gap:_FillValue = -1s; gap:long_name = "with a gap";
    float z(time, lev, lat, lon); z:standard_name = "geopotential"; z:units = "m2 s-2";
    float u(time, lev, lat, lon); u:standard_name = "eastward_wind"; u:units = "m s-1"; u:cell_methods = "time: mean";
        u:coordinates = "height season stamp gap"; u:grid_mapping = "crs"; u:cell_measures = "area: area";
:Conventions = "CF-1.8"; :history = "made by hand";
data:
    time = 0.5, 1.5, 2.5, 3.5; time_bnds = 0, 1, 1, 2, 2, 3, 3, 4; lev = 0.5, 0.9; hyam = 100, 0; hybm = 0.5, 1; crs = 7;
    height = 10; season = "DJF", "MAM", "JJA", "SON"; stamp = 9007199254740993, 2, 3, -9007199254740995; gap = 1, _, 3, 4;
CDL
    printf 'lat = %s;\nlat_bnds = %s;\nlon = %s;\n' "$(numbers 12 '82.5 - 15 * i')" \
        "$(numbers 24 '90 - 15 * int((i + 1) / 2)')" "$(numbers 24 '15 * i')"
    printf 'z = %s;\nu = %s; }\n' "$(numbers 2304 '1000 * sin(i * 0.7)')" "$(numbers 2304 'cos(i * 0.3)')"
} >in.cdl
ncgen -k nc4 -o in.nc in.cdl || fail "ncgen"

launch 2 "$DRIVER" --input in.nc --inputs z --targets u --output trained --channels 2 --blocks 1 --epochs 1 --threads 1 \
    --progress none
succeeds
grep -qF 'ps, which describes coordinates, cannot be copied' err || grep -qF 'ps, which' out || fail "silent about ps"

# lines VARIABLE FILE: its type, axes and attributes
lines() { ncdump -h "$2" | grep -E "^	+[a-z0-9]+ $1(\(.*\))? ;|^	+$1:" | sort; }
values() { ncdump -v "$1" "$2" | sed -n '/^data:/,$p'; }
for name in time time_bnds lev hyam hybm lat lat_bnds lon crs height season stamp; do
    lines $name in.nc | grep -v 'formula_terms' >a
    lines $name trained/prediction.nc >b
    [ -s a ] && cmp a b || fail "$name was: $(cat a) and is: $(cat b)"
    values $name in.nc >a
    values $name trained/prediction.nc >b
    cmp a b || fail "$name has other values"
done
ncdump trained/prediction.nc -v gap | grep -qF 'gap = 1, _, 3, 4 ;' || fail "the gap is filled"
ncdump -h trained/prediction.nc >header
for text in 'u_truth:standard_name = "eastward_wind"' 'u_prediction:standard_name = "eastward_wind"' \
    'u_prediction:cell_methods = "time: mean"' 'u_truth:coordinates = "height season stamp gap"' \
    'u_difference:grid_mapping = "crs"' 'u_difference:units = "m s-1"' 'made by hand"'; do
    grep -qF -- "$text" header || fail "prediction.nc lacks $text"
done
! grep -qE 'u_difference:standard_name|cell_measures|formula_terms' header ||
    fail "it says what is not so"
