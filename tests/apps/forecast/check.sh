#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests of graticule-forecast from outside: check.sh CASE. The environment names the folder of the programs (BIN), the
# launcher (MPIEXEC), and the folder of what the case `prepared` makes for the others (PREPARED).
# `A && B || fail` fails when either does.
# shellcheck disable=SC2015
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"
# A small simulation and a small network of it.
case_prepared() {
    launch 2 "$BIN/graticule-swe" --case random --nlat 16 --nlon 32 --days 3 --every 6h --threads 1 --progress none --log-level warn \
        --output swe
    succeeds
    launch 2 "$BIN/graticule-train" --input swe/series.nc --prognostic h,u,v --diagnostic vorticity --lead 6h --channels 4 --blocks 1 \
        --epochs 2 --train-fraction 0.7 --threads 1 --progress none --log-level warn --output net
    succeeds
    rm -rf "$PREPARED"
    mkdir -p "$PREPARED"
    mv swe net "$PREPARED"
}
prepare() { cp -r "$PREPARED"/. . || fail "first: check.sh prepared"; }
# run NUM_RANKS ARGUMENT...
run() {
    launch "$1" "$BIN/graticule-forecast" --checkpoint net --input swe/series.nc --threads 1 --progress none --log-level warn "${@:2}"
}

case_forecasts() {
    need ncdump netcdf-bin
    prepare
    run 2 --start 2000-01-01T06..2000-01-01T12 --steps 4 --output two
    succeeds
    local file text
    for file in forecast_2000-01-01T06.nc forecast_2000-01-01T12.nc scores.nc scores.csv scores.png spectra.nc spectra.png map_6h.png \
        map_12h.png map_24h.png report.json; do
        [ -s "two/$file" ] || fail "no $file"
    done
    ncdump -h two/forecast_2000-01-01T06.nc >out || fail "ncdump"
    for text in 'time = UNLIMITED ; // (4 currently)' 'float h(time, latitude, longitude) ;' 'float vorticity(time' \
        'time:units = "hours since 2000-01-01 06:00:00"' 'double lead_time(time)'; do
        grep -qF -- "$text" out || fail "forecast.nc lacks '$text'"
    done
    ncdump -v lead_time,channel two/scores.nc >out || fail "ncdump of scores.nc"
    grep -qF 'lead_time = 6, 12, 18, 24 ;' out && grep -qF '"vorticity"' out || fail "the axes of scores.nc"
    [ "$(grep -c '^0,0,forecast,h,m,.*,globe,2,' two/scores.csv)" -eq 4 ] || fail "scores.csv"
    ncdump -v zonal_power,zonal_power_of_truth,power two/spectra.nc >out || fail "ncdump of spectra.nc"
    for text in 'zonal_power(channel, region, lead_time, zonal_wavenumber)' 'power(channel, lead_time, total_wavenumber)' \
        'zonal_wavenumber = 17 ;'; do
        grep -qF -- "$text" out || fail "spectra.nc lacks '$text'"
    done
    ! grep -q '_, _, _' out || fail "spectra.nc has no values"
    for text in '"persistence_rmse"' '"acc"' '"crps"' '"spread"' '"starts"' '"process_grid"' '"others":'; do grep -qF "$text" two/report.json || fail "the report lacks $text"; done

    # A forecast goes on from the last state of another one, which it does not overwrite.
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input two/forecast_2000-01-01T06.nc --start 2000-01-02T06 --steps 2 --threads 1 \
        --progress none --log-level warn --output further
    succeeds
    cp further/forecast.nc kept.nc
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input further/forecast.nc --start 2000-01-02T18 --steps 2 --threads 1 \
        --progress none --log-level warn --output further
    [ $code -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF 'further/forecast.nc would be overwritten by this forecast' err ||
        fail "exit $code where the input would be overwritten"
    cmp further/forecast.nc kept.nc || fail "the input was overwritten"

    # The truth ends before the forecast does: what has no truth is not scored.
    run 1 --start 2000-01-03T18 --steps 3 --every 3 --output ahead
    succeeds
    [ -s ahead/forecast.nc ] && [ ! -e ahead/scores.csv ] || fail "scores without truth"

    # What an earlier forecast wrote into the same folder is gone, the files of others stay.
    touch two/map_europe.png two/forecast_mine.nc two/notes.txt
    run 2 --start 2000-01-03T18 --steps 3 --every 3 --output two
    succeeds
    file=$(cd two && echo *)
    [ "$file" = "forecast.nc forecast_mine.nc map_europe.png notes.txt report.json spectra.nc spectra.png" ] || fail "in the folder: $file"
    # Not the file from which a forecast starts.
    run 2 --start 2000-01-01T06..2000-01-01T12 --steps 4 --output three
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input three/forecast_2000-01-01T12.nc --start 2000-01-01T18..2000-01-02T00 --steps 1 \
        --threads 1 --progress none --log-level warn --output three
    succeeds
    [ -s three/forecast_2000-01-01T12.nc ] && [ ! -e three/forecast_2000-01-01T06.nc ] || fail "the input of a forecast is gone"
}

# write_statics FILE NUM_ROWS: orography on the grid of `prepare`, from south to north
write_statics() {
    awk -v rows="$2" 'BEGIN {
        print "netcdf constants {\ndimensions: latitude = " rows "; longitude = 32;\nvariables: double latitude(latitude);"
        print "latitude:units = \"degrees_north\"; latitude:standard_name = \"latitude\"; double longitude(longitude);"
        print "longitude:units = \"degrees_east\"; longitude:standard_name = \"longitude\";"
        print "float orography(latitude, longitude); orography:units = \"m\";\ndata:"
        for (j = 0; j < rows; ++j) latitudes = latitudes (j ? ", " : "") (-90 + (j + 0.5) * 180 / rows)
        for (i = 0; i < 32; ++i) longitudes = longitudes (i ? ", " : "") (i * 11.25)
        for (j = 0; j < rows; ++j) for (i = 0; i < 32; ++i) heights = heights (i + j ? ", " : "") (100 * ((7 * j + 3 * i) % 11))
        print "latitude = " latitudes ";\nlongitude = " longitudes ";\norography = " heights ";\n}"
    }' | ncgen -4 -o "$1" || fail "ncgen"
}
# A field of --static-file is an input like functions of latitude: losses depend on it, but not on the ranks, and the
# checkpoint holds it.
case_statics() {
    need ncgen netcdf-bin
    launch 1 "$BIN/graticule-swe" --case random --nlat 16 --nlon 32 --days 2 --every 6h --threads 1 --progress none --log-level warn \
        --output swe
    succeeds
    write_statics constants.nc 16
    local name ranks
    for name in plain static_1 static_3; do
        ranks=${name#*_}
        local options="--static coriolis,orography --static-file constants.nc"
        if [ "$name" = plain ]; then ranks=1 options="--static coriolis"; fi
        # shellcheck disable=SC2086
        launch "$ranks" "$BIN/graticule-train" --input swe/series.nc --prognostic h,u,v --lead 6h --channels 4 --blocks 1 --epochs 2 \
            --dtype f64 --train-fraction 0.7 --threads 1 --progress none --log-level warn $options --output "$name"
        succeeds
    done
    paste -d, plain/loss.csv static_1/loss.csv static_3/loss.csv | awk -F, '
        NR == 1 { columns = NF / 3; for (c = 1; c <= columns; ++c) if ($c == "loss") loss = c; if (!loss) exit 1; next }
        { plain = $loss; one = $(columns + loss); three = $(2 * columns + loss); ++lines
          if ((plain - one) ^ 2 > 1e-16 * one ^ 2) differs = 1
          if ((three - one) ^ 2 > 1e-24 * one ^ 2) { print "step " NR - 1 ": " one " on 1 rank, " three " on 3"; exit 1 } }
        END { if (lines < 2 || !differs) exit 1 }' >out || fail "losses with a static field: $(cat out)"
    launch 2 "$BIN/graticule-forecast" --checkpoint static_3 --input swe/series.nc --start 2000-01-01T12 --steps 2 --threads 1 \
        --progress none --log-level warn --output ahead
    succeeds
    launch 1 "$BIN/graticule-train" --input swe/series.nc --prognostic h --lead 6h --static orography --threads 1 --progress none --output no
    [ $code -eq 2 ] && grep -qF -- '--static-file' err || fail "a static field without its file"
    write_statics other.nc 8
    launch 2 "$BIN/graticule-train" --input swe/series.nc --prognostic h --lead 6h --static orography --static-file other.nc --threads 1 \
        --progress none --output no
    [ $code -eq 3 ] && grep -qF other.nc err || fail "exit $code for a static field on another grid: $(cat err)"
}

# What the input says of the places of a field is said of its forecast.
case_positions() {
    need ncdump netcdf-bin
    need ncgen netcdf-bin
    prepare
    ncdump swe/series.nc | sed '/^data:/i\
double height ; height:units = "m" ; height:standard_name = "height" ; height:positive = "up" ; height:axis = "Z" ;\
int crs ; crs:grid_mapping_name = "latitude_longitude" ; crs:earth_radius = 6371000. ;\
double age(time) ; age:units = "s" ;\
h:coordinates = "height age" ; h:grid_mapping = "crs" ; h:cell_methods = "time: point" ; u:coordinates = "age" ;
s/^data:/data: height = 2 ; crs = 7 ;/' | ncgen -4 -o places.nc || fail "ncgen"
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input places.nc --start 2000-01-01T06 --steps 2 --threads 1 --progress none \
        --log-level warn --output places
    succeeds
    ncdump places/forecast.nc >out || fail "ncdump"
    local text
    for text in 'double height ;' 'height:positive = "up"' 'crs:earth_radius = 6371000' ' height = 2 ;' ' crs = 7 ;' 'h:grid_mapping = "crs"' \
        'h:cell_methods = "time: point"' 'h:coordinates = "lead_time forecast_reference_time height"' \
        'u:coordinates = "lead_time forecast_reference_time"'; do
        grep -qF -- "$text" out || fail "forecast.nc lacks '$text'"
    done
    ! grep -qE '\<age\>' out || fail "a value of each time of the input"
}

# A network that was trained as an ensemble: the losses are the same on all ranks, its own perturbation is the default.
case_ensembles() {
    need ncdump netcdf-bin
    prepare
    local ranks
    for ranks in 1 2 3; do
        launch $ranks "$BIN/graticule-train" --input swe/series.nc --prognostic h,u,v --lead 6h --channels 4 --blocks 1 --epochs 2 \
            --dtype f64 --loss crps --members 3 --perturbation 0.25 --train-fraction 0.7 --validate-every 1 --threads 1 \
            --progress none --log-level warn --output crps$ranks
        succeeds
    done
    paste -d, crps1/loss.csv crps2/loss.csv crps3/loss.csv | awk -F, '
        NR == 1 { columns = NF / 3; for (c = 1; c <= columns; ++c) if ($c == "loss") loss = c; if (!loss) exit 1; next }
        { one = $loss; ++lines
          for (n = 1; n < 3; ++n) if (($(n * columns + loss) - one) ^ 2 > 1e-24 * one ^ 2) { print NR ": " $0; exit 1 } }
        END { if (lines < 2) exit 1 }' >out || fail "losses of an ensemble: $(cat out)"
    awk -F, 'NR == 1 { for (c = 1; c <= NF; ++c) place[$c] = c; next }
        $place["part"] == "test" || $place["part"] == "validation" { if ($place["spread"] > 0 && $place["crps"] < $place["mae"]) good = 1 }
        END { exit !good }' crps2/scores.csv || fail "no spread in scores.csv"
    local options="--checkpoint crps2 --input swe/series.nc --start 2000-01-01T12 --steps 2 --members 2 --threads 1 --progress none"
    # shellcheck disable=SC2086
    launch 2 "$BIN/graticule-forecast" $options --log-level warn --output own
    succeeds
    # shellcheck disable=SC2086
    launch 2 "$BIN/graticule-forecast" $options --log-level warn --perturbation 0.25 --output given
    succeeds
    # shellcheck disable=SC2086
    launch 2 "$BIN/graticule-forecast" $options --log-level warn --perturbation 0.5 --output other
    succeeds
    cmp own/scores.csv given/scores.csv || fail "the default is not the perturbation of the training"
    ! cmp -s own/scores.csv other/scores.csv || fail "--perturbation has no effect"
    local arguments text
    while IFS='|' read -r arguments text; do
        # shellcheck disable=SC2086
        launch 2 "$BIN/graticule-train" --input swe/series.nc $arguments --threads 1 --progress none --log-level warn --output errors
        [ $code -eq 2 ] || fail "exit $code of $arguments"
        grep -qF -- "$text" err || fail "$arguments does not say '$text'"
    done <<'END'
--inputs h --targets u --loss crps|--loss crps is for forecasts
--prognostic h --lead 6h --members 3|--members is for --loss crps only
--prognostic h --lead 6h --perturbation 1|--perturbation is for --loss crps only
--prognostic h --lead 6h --loss crps --members 1|--members
--prognostic h --lead 6h --loss crps --perturbation 0|--perturbation
--prognostic h --lead 6h --polar-filter 90|--polar-filter
END
}

# Stores, with the values of the netCDF-4 file, also after a restart.
case_stores() {
    local python=${GRATICULE_TEST_PYTHON:-python3}
    [ -x "$python" ] || python=python3
    "$python" -c 'import xarray, zarr, netCDF4' 2>/dev/null || skip "$python has no xarray with zarr and netCDF4"
    prepare
    local options="--start 2000-01-01T12 --steps 6 --members 3 --seed 5"
    # shellcheck disable=SC2086
    run 1 $options --output whole
    succeeds
    # shellcheck disable=SC2086
    run 1 $options --output whole_store --output-format zarr
    succeeds
    # shellcheck disable=SC2086
    run 1 $options --output parts --output-format zarr --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    # shellcheck disable=SC2086
    run 1 $options --output parts --output-format zarr
    succeeds
    # shellcheck disable=SC2086
    run 3 $options --teams 3 --output teams --output-format zarr
    succeeds
    cat >compare.py <<'PY'
import sys, warnings
import xarray
warnings.simplefilter("ignore")
ours, theirs = xarray.open_zarr(sys.argv[1]).load(), xarray.open_dataset(sys.argv[2]).load()
xarray.testing.assert_equal(ours, theirs)
assert ours.attrs["title"] == theirs.attrs["title"] and all(set(ours[name].attrs) == set(theirs[name].attrs) for name in ours.variables)
PY
    local folder
    for folder in whole_store parts teams; do
        [ ! -e $folder/forecast.nc ] || fail "a netCDF-4 file, too"
        "$python" compare.py $folder/forecast.zarr whole/forecast.nc >out 2>err || fail "$folder has other values"
        cmp whole/scores.csv $folder/scores.csv || fail "$folder has other scores"
    done
    diff -r whole_store/forecast.zarr parts/forecast.zarr || fail "a restarted forecast has other bytes"
    # It starts from one, and takes the place of files of the other format.
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input whole_store/forecast.zarr --start 2000-01-03 --steps 2 --threads 1 \
        --progress none --log-level warn --output teams
    succeeds
    [ -s teams/forecast.nc ] && [ ! -e teams/forecast.zarr ] || fail "in the folder: $(ls teams)"
    # shellcheck disable=SC2086
    run 1 $options --output parts
    [ $code -eq 2 ] && grep -qF 'is of another forecast' err || fail "exit $code of another format after a stop"
    launch 2 "$BIN/graticule-train" --input swe/series.nc --inputs h --targets u --channels 4 --blocks 1 --epochs 1 --threads 1 --progress none \
        --log-level warn --output same
    succeeds
    launch 2 "$BIN/graticule-train" --input swe/series.nc --inputs h --targets u --channels 4 --blocks 1 --epochs 1 --threads 1 --progress none \
        --log-level warn --output same_store --output-format zarr
    succeeds
    "$python" compare.py same_store/prediction.zarr same/prediction.nc >out 2>err || fail "other predictions"
}

# The same scores of an ensemble on other teams; the same bytes after a restart.
case_restarts() {
    prepare
    local options="--start 2000-01-01T12 --steps 6 --members 3 --seed 5"
    # shellcheck disable=SC2086
    run 1 $options --output whole
    succeeds
    # shellcheck disable=SC2086
    run 1 $options --output parts --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    grep -q '^the time limit after step 1 of 6 from 2000-01-01 12:00' parts/stopped || fail "the file stopped"
    # shellcheck disable=SC2086
    run 1 $options --output parts --checkpoint-every 2
    succeeds
    cmp whole/forecast.nc parts/forecast.nc || fail "a restarted forecast has other bytes"
    cmp whole/scores.csv parts/scores.csv || fail "a restarted forecast has other scores"
    [ "$(cd whole && ls ./*.png)" = "$(cd parts && ls ./*.png)" ] || fail "a restarted forecast has other pictures"
    [ "$(cd whole && ls ./*.png | wc -l)" -ge 4 ] || fail "pictures are missing"
    local picture
    for picture in whole/*.png; do
        cmp "$picture" "parts/${picture#*/}" || fail "a restarted forecast draws another $picture"
    done
    # shellcheck disable=SC2086
    run 3 $options --teams 3 --output teams
    succeeds
    cmp whole/forecast.nc teams/forecast.nc || fail "members on other teams have other bytes"
    cmp whole/scores.csv teams/scores.csv || fail "members on other teams have other scores"
    run 1 --start 2000-01-01T12 --steps 5 --output parts
    [ $code -eq 2 ] && grep -qF 'is of another forecast' err || fail "a checkpoint of another forecast"
    # Every option that the bytes depend on.
    # shellcheck disable=SC2086
    run 1 $options --output other --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    local change
    for change in '--start 2000-01-01T18' '--steps 5' '--every 2' '--members 2' '--perturbation 0.1' '--seed 6' '--output-format zarr' \
        '--missing error' '--repeated-longitude drop'; do
        # shellcheck disable=SC2086
        run 1 $(echo "$options" | sed "s/${change% *} [^ ]*//") $change --output other
        [ $code -eq 2 ] && grep -qF 'is of another forecast' err || fail "exit $code when resumed with $change"
    done
    # shellcheck disable=SC2086
    run 1 $options --output other --maps 2 --missing warn
    succeeds
    cmp whole/forecast.nc other/forecast.nc || fail "a restarted forecast has other bytes"
}

# Trainings that write into the folder of an earlier one: tables repeat no line, and no network of the earlier one stays.
case_retrained() {
    prepare
    # train ARGUMENT...
    train() {
        launch 2 "$BIN/graticule-train" --input swe/series.nc --prognostic h --lead 6h --channels 2 --blocks 1 --epochs 3 --train-fraction 0.7 \
            --threads 1 --progress none --log-level warn --output trained "$@"
        succeeds
    }
    train --validate-every 1 --checkpoint-every 1
    [ -d trained/best ] && grep -q ',final,h,m,6,tropics,' trained/scores.csv && grep -q '^2,10,validation,' trained/scores.csv || fail "no scores"
    cp trained/scores.csv scores.csv
    train --validate-every 1 --checkpoint-every 1
    cmp trained/scores.csv scores.csv || fail "a training that had ended repeats lines"
    # From the last checkpoint but one, with a line that was cut off.
    find trained/checkpoints -name 'checkpoint-*.h5' | sort | tail -n 1 | xargs rm
    printf '3,15,final,h' >>trained/scores.csv
    train --validate-every 1 --checkpoint-every 1
    cmp trained/scores.csv scores.csv || fail "a training that goes on repeats lines"
    rm -r trained/checkpoints
    train
    [ -d trained/last ] && [ ! -e trained/best ] || fail "best of an earlier training stays"
    [ -s trained/scores.csv ] && [ ! -e trained/validation.csv ] || fail "validation.csv of an earlier training stays"
    # As many samples, of another day.
    dated() {
        launch 1 "$BIN/graticule-train" --input swe/series.nc --prognostic h --lead 6h --channels 2 --blocks 1 --epochs 1 --threads 1 \
            --progress none --log-level warn --validate-dates 2000-01-01..2000-01-01T12 --train-dates "$1" --checkpoint-every 1 --output dated
    }
    dated 2000-01-01T18..2000-01-02T06
    succeeds
    dated 2000-01-02..2000-01-02T12
    [ $code -eq 2 ] && grep -qF 'was made with' err || fail "exit $code for a training of another day: $(cat err)"
}

# What --dump-config prints is a configuration of the same training; options of the other use are refused, not ignored.
case_options() {
    prepare
    # train ARGUMENT...
    train() { launch 1 "$BIN/graticule-train" --input swe/series.nc --threads 1 --progress none --log-level warn "$@"; }
    local options="--prognostic h --lead 6h --channels 2 --blocks 1 --epochs 1 --train-fraction 0.7" arguments text
    # shellcheck disable=SC2086
    train $options --rollout 900 --output errors
    [ $code -eq 2 ] && grep -qF 'no sample has more than 7 steps within it' err || fail "exit $code of a rollout beyond the series"
    # shellcheck disable=SC2086
    launch 1 "$BIN/graticule-train" --input swe/series.nc --threads 1 --progress none $options --rollout 3 --output errors
    succeeds
    grep -qF '2 of 7 training samples have fewer than 3 steps within the training part' err || fail "nothing about short rollouts"
    # shellcheck disable=SC2086
    train $options --output plain
    succeeds
    # shellcheck disable=SC2086
    train $options --dump-config
    succeeds
    cp out config.yaml
    launch 1 "$BIN/graticule-train" --config config.yaml --output configured
    succeeds
    cmp plain/loss.csv configured/loss.csv || fail "another training by its own configuration"
    ! grep -q '^members:' config.yaml || fail "an option without effect is dumped"
    echo 'members: 4' >>config.yaml
    launch 1 "$BIN/graticule-train" --config config.yaml --output configured
    [ $code -eq 2 ] && grep -qF -- '--members is for --loss crps only' err || fail "exit $code with a number of members that has no effect"
    while IFS='|' read -r arguments text; do
        # shellcheck disable=SC2086
        train $arguments --output errors
        [ $code -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$text" err || fail "exit $code of $arguments, not '$text'"
    done <<'END'
--inputs h --targets u --history 2|--history is for forecasts only: give --lead too
--inputs h --targets u --predict state|--predict is for forecasts only
--inputs h --targets u --rollout 2|--rollout is for forecasts only
--prognostic h --lead 6h --inputs u|--inputs is for fields of the same time
--prognostic h --lead 6h --train-dates 2000-01-01 --train-fraction 0.3|--train-fraction excludes --train-dates
END
}

# hole FILE SOURCE VARIABLE NUMBER...: the series with NaN in these values of a variable, counted from 0
hole() {
    ncdump "$2" | awk -v variable="$3" -v numbers="${*:4}" '
        BEGIN { count = split(numbers, list, " "); for (k = 1; k <= count; ++k) gap[list[k]] = 1 }
        $0 ~ "^ " variable " =" { inside = 1; at = 0 }
        inside { line = $0; if (line ~ "=") { head = line; sub(/=.*/, "=", head); sub(/^[^=]*=/, "", line) } else head = ""
                 parts = split(line, value, ","); text = ""
                 for (p = 1; p <= parts; ++p) {
                     if (value[p] ~ /[0-9]/) { if (at in gap) sub(/[-+.e0-9]+/, "NaNf", value[p]); ++at }
                     text = text (p > 1 ? "," : "") value[p] }
                 $0 = head text }
        /;/ { inside = 0 }
        { print }' | sed "s/^\tfloat $3(.*/&\n$declared/" | ncgen -4 -o "$1" || fail "ncgen"
}
# NaN that nothing declares, and cells that only some states lack, are one line on all ranks, or an error; land is neither.
case_missing() {
    need ncgen netcdf-bin
    prepare
    local declared="" land ranks line
    # train NUM_RANKS FILE ARGUMENT...
    train() {
        launch "$1" "$BIN/graticule-train" --input "$2" --prognostic h,u,v --lead 6h --channels 2 --blocks 1 --epochs 1 --train-fraction 0.7 \
            --threads 1 --progress none --log-level warn --output trained "${@:3}"
    }
    # warns TEXT: a run that was completed, with one line
    warns() {
        succeeds
        [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$1; treated as missing data" err || fail "no warning '$1'"
    }
    # The value of 6 latitudes and 3 columns in the sixth state, at 30 h.
    hole one.nc swe/series.nc h $((5 * 512 + 6 * 32 + 3))
    line="one.nc: 'h' lacks 1 cell that other samples have: NaN or default fill values that neither _FillValue nor missing_value declares, first at 2000-01-02 06:00, 16.875 S 33.75 E"
    for ranks in 1 3; do
        train $ranks one.nc
        warns "$line"
    done
    train 2 one.nc --data-teams 2
    warns "$line"
    train 2 one.nc --missing error
    [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "$line; --missing error does not allow this" err || fail "exit $code with --missing error"
    launch 3 "$BIN/graticule-train" --input one.nc --inputs h --targets u,v --train-fraction 0.7 --channels 2 --blocks 1 --epochs 1 \
        --threads 1 --progress none --log-level warn --output same
    warns "'h' lacks 1 cell that other samples have: NaN or default fill values that neither _FillValue nor missing_value declares, first at time = 30 hours since 2000-01-01 00:00:00, 16.875 S 33.75 E"
    # A forecast from that state; one from another is as quiet as before, up to the truth.
    for ranks in 1 2; do
        launch $ranks "$BIN/graticule-forecast" --checkpoint net --input one.nc --start 2000-01-02T06 --steps 2 --threads 1 --progress none \
            --log-level warn --output ahead
        warns "one.nc: 'h' lacks 1 cell at 2000-01-02 06:00, which states of the training have: first at 16.875 S 33.75 E"
    done
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input one.nc --start 2000-01-01T12 --steps 3 --threads 1 --progress none \
        --log-level warn --missing error --output ahead
    [ $code -eq 3 ] && grep -qF "'h' lacks 1 cell at 2000-01-02 06:00" err || fail "exit $code where the truth has a gap"
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input one.nc --start 2000-01-02T18 --steps 2 --threads 1 --progress none \
        --log-level warn --missing error --output later
    succeeds
    # The truth of the first channel alone is missing: the others are scored.
    # shellcheck disable=SC2046
    hole truth.nc swe/series.nc h $(seq $((3 * 512)) $((4 * 512 - 1)))
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input truth.nc --start 2000-01-01T12 --steps 1 --threads 1 --progress none \
        --log-level warn --output scored
    warns "truth.nc: 'h' lacks 512 cells at 2000-01-01 18:00, which states of the training have: first at 84.375 S 0 E"
    grep -q '^0,0,forecast,u,.*,globe,1,[0-9]' scored/scores.csv || fail "no scores of the other channels"
    [ -s scored/scores.nc ] && [ -s scored/scores.png ] || fail "no files of scores"
    # Land: three cells of all states.
    land=$(for t in {0..12}; do echo $((512 * t + 70)) $((512 * t + 71)) $((512 * t + 72)); done)
    declared="\t\t\th:_FillValue = NaNf ;"
    # shellcheck disable=SC2086
    hole land.nc swe/series.nc h $land
    train 2 land.nc --missing error
    succeeds
    [ ! -s err ] || fail "a line about land"
    launch 2 "$BIN/graticule-forecast" --checkpoint trained --input land.nc --start 2000-01-02T06 --steps 2 --threads 1 --progress none \
        --log-level warn --missing error --output ahead
    succeeds
    # shellcheck disable=SC2086
    hole more.nc swe/series.nc h $land $((5 * 512 + 195)) $((6 * 512 + 195))
    train 3 more.nc
    warns "more.nc: 'h' lacks 2 cells that other samples have: first at 2000-01-02 06:00, 16.875 S 33.75 E"
    # As many cells as in the others, one of them elsewhere.
    # shellcheck disable=SC2086
    hole moved.nc swe/series.nc h ${land/$((5 * 512 + 70)) /} $((5 * 512 + 195))
    line="moved.nc: 'h' lacks 13 cells that other samples have: first at 2000-01-01 00:00, 61.875 S 67.5 E"
    train 3 moved.nc
    warns "$line"
    train 2 moved.nc --data-teams 2
    warns "$line"
    declared=""
    # shellcheck disable=SC2086
    hole undeclared.nc swe/series.nc h $land
    train 2 undeclared.nc
    warns "undeclared.nc: 'h' lacks 39 cells: NaN or default fill values that neither _FillValue nor missing_value declares, first at 2000-01-01 00:00, 61.875 S 67.5 E"
}

# The disk fills up under pictures and tables: the message names the file, on all ranks.
case_full_disk() {
    prepare
    local options="--start 2000-01-01T12 --steps 3" ranks
    # shellcheck disable=SC2086
    run 1 $options --output whole
    succeeds
    for ranks in 1 2; do
        small_disk "$(room whole $(cd whole && echo *.png))"
        # shellcheck disable=SC2086
        run $ranks $options --output disk
        names_full_disk '[a-z_0-9]+[.]png'
        small_disk 24
        # shellcheck disable=SC2086
        run $ranks $options --output disk
        names_full_disk '[a-z_]+[.](nc|csv)'
    done
    # The map of graticule-train, of fields of the same time: on its way a checkpoint of a forecast takes more room than its map.
    launch 1 "$BIN/graticule-swe" --case random --nlat 32 --nlon 64 --days 2 --every 6h --threads 1 --progress none --log-level warn \
        --output finer
    succeeds
    # train NUM_RANKS FOLDER
    train() {
        launch "$1" "$BIN/graticule-train" --input finer/series.nc --inputs h --targets u,v,vorticity,divergence --channels 2 --blocks 1 --epochs 1 \
            --train-fraction 0.7 --threads 1 --progress none --log-level warn --output "$2"
    }
    train 2 trained
    succeeds
    small_disk $(($(du -sk --apparent-size trained | cut -f1) - 16))
    train 2 disk
    names_full_disk 'map[.]png'
    [ -s disk/prediction.nc ] && [ ! -e disk/map.png ] || fail "half a picture, or nothing but it"
}

# values FILE MEMBER: those of h of a member, without it of a file of one member, one per line
values() {
    ncdump -v h "$1" | sed -n '/^ h =/,/;/p' | sed 's/^ h =//' | tr -d ' ;' | tr ',' '\n' | grep . |
        awk -v cells=512 -v members="${3:-1}" -v member="${2:-0}" 'int((NR - 1) / cells) % members == member'
}
# Networks that forecast together: each as alone, their mean scored, the same on other teams and after a restart.
case_networks() {
    need ncdump netcdf-bin
    prepare
    # learn FOLDER ARGUMENT...: another network of the same channels
    learn() {
        launch 2 "$BIN/graticule-train" --input swe/series.nc --channels 3 --blocks 1 --epochs 1 --seed 2 --train-fraction 0.7 --threads 1 \
            --progress none --log-level warn --output "$@"
        succeeds
    }
    # together CHECKPOINTS NUM_RANKS ARGUMENT...
    together() {
        launch "$2" "$BIN/graticule-forecast" --checkpoint "$1" --input swe/series.nc --start 2000-01-01T18 --threads 1 --progress none \
            --log-level warn "${@:3}"
    }
    learn other --prognostic h,u,v --diagnostic vorticity --lead 6h --history 3 --dtype f64
    local name
    for name in net other; do
        together $name 1 --steps 4 --output "alone_$name"
        succeeds
    done
    together net,other 1 --steps 4 --output both
    succeeds
    values alone_net/forecast.nc >net.txt
    values alone_other/forecast.nc >other.txt
    [ "$(wc -l <net.txt)" -eq 2048 ] && ! cmp -s net.txt other.txt || fail "the networks forecast the same"
    values both/forecast.nc 0 2 | cmp - net.txt || fail "the first network forecasts otherwise than alone"
    values both/forecast.nc 1 2 | cmp - other.txt || fail "the second network forecasts otherwise than alone"
    ncdump -v network both/forecast.nc | grep -qF 'network = 0, 1 ;' || fail "the networks of the members"
    grep -qE '"networks": \[' both/report.json || fail "the report does not name the networks"
    # Of two members the mean is nearer to the truth than the mean of their errors, and their spread is known.
    awk -F, 'FNR == 1 { ++file; for (c = 1; c <= NF; ++c) place[$c] = c; next }
        $place["region"] == "globe" && $place["channel"] == "h" { square[file] += $place["rmse"] ^ 2; spread[file] += $place["spread"] ^ 2 }
        END { mean = (square[1] + square[2]) / 2 - spread[3] / 2
              exit !(spread[3] > 0 && spread[1] == 0 && (square[3] - mean) ^ 2 < 1e-12 * mean ^ 2) }' \
        alone_net/scores.csv alone_other/scores.csv both/scores.csv || fail "the score is not that of the mean"

    local options="--steps 4 --members 6 --seed 3"
    # shellcheck disable=SC2086
    together other,net 1 $options --output whole
    succeeds
    ncdump -v network whole/forecast.nc | grep -qF 'network = 0, 0, 0, 1, 1, 1 ;' || fail "the networks of six members"
    values whole/forecast.nc 3 6 | cmp - net.txt || fail "the first member of a network is perturbed"
    ! values whole/forecast.nc 4 6 | cmp -s - net.txt || fail "the second member of a network is not perturbed"
    # One of the three teams has members of both networks.
    # shellcheck disable=SC2086
    together other,net 3 $options --teams 3 --output teams
    succeeds
    cmp whole/forecast.nc teams/forecast.nc || fail "three teams give other bytes"
    cmp whole/scores.csv teams/scores.csv || fail "three teams give other scores"
    # shellcheck disable=SC2086
    together other,net 2 $options --teams 2 --output parts --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    # shellcheck disable=SC2086
    together other,net 1 $options --output parts
    succeeds
    cmp whole/forecast.nc parts/forecast.nc || fail "a restarted forecast has other bytes"
    cmp whole/scores.csv parts/scores.csv || fail "a restarted forecast has other scores"

    # refused STATUS TEXT: one line on stderr, which holds TEXT, and no forecast
    refused() {
        [ $code -eq "$1" ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$2" err || fail "exit $code, not '$2': $(cat err)"
        [ ! -e errors/forecast.nc ] || fail "a forecast in spite of an error"
    }
    together net,other 2 --steps 2 --members 3 --output errors
    refused 2 "--members 3 is no multiple of the 2 networks"
    together net,net 2 --steps 2 --output errors
    refused 2 "twice"
    learn fewer --prognostic h,u --lead 6h
    together net,fewer 2 --steps 2 --output errors
    refused 3 "has the channels h, u, v, vorticity (diagnostic), "
    learn later --prognostic h,u,v --diagnostic vorticity --lead 12h
    together net,later 2 --steps 2 --output errors
    refused 3 "has a lead of 6 h, "
    launch 2 "$BIN/graticule-swe" --case random --nlat 18 --nlon 32 --days 2 --every 6h --threads 1 --progress none --log-level warn \
        --output swe18
    succeeds
    launch 2 "$BIN/graticule-train" --input swe18/series.nc --prognostic h,u,v --diagnostic vorticity --lead 6h --channels 3 --blocks 1 \
        --epochs 1 --train-fraction 0.7 --threads 1 --progress none --log-level warn --output finer
    succeeds
    together net,finer 2 --steps 2 --output errors
    refused 3 "a grid of 16 x 32 cells, "
    together net,nowhere 2 --steps 2 --output errors
    refused 3 "nowhere does not exist"
}

# A program that loads the network has the numbers of the driver, on any ranks; a file of another kind is one clear error.
case_library() {
    prepare
    run 2 --start 2000-01-01T12 --steps 3 --output out3
    succeeds
    local ranks
    for ranks in 1 2 3; do
        launch $ranks "$LOAD_NETWORK" net swe/series.nc 2 out3/forecast.nc 3
        succeeds
        grep -q '^largest difference' out || fail "nothing was compared"
    done
    # In C and in Fortran, on blocks of latitude and longitude.
    local program
    for program in test_bindings_forecaster test_bindings_fortran_forecaster; do
        if [ -x "${LOAD_NETWORK%/*}/$program" ]; then
            for ranks in 1 2 3; do
                launch $ranks "${LOAD_NETWORK%/*}/$program" net swe/series.nc 2 out3/forecast.nc 3
                succeeds
            done
        fi
    done
    launch 2 "$LOAD_NETWORK" swe/series.nc swe/series.nc 2 out3/forecast.nc 3
    [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF 'series.nc' err || fail "exit $code for a file that is no network"
    launch 2 "$LOAD_NETWORK" net swe/series.nc 1 out3/forecast.nc 3
    [ $code -eq 1 ] || fail "exit $code for a forecast from another date"
}

# A network exported by PyTorch: trained further, forecasting from its checkpoint, in place of a solver's steps, and as it was.
case_exported() {
    local network=$DATA/programs/makani_afno/program.pt2
    [ -e "$network" ] || skip "there is no sample network makani_afno"
    launch 2 "$BIN/graticule-swe" --case random --nlat 32 --nlon 64 --days 3 --every 6h --threads 1 --progress none --log-level warn \
        --dtype f64 --output swe
    succeeds
    # train NUM_RANKS ARGUMENT...
    train() {
        launch "$1" "$BIN/graticule-train" --input swe/series.nc --model "$network" --lead 6h --epochs 1 --batch 2 --lr 1e-4 \
            --train-fraction 0.7 --threads 1 --progress none --log-level warn "${@:2}"
    }
    local ranks
    for ranks in 2 3; do
        train $ranks --prognostic h,u,v,vorticity --dtype f64 --verify --output net$ranks
        succeeds
    done
    [ -s net2/network.pt2 ] || fail "no network for PyTorch"
    launch 1 "$BIN/graticule-info" net2/network.pt2
    succeeds
    ! cmp -s "$network" net2/network.pt2 || fail "the network has not changed"
    launch 2 "$BIN/graticule-forecast" --checkpoint net2 --input swe/series.nc --start 2000-01-02T12 --steps 3 --threads 1 --progress none \
        --log-level warn --output trained
    succeeds
    [ -s trained/forecast.nc ] && [ -s trained/scores.csv ] || fail "no forecast of the checkpoint"
    launch 2 "$BIN/graticule-swe" --case random --nlat 32 --nlon 64 --days 1 --every 6h --threads 1 --progress none --log-level warn \
        --emulator net2 --output emulated
    succeeds
    launch 2 "$BIN/graticule-forecast" --model net2/network.pt2 --prognostic h,u,v,vorticity --lead 6h --input swe/series.nc \
        --start 2000-01-02T12 --steps 2 --threads 1 --progress none --output direct
    succeeds
    [ -s direct/forecast.nc ] && grep -q ',globe,1,' direct/scores.csv || fail "no forecast of the exported network"
    cp err direct/err

    # A forecast that is resumed takes the outputs as before.
    direct() {
        launch 2 "$BIN/graticule-forecast" --model net2/network.pt2 --prognostic h,u,v,vorticity --lead 6h --input swe/series.nc \
            --start 2000-01-02T12 --steps 2 --threads 1 --progress none --output again "$@"
    }
    direct --time-limit 0
    [ $code -eq 85 ] || fail "exit $code of a run without time"
    direct --predict tendency
    [ $code -eq 2 ] && grep -qF 'is of another forecast' err || fail "exit $code when resumed with --predict tendency"
    direct --predict state
    succeeds
    cmp direct/forecast.nc again/forecast.nc || fail "a restarted forecast has other bytes"

    # What graticule-train wrote takes normalised values.
    grep -qF -- '--checkpoint net2 forecasts with this training' direct/err || fail "no word on normalised values"
    grep -q 'h after 6 h: rmse [0-9.e+]*, persistence [0-9.e+]* m$' direct/err && ! grep -q nan direct/err || fail "scores that are not defined are printed"
    python3 - net2/report.json <<'END' >out 2>&1 || fail "the report of an exported network"
import json, sys
report = json.load(open(sys.argv[1]))
assert "channels" not in report["network"] and report["network"]["file"].endswith("program.pt2"), report["network"]
channels = report["normalisation"]["channels"]
assert [c["name"] for c in channels] == ["h", "u", "v", "vorticity"] and channels[0]["units"] == "m", channels
assert 1000 < channels[0]["mean"] < 30000 and channels[1]["mean"] == 0, channels
assert 0 < channels[0]["tendency_scale"] < channels[0]["scale"], channels
END

    # Values of a configuration count as given, those that equal a default of other networks too.
    printf 'input: swe/series.nc\nprognostic: [h, u, v, vorticity]\nlead: 6h\nmodel: %s\n' "$network" >base.yaml
    # configured YAML_LINE TEXT
    configured() {
        { cat base.yaml; echo "$1"; } >config.yaml
        launch 1 "$BIN/graticule-train" --config config.yaml --threads 1 --progress none --log-level warn --output errors
        [ $code -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$2" err || fail "exit $code with '$1'"
    }
    configured 'history: 2' 'where [batch, 8, 32, 64] is needed'
    configured 'static: [coriolis, sin_latitude, cos_latitude]' 'where [batch, 7, 32, 64] is needed'
    configured 'channels: 32' '--channels is not for --model'
    launch 1 "$BIN/graticule-train" --config base.yaml --dump-config
    succeeds
    local line
    for line in 'history: 1' 'forcing: none' 'static: none' 'polar-filter: 0' 'features: value' 'mirror: off'; do
        grep -qxF "$line" out || fail "not '$line'"
    done
    ! grep -q '^channels:' out || fail "layers that the network does not have"
    cp out dumped.yaml
    launch 1 "$BIN/graticule-train" --config dumped.yaml --dump-config
    succeeds
    cmp out dumped.yaml || fail "the dumped configuration is another one"

    train 2 --prognostic h,u,v --output errors
    [ $code -eq 2 ] && grep -qF 'where [batch, 3, 32, 64] is needed: 3 channels (h, u, v)' err || fail "exit $code for three channels"
    train 2 --prognostic h,u,v,vorticity --blocks 3 --output errors
    [ $code -eq 2 ] && grep -qF -- '--blocks is not for --model' err || fail "exit $code for --blocks"
    launch 2 "$BIN/graticule-forecast" --model "$network" --input swe/series.nc --start 2000 --log-level warn --output errors
    [ $code -eq 2 ] && grep -qF 'needs --prognostic' err || fail "exit $code without --prognostic"
    launch 2 "$BIN/graticule-forecast" --input swe/series.nc --start 2000 --log-level warn --output errors
    [ $code -eq 2 ] && grep -qF 'give one of --checkpoint and --model' err || fail "exit $code without a network"
}

# write_levels FILE NUM_LEVELS [pascals]: z at 500 hPa, and at 850 hPa, 8 times of 6 h on 8 x 16 cells; with pascals the same
# values, the levels in Pa and in the opposite order
write_levels() {
    awk -v levels="$2" -v pascals="${3:-}" 'BEGIN {
        print "netcdf levels {\ndimensions: time = 8; level = " levels "; latitude = 8; longitude = 16;\nvariables: double time(time);"
        print "time:units = \"hours since 2000-01-01\"; double level(level); level:units = \"" (pascals ? "Pa" : "hPa") "\"; double latitude(latitude);"
        print "latitude:units = \"degrees_north\"; latitude:standard_name = \"latitude\"; double longitude(longitude);"
        print "longitude:units = \"degrees_east\"; longitude:standard_name = \"longitude\"; float z(time, level, latitude, longitude);\ndata:"
        for (t = 0; t < 8; ++t) times = times (t ? ", " : "") 6 * t
        for (j = 0; j < 8; ++j) latitudes = latitudes (j ? ", " : "") (78.75 - 22.5 * j)
        for (i = 0; i < 16; ++i) longitudes = longitudes (i ? ", " : "") (i * 22.5)
        for (n = 0; n < 1024 * levels; ++n) {
            cell = n % 128
            l = (n - cell) / 128 % levels
            stored = pascals ? n + (levels - 1 - 2 * l) * 128 : n
            values = values (n ? ", " : "") ((7 * stored) % 23)
        }
        print "time = " times "; level = " (levels == 1 ? "500" : pascals ? "85000, 50000" : levels == 3 ? "500, 850, 250" : "500, 850") "; latitude = " latitudes ";\nlongitude = " longitudes ";\nz = " values ";\n}"
    }' | ncgen -4 -o "$1" || fail "ncgen"
}
# Levels are matched by value: in Pa and in another order they give the same forecast.
case_levels() {
    need ncgen netcdf-bin
    need ncdump netcdf-bin
    write_levels hectopascals.nc 2
    write_levels pascals.nc 2 pascals
    launch 2 "$BIN/graticule-train" --input hectopascals.nc --prognostic z --lead 6h --channels 2 --blocks 1 --epochs 1 --threads 1 \
        --progress none --log-level warn --output levels
    succeeds
    local name
    for name in hectopascals pascals; do
        launch 2 "$BIN/graticule-forecast" --checkpoint levels --input $name.nc --start 2000-01-01T12 --steps 2 --threads 1 \
            --progress none --log-level warn --output $name
        succeeds
        # A line per record and level, those of pascals in the order of hectopascals.
        ncdump -v z $name/forecast.nc | sed -n '/^ z =/,/;/p' | tr -d ' zn;=' | tr ',' '\n' | grep . |
            awk -v turn=$name '{ block = int((NR - 1) / 128); if (turn == "pascals") block += block % 2 ? -1 : 1; line[block] = line[block] " " $1 }
                END { for (b = 0; b < 4; ++b) print line[b] }' >$name.txt
        [ "$(wc -w <$name.txt)" -eq 512 ] || fail "$name.txt has $(wc -w <$name.txt) values"
    done
    cmp hectopascals.txt pascals.txt || fail "other levels gave another forecast"
    ncdump -v level pascals/forecast.nc >out || fail "ncdump"
    grep -qF 'level = 85000, 50000 ;' out || fail "the levels of the input are not those of its forecast"
    ncdump hectopascals.nc | sed 's/level = 500, 850/level = 500, 700/' | ncgen -4 -o others.nc || fail "ncgen"
    launch 2 "$BIN/graticule-forecast" --checkpoint levels --input others.nc --start 2000-01-01T12 --steps 1 --threads 1 --progress none \
        --log-level warn --output errors
    [ $code -eq 3 ] && grep -qF "others.nc has 'z 700 hPa' where the network was trained on 'z 850 hPa'" err ||
        fail "exit $code with another level: $(cat err)"
    # What helps where the input has more levels, and where its rows are in another order.
    write_levels more.nc 3
    ncdump hectopascals.nc | sed 's/latitude = 78.75.*/latitude = -78.75, -56.25, -33.75, -11.25, 11.25, 33.75, 56.25, 78.75 ;/' |
        ncgen -4 -o rising.nc || fail "ncgen"
    while IFS='|' read -r name text; do
        launch 1 "$BIN/graticule-forecast" --checkpoint levels --input "$name.nc" --start 2000-01-01T12 --steps 1 --threads 1 --progress none \
            --log-level warn --output errors
        [ $code -eq 3 ] && grep -qF "$text" err || fail "exit $code with $name.nc: $(cat err)"
    done <<END
more|more.nc has 3 variables and levels, 'z 250 hPa' among them, and the network was trained on 2
rising|the same places in another order: \`cdo invertlat\`
END
}

# Times, dates of options and results are in the calendar of the file.
case_calendars() {
    need ncgen netcdf-bin
    need ncdump netcdf-bin
    prepare
    local calendar train start
    # The series has 13 times of 6 h from the 28th of February on.
    while IFS='|' read -r calendar train start; do
        ncdump swe/series.nc | sed "s/calendar = \"standard\"/calendar = \"$calendar\"/; s/hours since 2000-01-01/Hours since 1999-02-28/" |
            ncgen -4 -o "$calendar.nc" || fail "ncgen"
        launch 2 "$BIN/graticule-train" --input "$calendar.nc" --prognostic h,u,v --lead 6h --channels 2 --blocks 1 --epochs 1 --threads 1 \
            --forcing insolation,time_of_year --train-dates "1999-02-28..$train" --validate-dates "$start..1999-03-03" \
            --progress none --log-level warn --output "net_$calendar"
        succeeds
        launch 2 "$BIN/graticule-forecast" --checkpoint "net_$calendar" --input "$calendar.nc" --start "${start}T06" --steps 2 --threads 1 \
            --progress none --log-level warn --output "out_$calendar"
        succeeds
        ncdump -h "out_$calendar/forecast.nc" >out || fail "ncdump"
        grep -qF "time:units = \"hours since $start 06:00:00\"" out && grep -qF "time:calendar = \"$calendar\"" out ||
            fail "$(grep 'time:' out)"
        # As truth the forecast's own file has the states 6 h after: they were found, whatever the month's length.
        grep -q '^0,0,forecast,h' "out_$calendar/scores.csv" || fail "no truth for $calendar: $(cat "out_$calendar/scores.csv")"
        launch 1 "$BIN/graticule-info" "$calendar.nc"
        grep -qF "1999-02-28 00:00 to $(case $calendar in 360_day) echo 1999-03-01 ;; all_leap) echo 1999-03-02 ;; *) echo 1999-03-03 ;; esac) 00:00, every 6 h, calendar $calendar" out ||
            fail "graticule-info says $(grep calendar out)"
    done <<'END'
noleap|1999-02-28|1999-03-01
all_leap|1999-02-28|1999-02-29
360_day|1999-02-29|1999-02-30
julian|1999-02-28|1999-03-01
proleptic_gregorian|1999-02-28|1999-03-01
END
    # The forcings of two calendars differ, and a network of one goes on in another.
    launch 2 "$BIN/graticule-forecast" --checkpoint net_noleap --input 360_day.nc --start 1999-02-30T06 --steps 2 --threads 1 \
        --progress none --log-level warn --output mixed
    succeeds
    launch 1 "$BIN/graticule-train" --input noleap.nc --prognostic h --lead 6h --train-dates 1999-02-28..1999-02-29 --progress none \
        --log-level warn --output errors
    [ $code -eq 2 ] && grep -qF -- "--train-dates: '1999-02-29' is no date of the calendar noleap" err || fail "exit $code: $(cat err)"
    launch 1 "$BIN/graticule-forecast" --checkpoint net --input 360_day.nc --start 1999-01-31 --steps 1 --progress none --log-level warn \
        --output errors
    [ $code -eq 2 ] && grep -qF -- "--start: '1999-01-31' is no date of the calendar 360_day" err || fail "exit $code: $(cat err)"
}

# A last column that repeats the first: refused, or dropped when asked.
case_repeated() {
    need ncgen netcdf-bin
    need ncdump netcdf-bin
    write_levels plain.nc 1
    # Values follow rows of 16: each row gets its first value again.
    ncdump plain.nc | awk '/^data:/ { data = 1 }
        !data { sub(/longitude = 16/, "longitude = 17"); print; next }
        / longitude =/ { text = ""; while (1) { text = text $0; if (/;/) break; getline } sub(/ ;/, ", 360 ;", text); print text; next }
        / z =/ { text = ""; while (1) { text = text $0; if (/;/) break; getline } gsub(/ z =|[ ;]/, "", text); n = split(text, v, ",")
            out = ""; for (i = 1; i <= n; ++i) { out = out (i > 1 ? ", " : "") v[i]; if (i % 16 == 0) out = out ", " v[i - 15] }
            print " z = " out " ;"; next }
        { print }' | ncgen -4 -o cyclic.nc || fail "ncgen"
    train() { launch 2 "$BIN/graticule-train" --input "$@" --threads 1 --channels 2 --blocks 1 --epochs 1 --progress none --log-level warn; }
    train cyclic.nc --prognostic z --lead 6h --output errors
    [ $code -eq 3 ] && grep -qF '(--repeated-longitude drop), or remove it (`ncks -d longitude,0,15 IN OUT`)' err || fail "exit $code: $(cat err)"
    train plain.nc --prognostic z --lead 6h --output plain
    succeeds
    train cyclic.nc --prognostic z --lead 6h --repeated-longitude drop --output cyclic
    succeeds
    cmp <(cut -d, -f1-3 plain/loss.csv) <(cut -d, -f1-3 cyclic/loss.csv) || fail "other losses"
    train cyclic.nc --inputs z --targets z --repeated-longitude drop --output same
    succeeds
    ncdump -v longitude same/prediction.nc >out || fail "ncdump"
    grep -qF 'longitude = 16 ;' out && grep -qF '315, 337.5 ;' out || fail "prediction.nc has other longitudes"
    local name
    for name in plain cyclic; do
        launch 2 "$BIN/graticule-forecast" --checkpoint plain --input $name.nc --repeated-longitude drop --start 2000-01-01T12 --steps 2 \
            --threads 1 --progress none --log-level warn --output out_$name
        succeeds
        ncdump -v z,longitude out_$name/forecast.nc | sed -n '/^data:/,$p' >$name.txt
    done
    cmp plain.txt cyclic.txt || fail "a repeated column changed the forecast"
}
case_errors() {
    prepare
    local arguments text status
    while IFS='|' read -r status arguments text; do
        # shellcheck disable=SC2086
        run 2 $arguments --output errors
        [ $code -eq "$status" ] || fail "exit $code of $arguments"
        grep -qF -- "$text" err || fail "$arguments does not say '$text'"
    done <<'END'
2|--start 2001-01-01|is not a time of the input
2|--start soon|is no date
2|--start 2000-01-01|with 1 earlier states
2|--start 2000-01-01T12 --teams 2|--teams 2 exceeds --members 1
2|--start 2000-01-01T12 --members 3 --teams 3|--teams 3 does not divide the 2 ranks
2|--start 2000-01-01T12 --steps 2 --every 3|nothing would be written
END
    # spoil FILE VARIABLE VALUE: the series with this value in all cells of a variable
    spoil() {
        ncdump swe/series.nc | sed "/^ $2 =/,/;/ { /=/! s/[0-9.e+-][0-9.e+-]*/$3/g }" | ncgen -4 -o "$1" || fail "ncgen"
    }
    if command -v ncgen >/dev/null; then
        write_levels two.nc 2
        write_levels one.nc 1
        launch 2 "$BIN/graticule-train" --input two.nc --prognostic z --lead 6h --channels 2 --blocks 1 --epochs 1 --threads 1 \
            --progress none --log-level warn --output levels
        succeeds
        launch 2 "$BIN/graticule-forecast" --checkpoint levels --input one.nc --start 2000-01-01T12 --steps 1 --threads 1 \
            --progress none --log-level warn --output errors
        [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "one.nc lacks 'z 850 hPa'" err || fail "exit $code without a level: $(cat err)"
        # calendar FILE TEXT: the series with another attribute of time
        local wrong text
        while IFS='|' read -r wrong text; do
            ncdump swe/series.nc | sed "$wrong" | ncgen -4 -o wrong.nc || fail "ncgen"
            launch 2 "$BIN/graticule-train" --input wrong.nc --prognostic h --lead 6h --threads 1 --progress none --log-level warn --output trained
            [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "$text" err && grep -qF wrong.nc err || fail "exit $code after $wrong"
            launch 2 "$BIN/graticule-forecast" --checkpoint net --input wrong.nc --start 2000-01-01T12 --steps 1 --threads 1 \
                --progress none --log-level warn --output errors
            [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "$text" err && grep -qF wrong.nc err || fail "exit $code of a forecast after $wrong"
        done <<'END'
s/calendar = "standard"/calendar = "lunar"/|the calendar 'lunar' is none of
s/hours since/fortnights since/|'fortnights since 2000-01-01 00:00:00' are no units of time
s/ time = 0, 6, 12,/ time = 0, 6, 6,/|time goes from 2000-01-01 06:00 to 2000-01-01 06:00
s/ latitude = -84.375, -73.125,/ latitude = -84.375, -84.375,/|latitudes
END
        # Other units are said once, and are no error.
        ncdump swe/series.nc | sed 's/h:units = "m"/h:units = "km"/' | ncgen -4 -o units.nc || fail "ncgen"
        launch 2 "$BIN/graticule-forecast" --checkpoint net --input units.nc --start 2000-01-01T12 --steps 1 --threads 1 --progress none \
            --log-level warn --output units
        succeeds
        [ "$(wc -l <err)" -eq 1 ] && grep -qF "units.nc: 'h' has the units 'km', in the training it had 'm'; values are taken as they are" err ||
            fail "nothing about units"
        spoil empty.nc h NaNf
        spoil infinite.nc u Infinityf
        local name
        for name in empty infinite; do
            text="empty.nc: 'h' has no value at 2000-01-01 12:00"
            [ $name = empty ] || text="infinite.nc: 'u' has an infinite value at 2000-01-01 12:00"
            launch 2 "$BIN/graticule-forecast" --checkpoint net --input $name.nc --start 2000-01-01T12 --steps 2 --threads 1 --progress none \
                --log-level warn --output $name
            [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "$text" err || fail "exit $code from $name states: $(cat err)"
            [ ! -e $name/forecast.nc ] || fail "a forecast from $name states"
            text="empty.nc: h has no value in the training samples"
            [ $name = empty ] || text="infinite.nc: 'u' has an infinite value at 2000-01-01 00:00, 84.375 S 0 E"
            launch 2 "$BIN/graticule-train" --input $name.nc --prognostic h,u,v --lead 6h --channels 2 --blocks 1 --epochs 1 --threads 1 \
                --progress none --log-level warn --output trained
            [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "$text" err || fail "exit $code of a training on $name: $(cat err)"
        done
        launch 2 "$BIN/graticule-train" --input infinite.nc --inputs h --targets u --train-fraction 1 --channels 2 --blocks 1 --epochs 1 \
            --threads 1 --progress none --log-level warn --output trained
        [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "infinite.nc: 'u' has an infinite value at time = 0 hours since 2000-01-01 00:00:00, 84.375 S 0 E" err ||
            fail "exit $code of a training without leads on infinite values: $(cat err)"
    fi
    launch 2 "$BIN/graticule-swe" --case random --nlat 18 --nlon 32 --days 1 --every 6h --threads 1 --progress none --log-level warn \
        --output finer
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input finer/series.nc --start 2000-01-01T12 --steps 1 --threads 1 \
        --progress none --log-level warn --output errors
    [ $code -eq 3 ] && grep -qF 'finer/series.nc has 18 x 32 cells from' err && grep -qF 'on 16 x 32 from' err ||
        fail "exit $code on another grid: $(cat err)"
    # The rights of a folder do not hold for root.
    if [ "$(id -u)" -ne 0 ]; then
        mkdir -p shut && chmod a-w shut
        launch 2 "$BIN/graticule-train" --input swe/series.nc --prognostic h --lead 6h --threads 1 --progress none --output shut
        [ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF 'shut/report.json cannot be written' err || fail "exit $code in a read-only folder"
    fi
    launch 1 "$BIN/graticule-forecast" --checkpoint nowhere --input swe/series.nc --start 2000 --log-level warn --output errors
    [ $code -eq 3 ] && grep -qF 'does not exist' err || fail "exit $code without a network"
    # One byte of the checkpoint, given as a file or as a folder, is another one.
    local network size byte
    network=$(compgen -G "net/last/*.h5")
    size=$(stat -c %s "$network")
    byte=$(od -An -tu1 -j $((size / 2)) -N 1 "$network")
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((255 - byte)))" | dd of="$network" bs=1 seek=$((size / 2)) conv=notrunc status=none
    for network in "$network" net; do
        launch 2 "$BIN/graticule-forecast" --checkpoint "$network" --input swe/series.nc --start 2000-01-01T12 --steps 1 --threads 1 \
            --progress none --log-level warn --output errors
        [ $code -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] || fail "exit $code of the damaged $network: $(cat err)"
    done
    launch 1 "$BIN/graticule-make-fields" other.nc --nlat 19 --nlon 36 --levels 1 --samples 2 --log-level warn
    launch 2 "$BIN/graticule-forecast" --checkpoint net --input other.nc --start 2000 --log-level warn --output errors
    [ $code -eq 3 ] || fail "exit $code for a file without the variables"
}

"case_$1"
