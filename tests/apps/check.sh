#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests of the drivers from outside: check.sh CASE. The environment names the programs (BIN, FAILING_DRIVER, DUMP_PLANS), the
# launcher (MPIEXEC), a file of a newer HDF5 (NEWER_HDF5) and the folder of sample files (DATA, may be empty). Ends with 77 when the case is skipped.
# Words of $MPIEXEC and of options are split on purpose; `A && B || fail` fails when either does.
# shellcheck disable=SC2086,SC2015
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
run() { launch "$@"; }

# fails_with STATUS TEXT: one line on stderr, which holds TEXT
fails_with() {
    [ $code -eq "$1" ] || fail "exit $code, expected $1"
    [ "$(wc -l <err)" -eq 1 ] || fail "$(wc -l <err) lines on stderr, expected 1"
    grep -qF -- "$2" err || fail "stderr lacks '$2'"
}
# aborts_with STATUS TEXT: as fails_with, but the launcher adds its own lines
aborts_with() {
    [ $code -eq "$1" ] || fail "exit $code, expected $1"
    [ "$(grep -cF -- "$2" err)" -eq 1 ] || fail "stderr does not hold '$2' once"
}

# expect_bad NAME TEXT: graticule-info refuses the file on 1 and 3 ranks
expect_bad() {
    local ranks
    for ranks in 1 3; do
        run $ranks "$BIN/graticule-info" "$1"
        fails_with 3 "$2"
        grep -qF -- "$1" err || fail "stderr lacks the name $1"
    done
}

case_bad_files() {
    need ncgen netcdf-bin
    local ranks
    local cdl='netcdf x { dimensions: latitude = 4; longitude = 6; variables: float latitude(latitude);
        latitude:units = "degrees_north"; float v(latitude, longitude); data: latitude = 3, 2, 1, 0; v = 1, 2, 3; }'
    printf '%s' "$cdl" >x.cdl
    ncgen -k classic -o classic.nc x.cdl && ncgen -k '64-bit offset' -o offset.nc x.cdl &&
        ncgen -k cdf5 -o cdf5.nc x.cdl && ncgen -k nc4 -o good.nc x.cdl || fail "ncgen"
    expect_bad classic.nc "nccopy -k nc4"
    expect_bad offset.nc "nccopy -k nc4"
    expect_bad cdf5.nc "nccopy -k nc4"
    # What the sentence says has to work.
    nccopy -k nc4 classic.nc converted.nc || fail "nccopy"
    run 1 "$BIN/graticule-info" converted.nc
    succeeds
    grep -qF 'v(latitude=4, longitude=6)' out || fail "the converted file is not listed"

    # Of a newer HDF5: the rest of the file is listed, and what cannot be read is not called damaged.
    cp "$NEWER_HDF5" newer.nc
    for ranks in 1 3; do
        run $ranks "$BIN/graticule-info" newer.nc
        succeeds
        [ "$(grep -c 'a newer version of the format than HDF5' out)" -eq 3 ] && ! grep -q damaged out || fail "newer.nc"
        has 't(latitude=5, longitude=8) f32' 'cuts of t(latitude=5, longitude=8)' 'nccopy -k nc4 IN OUT'
    done
    printf '\011' | dd of=newer.nc bs=1 seek=8 conv=notrunc status=none
    expect_bad newer.nc "a newer version of the format than HDF5"

    head -c $(($(stat -c %s good.nc) / 2)) good.nc >half.nc
    expect_bad half.nc "damaged or incomplete"
    head -c 100 good.nc >head.nc
    expect_bad head.nc "damaged or incomplete"
    : >empty.nc
    expect_bad empty.nc "is empty"
    printf 'GRIB%060d' 0 >x.grib
    expect_bad x.grib "GRIB"
    printf 'latitude,longitude\n1,2\n' >x.csv
    expect_bad x.csv "not a netCDF-4 or HDF5 file"
    gzip -k good.nc
    expect_bad good.nc.gz "gunzip"
    expect_bad nowhere.nc "does not exist"
    mkdir folder.nc
    expect_bad folder.nc "is a directory"
    mkfifo pipe.nc
    expect_bad pipe.nc "not a regular file"
    if [ "$(id -u)" -ne 0 ]; then
        cp good.nc secret.nc
        chmod 000 secret.nc
        expect_bad secret.nc "cannot be opened for reading"
    fi
}

case_real_netcdf3() {
    [ -n "$DATA" ] || skip "GRATICULE_TEST_DATA names no folder of sample files"
    run 3 "$BIN/graticule-info" "$DATA/eraint_uvz_netcdf3.nc"
    fails_with 3 "nccopy -k nc4"
    # nccopy stops at these, and the sentence says so.
    fails_with 3 "_FillValue of longitude, latitude, z, u, v"
}

case_info() {
    [ -n "$DATA" ] || skip "GRATICULE_TEST_DATA names no folder of sample files"
    "$BIN/graticule-info" "$DATA/eraint_uvz_deflate.nc" --ranks 4 --report report.json >out 2>err || fail "without a launch"
    local line
    for line in 'latitude = 241' 'z(month=2, level=3, latitude=241, longitude=480)  i16, chunks 1 x 1 x 61 x 480, shuffle, deflate 4' \
        'units = "m s**-1"' 'partition 4x1, 4 ranks, balanced' 'latitude  61,60,60,60' 'imbalance 1.01244813'; do
        grep -qF -- "$line" out || fail "stdout lacks '$line'"
    done
    grep -qF '"driver": "graticule-info"' report.json || fail "report"
    run 1 "$BIN/graticule-info" "$DATA/eraint_uvz.nc" --partition 2x2
    succeeds
    grep -qF 'latitude  121,120' out && grep -qF 'longitude 240,240' out || fail "cuts of 2x2"
    run 1 "$BIN/graticule-info" "$DATA/eraint_uvz.nc" --ranks 2 --cuts area
    grep -qF 'latitude  121,120' out || grep -qF 'latitude  120,121' out || fail "area cuts of two halves"
    run 2 "$BIN/graticule-info" "$DATA/eraint_uvz.nc" --partition 2x2 --ranks 3
    fails_with 2 "needs 4 ranks"
}

# Files that follow each other, as a list and as a pattern: one time axis, and where it has gaps.
case_info_series() {
    need ncgen netcdf-bin
    local part=0 times
    for times in '0, 6, 12' '18, 24, 30' '42, 48'; do
        printf 'netcdf x { dimensions: time = UNLIMITED; variables: int time(time); time:units = "hours since 2000-01-01"; float v(time); data: time = %s; }' \
            "$times" >x.cdl
        ncgen -k nc4 -o part_$((part++)).nc x.cdl || fail "ncgen"
    done
    local files text
    for files in 'part_0.nc part_1.nc part_2.nc' 'part_*.nc' 'part_0.nc part_[12].nc'; do
        (set -f; run 2 "$BIN/graticule-info" $files; exit $code) || fail "$files"
        for text in 'time = 8 (unlimited)' '3, the last part_2.nc, joined along time' '2000-01-01 00:00 to 2000-01-03 00:00, every 6 h, calendar standard' \
            'but 12 h from 2000-01-02 06:00 to 2000-01-02 18:00'; do
            grep -qF "$text" out || fail "$files: the output lacks '$text'"
        done
    done
    # The axis of ARCO-ERA5 is longer than its data; of one file the attributes count.
    sed -i 's/data:/:valid_time_start = "2000-01-01"; :valid_time_stop = "2000-01-01"; data:/; s/42, 48/18, 24, 30/' x.cdl
    ncgen -k nc4 -o padded.nc x.cdl || fail "ncgen"
    run 1 "$BIN/graticule-info" padded.nc
    grep -qF 'with data from 2000-01-01 00:00 to 2000-01-01 23:59:59 (valid_time_start, valid_time_stop)' out || fail "no valid times"
    run 1 "$BIN/graticule-info" part_0.nc padded.nc
    ! grep -qF 'with data from' out || fail "valid times of a series"
    run 1 "$BIN/graticule-info" 'other_*.nc'
    fails_with 3 'no file matches other_*.nc'
    run 1 "$BIN/graticule-info" a.pt2 b.pt2
    fails_with 2 'give one exported network, got 2'
}

case_info_program() {
    [ -e "$DATA/programs/unet_probe/program.pt2" ] || skip "GRATICULE_TEST_DATA/programs is missing"
    local net=$DATA/programs/unet_probe
    if [ "${HAS_PROGRAMS:-no}" = no ]; then
        "$BIN/graticule-info" "$net/program.pt2" >out 2>err
        code=$?
        fails_with 2 "built without LibTorch"
        return
    fi
    "$BIN/graticule-info" "$net/program.pt2" --check "$net" --report report.json >out 2>err || fail "without a launch"
    local line
    for line in 'x [1, 3, 24, 48] f32' 'add_1 [1, 2, 24, 48] f32' '22 tensors, 2042 numbers' 'aten.conv2d.default 4' \
        'parameter gradients (22)'; do
        grep -qF -- "$line" out || fail "stdout lacks '$line'"
    done
    for line in check outputs loss parameter_gradients input_gradients; do
        grep -qF "\"$line\"" report.json || fail "the report lacks $line"
    done
    run 1 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --dtype f64
    succeeds
    # Figures of f32 are no closer than its rounding.
    run 1 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --dtype f64 --tolerance 1e-10
    fails_with 4 "above the tolerance"
    cp -r "$net" changed && chmod -R u+w changed && sed -i 's/"loss": [0-9.e-]*/"loss": 0.5/' changed/golden.json || fail "copy"
    run 1 "$BIN/graticule-info" "$net/program.pt2" --check changed
    fails_with 4 "above the tolerance"
    run 3 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --cuts 10,14,0
    succeeds
    run 2 "$BIN/graticule-info" "$net/program.pt2" --check changed
    fails_with 4 "above the tolerance"
    # In blocks: rows and columns of the ranks, one without cells; in bands of columns.
    run 4 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --partition 2x2 --cuts 7,17x48,0 --layout divided
    succeeds
    grep -qF 'on 4 ranks with rows 7 17 and columns 48 0' out || fail "no blocks"
    run 4 "$BIN/graticule-info" "$net/program.pt2" --check changed --partition 2x2
    fails_with 4 "above the tolerance"
    run 3 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --partition 1x3 --cuts 24x5,0,43 --layout divided
    succeeds
    grep -qF 'and columns 5 0 43' out || fail "no bands of columns"
    run 3 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --partition 2x2
    fails_with 2 "--partition 2x2 is not a grid of 3 ranks"
    run 4 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --partition 2x2 --cuts 10,7,7
    fails_with 2 "3 parts of rows, the ranks 2"
    run 2 "$BIN/graticule-info" "$net/program.pt2" --check "$net" --cuts 10,13
    fails_with 2 "--cuts"
    run 1 "$BIN/graticule-info" "$DATA/eraint_uvz.nc" --check "$net"
    fails_with 2 "NET.pt2"
    head -c 40000 "$net/program.pt2" >short.pt2
    run 1 "$BIN/graticule-info" short.pt2
    fails_with 3 "short.pt2"
    run 1 "$BIN/graticule-info" "$net/program.pt2" --check nowhere
    fails_with 3 "golden.json"
    # LibTorch starts for networks only.
    ! ldd "$BIN/graticule-info" | grep libtorch || fail "graticule-info is linked with LibTorch"
    printf 'file: %s\n' "$net/program.pt2" >options.yaml
    run 2 "$BIN/graticule-info" --config options.yaml
    succeeds
    grep -qF '22 tensors, 2042 numbers' out || fail "no network from the configuration"
    mkdir alone && cp "$BIN/graticule-info" alone || fail "copy"
    run 1 alone/graticule-info "$net/program.pt2"
    fails_with 2 "alone/graticule-info-network, which is missing or cannot be started"
}

case_info_layout() {
    [ -e "$DATA/programs/unet_probe/program.pt2" ] || skip "GRATICULE_TEST_DATA/programs is missing"
    [ "${HAS_PROGRAMS:-no}" = yes ] || skip "built without LibTorch"
    local net=$DATA/programs/unet_probe/program.pt2
    run 1 "$BIN/graticule-info" "$net" --ranks 3 --cuts 9,8,7 --svg plan.svg --report report.json
    succeeds
    local text
    for text in 'program.pt2 on 3 ranks' 'received, busiest rank' 'latitude' '9,8,7'; do
        grep -qF -- "$text" out || fail "stdout lacks '$text'"
    done
    python3 - <<'PY' || fail "the picture or the report is wrong"
import json, xml.etree.ElementTree as tree
layout = json.load(open("report.json"))["layout"]
assert layout["num_virtual_ranks"] == 3 and not layout["refused"]
assert min(layout["received_bytes"]) > 0, layout
assert layout["activation_bytes"][0] > layout["activation_bytes"][1] > layout["activation_bytes"][2] > 0, layout
assert sum(stage["nodes"] for stage in layout["stages"]) > 20
texts = ["".join(node.itertext()) for node in tree.parse("plan.svg").iter("{http://www.w3.org/2000/svg}text")]
assert "program.pt2 on 3 ranks" in texts
PY
    run 1 "$BIN/graticule-info" "$net" --ranks 1
    succeeds
    grep -qF 'received, busiest rank 0 B' out || fail "one rank receives something"
    run 1 "$BIN/graticule-info" "$net" --partition 2x2 --report report.json
    succeeds
    grep -qF 'from blocks and back' out || fail "no bytes of blocks"
    python3 - <<'PY' || fail "the bytes of blocks are wrong"
import json, math
program = json.load(open("report.json"))["program"]
layout = json.load(open("report.json"))["layout"]
# A rank has half of its band's columns already, and half of its block's rows.
bytes = sum(4 * math.prod(field["shape"]) // 8 for kind in ("inputs", "outputs") for field in program[kind])
assert layout["num_virtual_ranks"] == 4 and layout["block_bytes"] == [bytes] * 4, (layout["block_bytes"], bytes)
assert min(layout["received_bytes"]) > bytes
PY
    run 1 "$BIN/graticule-info" "$net" --partition 1x3 --cuts 24x20,20,8
    succeeds
    grep -qF 'longitude' out && grep -qF '20,20,8' out || fail "bands of columns"
    run 1 "$BIN/graticule-info" "$net" --partition 2x2 --ranks 3
    fails_with 2 "needs 4 ranks"
    run 1 "$BIN/graticule-info" "$net" --ranks 2 --cuts 10,14,0
    fails_with 2 "3 parts"
    run 1 "$BIN/graticule-info" "$net" --ranks 2 --cuts 10,15
    fails_with 2 "sums to 25"
    run 1 "$BIN/graticule-info" "$net" --svg plan.svg
    fails_with 2 "--svg needs --ranks"
    run 1 "$BIN/graticule-info" "$net" --grid 24x48
    fails_with 2 "--grid needs --ranks or --check"
    run 1 "$BIN/graticule-info" "$net" --layout divided
    fails_with 2 "--layout needs --ranks or --check"
    run 1 "$BIN/graticule-info" "$net" --cuts 10,14
    fails_with 2 "--cuts needs --ranks or --check"
    run 1 "$BIN/graticule-info" "$net" --ranks 2 --dtype f64
    fails_with 2 "--dtype needs --check"
    run 1 "$BIN/graticule-info" "$net" --partition 2x1 --svg plan.svg
    succeeds
    [ -s plan.svg ] || fail "no picture of a partition that says the ranks"
    run 1 "$BIN/graticule-info" "$net" --ranks 2 --levels 3
    fails_with 2 "--levels does not apply to an exported network"
    run 1 "$BIN/graticule-info" "$net" --ranks 2 --grid 30x60
    fails_with 3 "axis 2"
}

# has LINE...: stdout holds each of the texts, blanks counted once
has() {
    local text
    for text in "$@"; do
        tr -s ' ' <out | grep -qF -- "$text" || fail "stdout lacks '$text'"
    done
}

case_info_grid() {
    local grid="--grid 721x1440 --levels 73 --ranks 64 --ranks-per-node 4"
    "$BIN/graticule-info" $grid --svg plan.svg --report report.json >out 2>err || fail "without a launch"
    # 64 bands send 2 rows of 1442 cells of 292 bytes.
    has 'grid 721x1440, 73 levels of f32: 303 MB' '64 ranks on 16 nodes' '8x8 2x2 90-91 180 1.010 8 (8.0)' \
        '64x1 - 11-12 1440 1.065 2 (2.0) 842 kB' 'chosen 16x4 (blocks of 4x1)' 'with the ranks in row-major order' 'takes 2.0 % longer'
    [ "$(tail -n +7 out | grep -cE '^  +[0-9]+x[0-9]+ ')" -eq 7 ] || fail "7 factorizations of 64"
    grep -qF '"num_virtual_ranks": 64' report.json && grep -qF '"off_node_bytes"' report.json && grep -qF '"process_grid"' report.json || fail "report"
    grep -qF '>721 x 1440 cells on 64 ranks: 16 x 4<' plan.svg && grep -qF 'latitude (degrees north)' plan.svg || fail "picture"
    if command -v xmllint >/dev/null; then xmllint --noout plan.svg || fail "the picture is not XML"; fi
    cp out alone

    # The same under a launcher, printed once.
    run 3 "$BIN/graticule-info" $grid --svg again.svg
    succeeds
    cmp out alone && cmp plan.svg again.svg || fail "3 ranks print something else"

    # The subject as a word: the same output as by the option, which logs the new form.
    run 1 "$BIN/graticule-info" grid 241x480 --partition 4x1
    succeeds
    grep -q "241x480" out || fail "no grid"
    ! grep -q "new form" err || fail "a line about the new form itself"
    cp out by_word
    run 1 "$BIN/graticule-info" --grid 241x480 --partition 4x1
    succeeds
    cmp -s out by_word || fail "grid and --grid differ"
    grep -qF "graticule-info grid 241x480 is the new form of --grid" err || fail "no line about the new form"
    run 1 "$BIN/graticule-info" grid
    fails_with 2 "FILE or --grid is required"
    run 1 "$BIN/graticule-info" network map.nc
    fails_with 2 "network needs an exported network, NET.pt2"
    run 1 "$BIN/graticule-info" file no.nc
    fails_with 3 "no.nc"
    touch grid
    run 1 "$BIN/graticule-info" grid
    fails_with 3 "grid"
    rm grid
    run 1 "$BIN/graticule-info" grid --help
    succeeds
    grep -qF -- "--halo" out && ! grep -qE -- "--tolerance|NET.pt2 |--machine" out || fail "grid --help has the options of networks"
    run 1 "$BIN/graticule-info" --grid 241x480 --partition 4x1 --cuts area --boundary pole,periodic
    succeeds
    has 'chosen 4x1' 'latitude 81,40,40,80' 'the only process grid'
    run 1 "$BIN/graticule-info" --grid 241x480 --cuts 61,60,60,60 --halo 2:1x3 --dtype f64
    succeeds
    has '4 ranks on 1 node' 'latitude 61,60,60,60' 'halo 2:1x3'
    printf '# rows\n100,141\n240 240\n' >cuts.txt
    run 1 "$BIN/graticule-info" --grid 241x480 --cuts file:cuts.txt
    succeeds
    has 'chosen 2x2' 'latitude 100,141' 'longitude 240,240'
    run 1 "$BIN/graticule-info" --grid 24x40 --partition 8x1 --halo 5x1
    succeeds
    has 'warning: ranks with 3 cells of latitude under a halo of 5: up to 2 messages more'
    run 1 "$BIN/graticule-info" --grid 3x40 --partition 5x1
    succeeds
    has 'warning: 2 of 5 ranks own nothing'
    run 1 "$BIN/graticule-info" --grid 721x1440 --ranks 64 --partition 0x2
    succeeds
    has 'chosen 32x2'
    # 65,536 ranks are planned by a few of them.
    run 1 "$BIN/graticule-info" --grid 11536x23040 --ranks 65536 --ranks-per-node 64 --candidates 2 --svg many.svg
    succeeds
    has 'ranks at the edges and in the middle' '65536 ranks on 1024 nodes'
    [ "$(stat -c %s many.svg)" -lt 1000000 ] || fail "a picture of $(stat -c %s many.svg) bytes"
}

# wrong TEXT OPTION...: exit 2 with one message that holds TEXT
wrong() {
    local text=$1
    shift
    run 1 "$BIN/graticule-info" "$@"
    fails_with 2 "$text"
}

case_info_grid_errors() {
    wrong "FILE or --grid is required"
    wrong "exclude each other" x.nc --grid 7x8
    wrong "--grid needs --ranks" --grid 7x8
    wrong "--grid 7 is not LATITUDESxLONGITUDES" --grid 7 --ranks 2
    wrong "--grid 0x8 is not" --grid 0x8 --ranks 2
    wrong "neither auto nor" --grid 7x8 --ranks 2 --partition 2
    wrong "needs 4 ranks, --ranks is 3" --grid 7x8 --ranks 3 --partition 2x2
    wrong "97 ranks cannot be arranged over 10 x 20 cells" --grid 10x20 --ranks 97
    wrong "64 ranks cannot be arranged over 721 x 1440 cells" --grid 721x1440 --ranks 64 --min-extents 200x200
    wrong "sums to 240 rows, the grid has 241" --grid 241x480 --cuts 60,60,60,60
    wrong "--cuts has 2 bands, --partition 4x1 has 4" --grid 241x480 --cuts 121,120 --partition 4x1
    wrong "'one' is not a number of rows" --grid 241x480 --cuts 121,one --ranks 2
    wrong "--halo 1 is not" --grid 7x8 --ranks 2 --halo 1
    wrong "--boundary pole,ring is not" --grid 7x8 --ranks 2 --boundary pole,ring
    wrong "7 longitudes" --grid 8x7 --ranks 2
    wrong "longitude axis" --grid 8x8 --ranks 2 --boundary pole,zero
    wrong "--dtype" --grid 8x8 --ranks 2 --dtype f16
    wrong "--svg needs --grid" x.nc --svg x.svg
    # Given is given, even if it is the default.
    local option
    for option in '--halo 3x3' '--halo 1x1' '--levels 4' '--dtype f64' '--boundary zero,zero' '--corners skip' \
        '--min-extents 2x2' '--candidates 3' '--ranks-per-node 2'; do
        wrong "${option%% *} needs --grid" x.nc $option
    done
    for option in '--check x' '--tolerance 1' '--layout divided'; do
        wrong "${option%% *} needs an exported network" x.nc $option
        wrong "${option%% *} needs an exported network" --grid 8x8 --ranks 2 $option
    done
    run 3 "$BIN/graticule-info" --grid 241x480 --cuts file:nowhere.txt
    fails_with 3 "nowhere.txt cannot be read"
    run 3 "$BIN/graticule-info" --grid 241x480 --cuts file:/dev/zero
    fails_with 3 "/dev/zero cannot be read: it is not a regular file"
    printf '100,141\n240,2x0\n' >cuts.txt
    run 3 "$BIN/graticule-info" --grid 241x480 --cuts file:cuts.txt
    fails_with 3 "cuts.txt, line 2: '2x0' is not a number of cells"
    run 2 "$BIN/graticule-info" --grid 7x8 --ranks 2 --svg no/such/folder.svg
    fails_with 1 "no/such/folder.svg cannot be written"
    [ -z "$(find . -type f ! -name out ! -name err ! -name cuts.txt)" ] || fail "something was left behind"
}

case_make_fields() {
    local options="--nlat 19 --nlon 36 --levels 2 --samples 3 --seed 5 --stream-function" ranks
    run 1 "$BIN/graticule-make-fields" one.nc $options --report report.json --progress lines
    succeeds
    grep -qF '100% fields 3/3' err || fail "no progress line"
    grep -qF '"process_grid"' report.json || fail "report"
    for ranks in 2 3; do
        run $ranks "$BIN/graticule-make-fields" $ranks.nc $options --progress none
        succeeds
        [ ! -s err ] || fail "something on stderr"
        cmp one.nc $ranks.nc || fail "$ranks ranks give another file than one"
    done
    run 3 "$BIN/graticule-make-fields" columns.nc $options --partition 1x3 --progress none
    succeeds
    cmp one.nc columns.nc || fail "columns give another file than rows"
    [ -z "$(find . -name '*.part')" ] || fail "temporary files are left"
    run 1 "$BIN/graticule-make-fields" other.nc --nlat 19 --nlon 36 --levels 2 --samples 3 --seed 6 --stream-function
    ! cmp -s one.nc other.nc || fail "another seed gives the same file"
}

# mean of the first column of the dump of a variable by a condition on latitude: values VARIABLE FILE
values() { ncdump -p 9,17 -v "$1" "$2" | sed '1,/^data:/d' | tr -d ';}' | tr ',=' '  ' | tr -s ' ' '\n' | grep -E '^-?[0-9]'; }

case_make_fields_header() {
    need ncdump netcdf-bin
    run 2 "$BIN/graticule-make-fields" n.nc --nlat 7 --nlon 8 --levels 2 --samples 2 --dtype f64 --progress none
    succeeds
    ncdump -h n.nc >out || fail "ncdump"
    local line
    for line in 'sample = 2 ;' 'sample:units = "days since 2001-01-01 00:00:00" ;' 'sample:standard_name = "time" ;' \
        'sample:calendar = "standard" ;' 'sample:axis = "T" ;' 'level = 2 ;' 'latitude = 7 ;' 'longitude = 8 ;' 'double z(sample, level, latitude, longitude) ;' \
        'u:standard_name = "eastward_wind" ;' 'v:units = "m s-1" ;' 'z:standard_name = "geopotential" ;' \
        'latitude:units = "degrees_north" ;' 'longitude:units = "degrees_east" ;' ':Conventions = "CF-1.8" ;'; do
        grep -qF -- "$line" out || fail "the header lacks '$line'"
    done
    [ "$(values latitude n.nc | xargs)" = "90 60 30 0 -30 -60 -90" ] || fail "latitudes $(values latitude n.nc | xargs)"
    [ "$(values longitude n.nc | xargs)" = "0 45 90 135 180 225 270 315" ] || fail "longitudes"

    # The same fields from the other side: the rows turned round, bit for bit.
    run 3 "$BIN/graticule-make-fields" s.nc --nlat 7 --nlon 8 --levels 2 --samples 2 --dtype f64 --progress none --lat-order south-to-north
    succeeds
    [ "$(values latitude s.nc | xargs)" = "-90 -60 -30 0 30 60 90" ] || fail "latitudes from the south"
    local name
    for name in z u v; do
        values $name n.nc | awk '{row = int((NR - 1) / 8); block = int(row / 7); key = (block * 7 + 6 - row % 7) * 8 + (NR - 1) % 8; print key, $1}' |
            sort -n | cut -d' ' -f2 >turned
        values $name s.nc >south
        [ -s south ] && cmp turned south || fail "$name differs between the two orders"
    done
    run 1 "$BIN/graticule-make-fields" e.nc --nlat 6 --nlon 8 --poles excluded --samples 1 --progress none
    succeeds
    [ "$(values latitude e.nc | xargs)" = "75 45 15 -15 -45 -75" ] || fail "latitudes without poles"
}

# xarray and netCDF4-python, where they are installed
case_make_fields_python() {
    local python=${GRATICULE_TEST_PYTHON:-python3}
    [ -x "$python" ] || python=python3
    "$python" -c 'import xarray, netCDF4' 2>/dev/null || skip "$python has no xarray with netCDF4"
    run 2 "$BIN/graticule-make-fields" f.nc --nlat 19 --nlon 36 --samples 2 --progress none
    succeeds
    "$python" - <<'PY' || fail "xarray"
import xarray, numpy
data = xarray.open_dataset("f.nc")
assert data.u.dims == ("sample", "level", "latitude", "longitude")
assert data.u.sel(latitude=90, longitude=0).shape == (2, 3)
assert [str(time)[:10] for time in data.sample.values] == ["2001-01-01", "2001-01-02"]
weights = numpy.cos(numpy.deg2rad(data.latitude))
speed = numpy.sqrt((data.u**2 + data.v**2).weighted(weights).mean(("latitude", "longitude")))
assert ((speed > 8) & (speed < 25)).all(), speed
PY
}

# CDO, where it is installed: a time axis, levels and a grid that it knows.
case_make_fields_cdo() {
    need cdo cdo
    run 2 "$BIN/graticule-make-fields" f.nc --nlat 19 --nlon 36 --samples 3 --levels 2 --progress none
    succeeds
    local file=f.nc
    if [ -x "$BIN/graticule-train" ]; then
        run 2 "$BIN/graticule-train" --input f.nc --output trained --channels 2 --blocks 1 --epochs 1 --threads 1 --progress none
        succeeds
        file="f.nc trained/prediction.nc"
    fi
    for file in $file; do
        cdo -s sinfo "$file" >out 2>err || fail "cdo sinfo $file"
        has 'sample : 3 steps' 'pressure : levels=2' 'points=684 (36x19)' '2001-01-01 00:00:00 2001-01-02 00:00:00'
        # A mean over time leaves one step of all levels.
        cdo -s timmean "$file" mean.nc 2>err && [ "$(cdo -s ntime mean.nc)" = 1 ] || fail "cdo timmean $file"
        rm mean.nc
    done
}

case_make_fields_errors() {
    local text
    run 3 "$BIN/graticule-make-fields" no/such/folder.nc --progress none
    fails_with 1 "does not exist"
    run 2 "$BIN/graticule-make-fields" x.nc --nlat 1
    fails_with 2 "nlat"
    run 2 "$BIN/graticule-make-fields"
    fails_with 2 "--out is required"
    run 2 "$BIN/graticule-make-fields" x.nc --partition 3x3
    fails_with 2 "--partition 3x3 does not match the 2 ranks"
    for text in 2 2x x1 2x1x1 -2x-1 0x2 2y1; do
        run 2 "$BIN/graticule-make-fields" x.nc --partition "$text"
        fails_with 2 "--partition $text is neither 'auto' nor a process grid ROWSxCOLUMNS"
    done
    run 2 "$BIN/graticule-make-fields" x.nc --partition 4294967298x4294967297
    fails_with 2 "does not match the 2 ranks"
    [ -z "$(find . -type f ! -name out ! -name err)" ] || fail "something was left behind"
    # Asked to stop: one message, and no temporary file.
    local pid
    "$BIN/graticule-make-fields" big.nc --nlat 361 --nlon 720 --samples 2000 --threads 1 --progress none >out 2>err &
    pid=$!
    for _ in $(seq 1000); do
        [ -n "$(find . -name '*.part')" ] && break
        sleep 0.02
    done
    [ -n "$(find . -name '*.part')" ] || fail "it never starts to write"
    kill -s TERM $pid
    wait $pid
    code=$?
    fails_with 1 "stopped by signal TERM; no output was written"
    [ -z "$(find . -type f ! -name out ! -name err)" ] || fail "a file is left after SIGTERM"
}

# Each of three fields fits on the disk, all of them do not: nothing is taken from others.
case_make_fields_room() {
    need strace strace
    strace -o /dev/null true 2>/dev/null || skip "this user may not trace processes"
    small_disk 2048
    launch 1 strace -f -o trace -e trace=fallocate "$BIN/graticule-make-fields" disk/x.nc --nlat 16 --nlon 32 --samples 400 --threads 1 --progress none
    fails_with 1 "disk/x.nc cannot be written: No space left on device"
    ! grep -q ENOSPC trace || fail "all room was taken: $(grep ENOSPC trace)"
    [ "$(sed -n 's/.*fallocate([0-9]*, [A-Z_]*, [0-9]*, \([0-9]*\)).*/\1/p' trace | awk '{ sum += $1 } END { print sum + 0 }')" -lt 200000 ] ||
        fail "room was taken: $(grep fallocate trace)"
    [ -z "$(ls -A disk)" ] || fail "something was left behind"
    launch 1 strace -f -o trace -e trace=fallocate "$BIN/graticule-make-fields" disk/x.nc --nlat 16 --nlon 32 --samples 100 --threads 1 --progress none
    succeeds
    grep -q 'fallocate(.* = 0' trace || fail "no room is reserved: the test means nothing"
}

# Names with bytes that are no UTF-8, which JSON cannot hold.
case_odd_names() {
    local odd=$'caf\xe9'
    run 2 "$BIN/graticule-make-fields" "$odd.nc" --nlat 8 --nlon 16 --samples 2 --threads 1 --progress none --report r.json
    succeeds
    [ -s "$odd.nc" ] && grep -qF 'caf\\xe9.nc' r.json || fail "the report does not name the output"
    iconv -f UTF-8 -t UTF-8 r.json >/dev/null || fail "the report is not in UTF-8"
    run 2 "$BIN/graticule-swe" --case 2 --nlat 16 --nlon 32 --days 0.5 --every 6h --threads 1 --progress none --log-level warn --output "$odd"
    succeeds
    [ -s "$odd/series.nc" ] && iconv -f UTF-8 -t UTF-8 "$odd/report.json" >/dev/null || fail "no report of a folder with an odd name"
    run 1 "$BIN/graticule-info" "$odd.nc" --report i.json
    succeeds
    iconv -f UTF-8 -t UTF-8 i.json >/dev/null || fail "the report of graticule-info is not in UTF-8"
    run 2 "$BIN/graticule-make-fields" "höhe.nc" --nlat 8 --nlon 16 --samples 2 --threads 1 --progress none --report r.json
    succeeds
    grep -qF '"höhe.nc"' r.json || fail "UTF-8 is not kept"
}

case_endings() {
    local ranks
    for ranks in 1 3; do
        run $ranks "$FAILING_DRIVER" --mode good
        succeeds
        run $ranks "$FAILING_DRIVER" --mode all-input
        fails_with 3 "failing-driver: file x is bad"
        run $ranks "$FAILING_DRIVER" --mode agreed
        fails_with 3 "file x is bad"
        run $ranks "$FAILING_DRIVER" --mode check
        fails_with 4 "loss differs"
        run $ranks "$FAILING_DRIVER" --mode program
        fails_with 1 "out of luck"
        run $ranks "$FAILING_DRIVER" --mode again
        [ $code -eq 85 ] || fail "exit $code, expected 85"
        run $ranks "$FAILING_DRIVER" --mode one-code
        [ $code -eq 4 ] || fail "exit $code, expected 4"
    done
}

case_lonely_failures() {
    run 3 "$FAILING_DRIVER" --mode alone
    fails_with 4 "failing-driver: rank 2: only here"
    run 3 "$FAILING_DRIVER" --mode terminate
    aborts_with 1 "in a thread"
}

case_stalls() {
    local begin=$SECONDS
    run 3 "$FAILING_DRIVER" --mode absent --stall-limit 2
    [ $code -ne 0 ] || fail "exit 0"
    grep -q 'failing-driver: rank 0: StalledExchange: rank 0 waits in call .* of a communicator (barrier) for rank 2 for 2 s (no answer of rank 2; rank 1 waits' err ||
        fail "the missing rank is not named"
    [ $((SECONDS - begin)) -lt 40 ] || fail "takes $((SECONDS - begin)) s"
    export GRATICULE_STALL_LIMIT=1
    run 3 "$FAILING_DRIVER" --mode absent
    grep -q 'StalledExchange: rank 0 waits in call .* for 1 s' err || fail "the environment is not obeyed"
    unset GRATICULE_STALL_LIMIT
    run 1 "$FAILING_DRIVER" --mode good --stall-limit -1
    fails_with 2 "stall-limit"
    GRATICULE_STALL_SECONDS=abc run 1 "$FAILING_DRIVER" --mode good
    fails_with 2 "GRATICULE_STALL_SECONDS is 'abc', not a number of seconds"
    GRATICULE_CHECK=yes run 1 "$FAILING_DRIVER" --mode good
    fails_with 2 "GRATICULE_CHECK is 'yes'"
    GRATICULE_WAIT=never run 1 "$FAILING_DRIVER" --mode good
    fails_with 2 "GRATICULE_WAIT is 'never'; valid are auto, poll and sleep"
    GRATICULE_CHECK=yes run 3 "$FAILING_DRIVER" --mode good
    fails_with 2 "GRATICULE_CHECK is 'yes'"
    [ "$(grep -c "GRATICULE_CHECK is" err)" = 1 ] || fail "every rank says it"
    KOKKOS_NUM_THREADS=3 run 2 "$FAILING_DRIVER" --mode good --threads 2
    fails_with 2 "KOKKOS_NUM_THREADS is 3, and 2 threads per rank are asked for (--threads of drivers"
    KOKKOS_NUM_THREADS=two run 2 "$FAILING_DRIVER" --mode good
    fails_with 2 "KOKKOS_NUM_THREADS is 'two'; it is a number of threads from 1 on"
    KOKKOS_NUM_THREADS=3 run 2 "$FAILING_DRIVER" --mode print
    succeeds
    grep -q 'threads 3' out || fail "KOKKOS_NUM_THREADS has no effect without --threads"
    # Of one rank alone: the others do not wait for it.
    local check
    for check in yes comm; do
        printf '#!/bin/sh\n[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" != 1 ] || export GRATICULE_CHECK=%s\nexec "%s" "$@"\n' $check "$FAILING_DRIVER" >of_one
        chmod +x of_one
        run 3 ./of_one --mode good
        [ $check = comm ] || fails_with 2 "rank 1: GRATICULE_CHECK is 'yes'; valid are none, comm, cells and all"
        [ $check = yes ] || fails_with 2 "GRATICULE_CHECK is 'none' on some ranks and 'comm' on others"
    done
}

case_options() {
    printf 'size: 5\nnames: [u, v]\nflag: true\n' >c.yaml
    run 2 "$FAILING_DRIVER" --mode print --config c.yaml --threads 2
    succeeds
    grep -qxF 'size 5 flag 1 threads 2 names u v' out || fail "the file's options"
    run 2 "$FAILING_DRIVER" --mode print --config=c.yaml --size 7 --names w --threads 1
    grep -qxF 'size 7 flag 1 threads 1 names w' out || fail "the command line does not win"
    run 1 "$FAILING_DRIVER" --config c.yaml --mode print --dump-config
    succeeds
    grep -qxF 'size: 5' out && grep -qxF 'flag: true' out || fail "dump"
    cp out dumped.yaml
    run 1 "$FAILING_DRIVER" --config dumped.yaml --threads 3
    succeeds
    grep -qxF 'size 5 flag 1 threads 3 names u v' out || fail "a dumped file gives other options"
    # Defaults that mean a choice of the driver are no values.
    local command
    for command in 'bench halo' 'bench halo --grid 20x40' 'bench layer' 'info x.nc' 'info --grid 20x40 --ranks 2' 'make-fields x.nc' 'repartition x.nc y.nc --shuffle' swe; do
        # shellcheck disable=SC2086
        run 1 "$BIN"/graticule-$command --dump-config
        succeeds
        cp out dumped.yaml
        run 1 "$BIN/graticule-${command%% *}" --config dumped.yaml --dump-config
        succeeds
        cmp out dumped.yaml || fail "the dumped configuration of $command is another one"
    done
    printf 'sise: 5\n' >c.yaml
    run 2 "$FAILING_DRIVER" --config c.yaml
    fails_with 2 "unknown key 'sise'; the nearest known one is 'size'"
    printf 'size: {a: 1}\n' >c.yaml
    run 2 "$FAILING_DRIVER" --config c.yaml
    fails_with 2 "size"
    printf 'size: [1\n' >c.yaml
    run 2 "$FAILING_DRIVER" --config c.yaml
    fails_with 2 "c.yaml: line"
    printf 'size: 50\n' >c.yaml
    run 2 "$FAILING_DRIVER" --config c.yaml
    fails_with 2 "size"
    printf 'config: c.yaml\n' >c.yaml
    run 2 "$FAILING_DRIVER" --config c.yaml
    fails_with 2 "c.yaml: 'config' is allowed only on the command line"
    run 2 "$FAILING_DRIVER" --config nowhere.yaml
    fails_with 2 "--config nowhere.yaml cannot be read: No such file or directory"
    # What might never end is not read.
    mkfifo pipe
    run 2 "$FAILING_DRIVER" --config pipe
    fails_with 2 "--config pipe cannot be read: it is not a regular file"
    run 2 "$FAILING_DRIVER" --config .
    fails_with 2 "--config . cannot be read: it is a directory"
    # What is printed is not lost without a word.
    local question
    for question in --help --version --dump-config '--mode print'; do
        env -u PMI_SIZE -u PMI_RANK -u PMI_FD "$FAILING_DRIVER" $question >/dev/full 2>err
        code=$?
        : >out
        fails_with 1 "the standard output cannot be written"
    done
    run 2 bash -c '"$0" --mode print >/dev/full' "$FAILING_DRIVER"
    fails_with 1 "the standard output cannot be written"
    run 2 "$FAILING_DRIVER" --sizes 5
    fails_with 2 "unknown option --sizes; the nearest known one is --size"
    run 2 "$FAILING_DRIVER" --help
    succeeds
    [ "$(grep -c -- --dump-config out)" -eq 1 ] || fail "--help is printed by one rank"
    run 2 "$FAILING_DRIVER" --version
    succeeds
    local word
    for word in failing-driver commit MPI Kokkos HDF5 deflate 'Torch 9.9'; do
        grep -qF -- "$word" out || fail "--version lacks $word"
    done
    run 2 "$FAILING_DRIVER" --mode log
    grep -qF 'info of rank 0' err && ! grep -qF 'info of rank 1' err && grep -qF '[rank 1/2] warning of rank 1' err || fail "logs"
    run 2 "$FAILING_DRIVER" --mode log --log-level error
    [ ! -s err ] || fail "logs in spite of --log-level error"
    run 2 "$FAILING_DRIVER" --report no/folder/r.json
    fails_with 1 "r.json"
}

# A report that cannot be written is told before the work.
case_reports() {
    mkdir folder
    local path
    for path in no/folder/r.json folder; do
        run 2 "$FAILING_DRIVER" --mode print --report "$path"
        fails_with 1 "$path cannot be written"
        ! grep -qE 'OutputError|[.]cpp' err || fail "a user is told of our sources"
        [ ! -s out ] || fail "it has begun"
    done
    run 2 "$BIN/graticule-make-fields" x.nc --nlat 9 --nlon 18 --samples 1 --levels 1 --progress none --report no/r.json
    fails_with 1 "no/r.json cannot be written"
    [ ! -e x.nc ] || fail "fields in spite of a wrong report"
    run 1 "$BIN/graticule-make-fields" x.nc --nlat 9 --nlon 18 --samples 1 --levels 1 --progress none
    run 2 "$BIN/graticule-repartition" x.nc y.nc --report no/r.json
    fails_with 1 "no/r.json cannot be written"
    [ ! -e y.nc ] || fail "an archive in spite of a wrong report"
    run 1 "$BIN/graticule-info" x.nc --report no/r.json
    fails_with 1 "no/r.json cannot be written"
    run 1 "$BIN/graticule-bench" layer --report no/r.json
    fails_with 1 "no/r.json cannot be written"
    if [ -x "$BIN/graticule-train" ]; then
        run 1 "$BIN/graticule-train" --input x.nc --output trained --report no/r.json
        fails_with 1 "no/r.json cannot be written"
        [ ! -e trained ] || fail "training in spite of a wrong report"
        # The driver creates the folder of its output.
        run 1 "$BIN/graticule-make-fields" two.nc --nlat 9 --nlon 18 --samples 2 --levels 1 --progress none
        local train="$BIN/graticule-train --input two.nc --epochs 1 --channels 2 --blocks 1 --progress none"
        for path in trained/ ./trained; do
            run 1 $train --output "$path" --report trained/r.json
            succeeds
            [ -s trained/r.json ] || fail "no report in the new folder"
            rm -r trained
        done
        run 1 $train --output trained --report trained/no/r.json
        fails_with 1 "trained/no/r.json cannot be written"
        run 2 $train --prognostic z --lead 6h --channel-weights /dev/zero
        fails_with 2 "--channel-weights /dev/zero cannot be read: it is not a regular file"
        run 1 $train --lr 1e38
        fails_with 2 "--lr"
        # What fails before its first file leaves no empty folders.
        run 2 $train --targets nothing --output new/folder
        [ $code -ne 0 ] && [ ! -e new ] || fail "an empty folder is left: exit $code"
        mkdir own
        run 2 $train --targets nothing --output own
        [ $code -ne 0 ] && [ -d own ] || fail "a folder of the user is gone"
    fi
    # An older report stays when the work fails, a link stays a link, and streams are written to.
    echo old >r.json && ln -s r.json link.json
    run 2 "$FAILING_DRIVER" --mode all-input --report link.json
    fails_with 3 "file x is bad"
    [ "$(cat r.json)" = old ] || fail "the older report is gone"
    run 2 "$FAILING_DRIVER" --mode good --report link.json
    succeeds
    [ -L link.json ] && grep -qF '"driver": "failing-driver"' r.json || fail "the link"
    run 2 "$FAILING_DRIVER" --mode good --report /dev/stdout
    succeeds
    grep -qF '"driver": "failing-driver"' out || fail "no report on stdout"
    run 1 "$FAILING_DRIVER" --mode good --report /dev/null
    succeeds
    [ -c /dev/null ] || fail "/dev/null is replaced"
    [ -z "$(find . -name '*.part')" ] || fail "temporary files are left"
}

# alone NAME=VALUE... [OPTION]: one process that no launcher of this MPI started, with the variables of another
alone() {
    env -u PMI_SIZE -u PMI_RANK -u PMI_FD "${@:1:2}" "$FAILING_DRIVER" --mode good "${@:3}" >out 2>err
    code=$?
}

case_single_rank_worlds() {
    local variables size rank
    # The launcher of another MPI, of SLURM, and an MPI's own one that it cannot reach.
    for variables in SLURM_STEP_NUM_TASKS:SLURM_PROCID OMPI_COMM_WORLD_SIZE:OMPI_COMM_WORLD_RANK PMI_SIZE:PMI_RANK \
        MV2_COMM_WORLD_SIZE:MV2_COMM_WORLD_RANK PALS_NRANKS:PALS_RANKID; do
        size=${variables%:*} rank=${variables#*:}
        alone $size=4 $rank=0
        fails_with 2 " started 4 processes"
        grep -qE 'start with `[^`]*(mpiexec|mpirun|srun --mpi=pm)' err || fail "no word of what to use"
        alone $size=4 $rank=1
        [ $code -eq 2 ] && [ ! -s err ] || fail "only one of the processes speaks"
        alone $size=4 $rank=0 --allow-single-rank
        succeeds
        alone $size=1 $rank=0
        succeeds
    done
    # PMIx says no size: the second rank knows that it is not alone.
    alone PMIX_NAMESPACE=x PMIX_RANK=1
    fails_with 2 "started several processes"
    alone PMIX_NAMESPACE=x PMIX_RANK=2
    [ $code -eq 2 ] && [ ! -s err ] || fail "only one of the processes speaks"
    alone PMIX_NAMESPACE=x PMIX_RANK=1 --allow-single-rank
    succeeds
    alone PMIX_NAMESPACE=x PMIX_RANK=0
    succeeds
    # Ranks of this MPI's own launcher in a job of another.
    export SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0
    run 2 "$FAILING_DRIVER" --mode good
    succeeds
    run 1 "$FAILING_DRIVER" --mode good
    succeeds
}

# dump NUM_RANKS: plans of a program that knows nothing of dumps, in the folder plans; what they moved in the file moved
dump() {
    GRATICULE_DUMP=plans run "$1" "$DUMP_PLANS"
    succeeds
    cp out moved
}
replay="$BIN/graticule-bench replay --repetitions 3 --threads 1 --progress none"

case_replay() {
    local ranks plan name
    for ranks in 1 2 3; do
        rm -rf plans
        dump $ranks
        [ "$(find plans -type f | wc -l)" -eq 5 ] || fail "not 5 plans: $(ls plans)"
        for plan in plans/*; do
            name=$(basename "$plan" .json)
            GRATICULE_CHECK=$([ $ranks -eq 2 ] && echo all) run $ranks $replay "$plan"
            succeeds
            [ ! -s err ] || fail "something on stderr"
            grep -qF "plan ${name#plan-}: every cell of " out && grep -qF "node-shared, adjoint" out || fail "stdout of $plan"
            # Messages, bytes and local bytes as in the program that made the plan.
            grep "^${name#plan-} " moved | cut -d' ' -f2- >expected
            awk '/^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$/ { print $1, $4, $5, $7 }' out >found
            [ ! -s expected ] || cmp expected found || fail "$plan moves other bytes: $(cat expected)"
        done
        [ "$(cut -d' ' -f1 moved | sort -u | wc -l)" -eq 4 ] || fail "4 of the plans have been used"
    done
    run 2 $replay "$plan"
    fails_with 2 "is a plan of 3 ranks, this run has 2"
    run 2 $replay
    fails_with 2 "replay requires a file"
    run 2 "$BIN/graticule-bench" halo "$plan"
    fails_with 2 "FILE does not apply to the kind halo"
    run 2 "$BIN/graticule-bench" halo --nlat 8 --nlon 5
    fails_with 2 "--nlon 5"
}

# bench NUM_RANKS ARGUMENT...: a quick run of graticule-bench, its report in r.json
bench() {
    local ranks=$1
    shift
    run "$ranks" "$BIN/graticule-bench" "$@" --repetitions 3 --threads 1 --progress none --report r.json
}
# shows TEXT...: each stands in the table and in the report
shows() {
    local text
    for text; do
        grep -qF -- "$text" out && grep -qF -- "$text" r.json || fail "no '$text'"
    done
}

case_bench() {
    local ranks
    for ranks in 1 2 3; do
        bench $ranks halo --grid 12x16 --channels 2 --width 1
        succeeds
        shows "halo of widths 1x1, 2 x 12 x 16 f32, ${ranks}x1 ranks, transport auto" "memcpy of the same bytes" \
            "bare messages of the same bytes" "HaloPlan, adjoint"
        grep -qF '"asked": "auto"' r.json || fail "no device in the report"
        bench $ranks repartition --grid 6x8 --levels 5
        succeeds
        shows "5 levels of 1 x 6 x 8 f64, ${ranks}x1 ranks" "RepartitionPlan, inverse" "RepartitionPlan, adjoint" "the fastest copy"
    done
    bench 2 halo --grid 12x16 --channels 2 --widths 2x1 --dtype f64 --partition 1x2 --transport p2p
    succeeds
    shows "halo of widths 2x1, 2 x 12 x 16 f64, 1x2 ranks, transport p2p"
    grep -qF '"others": "point-to-point"' r.json || fail "another path"
    bench 3 repartition --grid 6x9 --levels 4 --channels 2 --dtype f32 --partition 1x3 --transport node
    succeeds
    shows "4 levels of 2 x 6 x 9 f32, 1x3 ranks, from 1x3x1 to 1x1x3, transport node"
    run 1 "$BIN/graticule-bench" --help
    succeeds
    local option
    for option in --grid --channels --widths --dtype --partition --transport --report spherical replay; do
        grep -qF -- "$option" out || fail "--help lacks $option"
    done
    tr -s ' \n' ' ' <out | grep -qF "for all ranks For halo, repartition, unet, data-parallel [default: auto]" || fail "--help lacks the kinds of --device"
    grep -qF "[default: 40]" out && ! grep -qF "INT" out && grep -qF "auto|p2p|node" out || fail "--help is in another style"
    run 1 "$BIN/graticule-bench" repartition --help
    succeeds
    grep -qF -- "--levels" out && tr -s ' \n' ' ' <out | grep -qF "[default: 512x512]" || fail "repartition --help lacks its options and defaults"
    ! grep -qE -- "--widths|FILE|: 721x1440|halo|unet" <(sed '/^Common to all/,/^Example/d' out) || fail "repartition --help has options and defaults of other kinds"
    grep -qxF "  mpiexec -n 2 graticule-bench repartition --transport p2p" out || fail "repartition --help lacks its example"
    local driver
    for driver in "$BIN"/graticule-*; do
        case $driver in *-read-structure | *-network) continue ;; esac
        run 1 "$driver" --help
        succeeds
        grep -qE "^  (mpiexec -n [0-9]+ )?$(basename "$driver") " out || fail "$driver --help lacks an example"
        ! grep -qE '(INT|FLOAT|UINT)( |=|:|$)|.{111}' out || fail "$driver --help is in another style, or has lines of more than 110 columns"
        # Options that the page of the driver lists.
        grep -oE '^\| `--[a-z-]+' "$(dirname "${BASH_SOURCE[0]}")/../../apps/$(basename "$driver")/README.md" | sed 's/^| `//' >listed || true
        while read -r option; do
            grep -qE "^  $option( |,|\[|$)" out || fail "$driver --help lacks $option of its README"
        done <listed
        # One line for each option, to compare options that several drivers have.
        awk '/^  --/ { printf "\n" } /^[^ ]/ { on = 0 } /^  --/ { on = 1 } on { printf "%s ", $0 } END { printf "\n" }' out | tr -s ' ' | sed 's/^ //' >>options
    done
    for option in --partition --checkpoint-every --time-limit --config --report --device; do
        [ "$(grep -E "^$option " options | sed 's/[.;:[(].*//' | sort -u | wc -l)" -eq 1 ] ||
            fail "drivers have other words for $option: $(grep -E "^$option " options)"
    done
}

case_bench_program() {
    [ "${HAS_PROGRAMS:-no}" = yes ] || skip "built without LibTorch"
    [ -e "$DATA/programs/unet_probe/program.pt2" ] || skip "GRATICULE_TEST_DATA/programs is missing"
    local net=$DATA/programs/unet_probe/program.pt2
    bench 2 program "$net" --share "$net"
    succeeds
    shows "program.pt2, forward and backward, 2 ranks" "each rank alone, no exchange" "sharded over latitude"
    grep -q '"received_bytes"' r.json || fail "no bytes in the report"
    grep -q 'most bytes of tensors in a step' out || fail "no memory"
    run 2 "$BIN/graticule-bench" program "$net" --share "$net" --repetitions 0 --threads 1
    succeeds
    grep -q 'most bytes of tensors in a step' out || fail "no memory"
    ! grep -q 'each rank alone, no exchange' out || fail "timed"
    run 2 "$BIN/graticule-bench" program "$net" --share "$net" --repetitions 2
    fails_with 2 "--repetitions 2: program takes at least 3, or 0"
    run 2 "$BIN/graticule-bench" program
    fails_with 2 "program requires a file"
    run 2 "$BIN/graticule-bench" program no.pt2
    fails_with 3 "no.pt2"
    run 2 "$BIN/graticule-bench" program "$net" --grid 8x8
    fails_with 2 "--grid does not apply to the kind program"
    run 2 "$BIN/graticule-bench" program "$net"
    fails_with 3 "without --share the network runs on each rank's rows alone: input 'x' has 12 along axis 2"
    run 2 "$BIN/graticule-bench" unet --share "$net"
    fails_with 2 "--share does not apply to the kind unet"
    local small="unet --nlat 16 --nlon 32 --channels 2 --repetitions 0 --threads 1 --report r.json"
    run 2 "$BIN/graticule-bench" $small
    succeeds
    grep -q 'peak of the fullest rank: .* MB of tensors, .* MB resident' out || fail "no memory"
    grep -q '"tensor_bytes"' r.json || fail "no bytes in the report"
    ! grep -q 'each rank alone, no exchange' out || fail "timed"
    GRATICULE_TENSOR_MEMORY=system run 2 "$BIN/graticule-bench" $small
    succeeds
    GRATICULE_TENSOR_MEMORY=all run 2 "$BIN/graticule-bench" $small
    fails_with 2 "GRATICULE_TENSOR_MEMORY is 'all'; valid are keep and system"
    # Compares shards with whole fields before it times them.
    run 2 "$BIN/graticule-bench" spherical --nlat 13 --nlon 24 --channels 2 --repetitions 3 --threads 1
    succeeds
    [ "$(grep -c 'sharded over latitude' out)" = 2 ] || fail "not two truncations"
}

case_bench_errors() {
    bench 2 halo --grid 12x16 --partition 3x1
    fails_with 2 "--partition 3x1 does not match the 2 ranks"
    bench 2 halo --grid 12
    fails_with 2 "is not LATITUDESxLONGITUDES"
    bench 2 halo --grid 12x16 --nlat 4
    fails_with 2 "--grid"
    bench 2 halo --grid 12x16 --widths 0x0
    fails_with 2 "--widths 0x0"
    bench 2 halo --grid 12x16 --dtype f16
    fails_with 2 "--dtype"
    bench 2 halo --grid 12x16 --transport tcp
    fails_with 2 "--transport"
    bench 2 layer --grid 12x16 --transport p2p
    fails_with 2 "--transport does not apply to the kind layer"
    bench 2 spherical --grid 12x16 --partition 2x1
    fails_with 2 "--partition does not apply to the kind spherical"
    # Given is given, even if it is the default or what the kind would do.
    local misplaced
    for misplaced in 'layer --device cpu' 'layer --levels 3' 'layer --transport auto' 'halo --batch 2' \
        'data-parallel --widths 2' 'repartition --widths 1x1' 'replay x.json --channels 3' 'replay x.json --nlat 8'; do
        # shellcheck disable=SC2086
        bench 2 $misplaced
        grep -oE -- '--[a-z]+' <<<"$misplaced" >option
        fails_with 2 "$(cat option) does not apply to the kind ${misplaced%% *}"
    done
    run 2 "$BIN/graticule-bench" halo --grid 12x16 --repetitions 0
    fails_with 2 "--repetitions 0: halo takes at least 3"
    bench 2 gossip
    fails_with 2 "gossip"
}

# refuses FILE TEXT: graticule-bench names the file and the place
refuses() {
    run 2 $replay "$1"
    fails_with 3 "$1$2"
}

# spoils TEXT SED-COMMAND...: the good plan so edited is refused
spoils() {
    local text=$1
    shift
    sed "$@" good.json >bad.json
    ! cmp -s good.json bad.json || fail "nothing was damaged: $*"
    refuses bad.json "$text"
}

case_replay_damaged() {
    dump 2
    # The repartition: one kind, one target and one piece on each rank.
    cp "$(grep -lF '"extents": [7, 12, 2]' plans/*)" good.json
    run 2 $replay good.json
    succeeds
    head -c $(($(stat -c %s good.json) / 2)) good.json >half.json
    refuses half.json ", line 1"
    : >empty.json
    refuses empty.json ", line 1, column 1: not JSON"
    refuses nowhere.json " cannot be read"
    printf '[]' >list.json
    refuses list.json ': the plan has no "format": "graticule-plan"'
    spoils ": version is 2" 's/"version": 1/"version": 2/'
    spoils ", line 5, column 18: not JSON" 's/"after_adjoint": /&x/'
    spoils ": after_adjoint is 'kept', which is not known" 's/"keep"/"kept"/'
    spoils ": the plan has no 'extents'" '/"extents"/d'
    spoils ": extents[1] is 1.5, not an integer" 's/\[7, 12, 2\]/[7, 1.5, 2]/'
    spoils ": extents[0] is 9000000000000000000" 's/\[7, 12, 2\]/[9000000000000000000, 12, 2]/'
    local piece='ranks[0].kinds[0].targets[0].needed[0].pieces[0]'
    spoils ": $piece.maps[2][1] is 2, not" '0,/\[0, 1, 0\]\]/s//[0, 2, 0]]/'
    spoils ": $piece.maps[2][0] names a source axis twice" '0,/\[0, 1, 0\]\]/s//[1, 1, 0]]/'
    spoils ": OutOfRange" '0,/\[0, 1, 0\]\]/s//[0, 1, 5]]/'
    spoils ": BadLayout" 's/"owned": \[\[4, 0, 0\]/"owned": [[5, 0, 0]/'
    spoils ": ranks[1].owned leaves the grid" 's/"owned": \[\[4, 0, 0\], \[7,/"owned": [[4, 0, 0], [8,/'
    spoils ": ranks[1].sends does not match its pieces" 's/"sends": \[{"peer": 0, "transfers": 1, "cells": /&1/'
    spoils ": there is no memory" 's/"source": \[\[0, 0, 0\]/"source": [[-1000000, -1000000, -100000]/'
    # More than memory and time are taken for.
    awk 'BEGIN { print "{\"format\": \"graticule-plan\", \"version\": 1, \"extents\": [400000], \"ranks\": ["
        for (i = 0; i < 400000; ++i) printf "%s{\"owned\": [[%d], [%d]], \"kinds\": [{\"source\": [[%d], [%d]], \"targets\": []}]}", i ? ",\n" : "", i, i + 1, i, i + 1
        print "], \"call\": null}" }' >ranks.json
    run 2 $replay ranks.json
    fails_with 2 "ranks.json is a plan of 400000 ranks, this run has 2"
    head -c 30000000 ranks.json >half.json
    refuses half.json ", line "
    local field='{"kind": 0, "dtype": "f64", "batch": [], "parity": "even"}, '
    { sed '/"fields": \[/ { s/\("fields": \[\).*/\1/; q }' good.json && for _ in $(seq 100000); do printf '%s' "$field"; done && sed -n 's/.*"fields": \[//p' good.json && echo '}'; } >fields.json
    refuses fields.json ": call.fields has 100001 elements; a replay takes at most 4096"
    awk 'BEGIN { printf "{\"ranks\": [{}, {}], \"more\": ["; for (i = 0; i < 11000000; ++i) printf "%s0", i ? "," : ""; print "]}" }' >values.json
    refuses values.json " holds more than 10000000 values"
    spoils ": call.fields[0].dtype is 'f65', which is not known" 's/"f64"/"f65"/'
    spoils ": call.fields[0].kind is 1, not an integer from 0 to 0" 's/{"kind": 0/{"kind": 1/'
}

declare -F "case_$1" >/dev/null || fail "no case $1"
"case_$1"
