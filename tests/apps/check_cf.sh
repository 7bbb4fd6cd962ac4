#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The CF checkers on what the drivers write: check_cf.sh make_fields|train|repartition. The environment names the folder of
# the programs (BIN), the launcher (MPIEXEC) and the folder of sample files (DATA, may be empty).
#
# Needs `compliance-checker` and `cfchecks` (PyPI: compliance-checker, cfchecker; Debian: libudunits2-0), in PATH or in the
# folder GRATICULE_CF_TOOLS, such as the bin folder of a Python environment; ends with 77 without them. Both check against
# CF 1.8. The table of standard names is the one that compliance-checker brings; the tables of area types and regions,
# which cfchecks would fetch from the network, are empty here: no driver writes such names.
# Words of $MPIEXEC are split on purpose; `A && B || fail` fails when either does.
# shellcheck disable=SC2015
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
PATH=${GRATICULE_CF_TOOLS:+$GRATICULE_CF_TOOLS:}$PATH
need compliance-checker "PyPI: compliance-checker; GRATICULE_CF_TOOLS names a folder with it"
need cfchecks "PyPI: cfchecker; GRATICULE_CF_TOOLS names a folder with it"
python=$(head -n 1 "$(command -v compliance-checker)")
names=$("${python#\#!}" -c 'import compliance_checker as c; print(c.__path__[0])')/data/cf-standard-name-table.xml
[ -f "$names" ] || skip "compliance-checker brings no table of standard names"
printf '<table><version_number>0</version_number><date>none</date></table>' >none.xml

# findings FILE: what the two find, a line each, without the name of the file
findings() {
    local name=cf.nc
    cp "$1" $name
    cfchecks -s "$names" -a none.xml -r none.xml -v 1.8 $name >cf 2>&1
    grep -q 'ERRORS detected' cf || fail "cfchecks ends early: $(tail -n 3 cf)"
    grep -E '(ERROR|WARN|FATAL): ' cf
    compliance-checker --test cf:1.8 $name >cc 2>/dev/null
    grep -qF 'cf:1.8' cc || fail "compliance-checker ends early: $(tail -n 3 cc)"
    grep -E '^\* ' cc
    rm $name
}
# clean FILE [PATTERN]: no findings but those that match
clean() {
    findings "$1" | grep -vE "${2:-^$}" >found
    [ ! -s found ] || fail "$1: $(cat found)"
}
train() {
    launch 2 "$BIN/graticule-train" --channels 2 --blocks 1 --epochs 1 --threads 1 --progress none "$@"
    succeeds
}
make_fields() {
    launch 2 "$BIN/graticule-make-fields" fields.nc --nlat 19 --nlon 36 --samples 3 --levels 2 --stream-function --progress none
    succeeds
}

case_make_fields() {
    make_fields
    clean fields.nc
    launch 2 "$BIN/graticule-make-fields" f64.nc --nlat 18 --nlon 36 --samples 1 --levels 1 --dtype f64 --poles excluded \
        --lat-order south-to-north --progress none
    succeeds
    clean f64.nc
}

case_train() {
    [ -x "$BIN/graticule-train" ] || skip "graticule-train is not built"
    make_fields
    train --input fields.nc --output made
    clean made/prediction.nc
    [ -n "$DATA" ] || skip "GRATICULE_TEST_DATA names no folder of sample files; made fields are clean"
    local file
    for file in eraint_uvz:z:u,v gems_tcco2_6h:tcco2:tcco2 echam_ts_6h:ts:ts z_anomaly_daily:z_anomaly:z_anomaly \
        navy_winds_monthly:u:v era5_eda_zt_12h:z:t; do
        IFS=: read -r name input target <<<"$file"
        train --input "$DATA/$name.nc" --inputs "$input" --targets "$target" --static sin_latitude --features value \
            --mirror off --output "$name"
        # The file says that its times are those of forecasts, which compliance-checker does not take from one named time.
        clean "$name/prediction.nc" "'time' should have standard_name='time', found: 'forecast_reference_time'"
        rm -r "$name"
    done
}

# What is rewritten has no findings that the input has not.
case_repartition() {
    make_fields
    launch 2 "$BIN/graticule-repartition" fields.nc out.nc --chunk latitude=5 --deflate 1 --progress none
    succeeds
    clean out.nc
    launch 2 "$BIN/graticule-repartition" fields.nc out.nc --dtype i16-packed --progress none
    succeeds
    clean out.nc
    [ -n "$DATA" ] || skip "GRATICULE_TEST_DATA names no folder of sample files; made fields are clean"
    local file
    for file in eraint_uvz gems_tcco2_6h echam_ts_6h z_anomaly_daily navy_winds_monthly era5_eda_zt_12h; do
        findings "$DATA/$file.nc" | sort >before
        launch 2 "$BIN/graticule-repartition" "$DATA/$file.nc" out.nc --chunk latitude=32 --deflate 1 --progress none
        succeeds
        findings out.nc | sort >after
        comm -13 before after >found
        [ ! -s found ] || fail "$file: $(cat found)"
    done
}

declare -F "case_$1" >/dev/null || fail "no case $1"
"case_$1"
