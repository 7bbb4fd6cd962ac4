#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests of graticule-repartition from outside: check.sh CASE. The environment names the folder of the programs (BIN), the
# launcher (MPIEXEC) and the folder of sample files (DATA, may be empty). Ends with 77 when the case is skipped.
# Words of $MPIEXEC are split on purpose; `A && B || fail` fails when either does.
# shellcheck disable=SC2086,SC2015
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"
# run NUM_RANKS ARGUMENT...
run() { launch "$1" "$BIN/graticule-repartition" "${@:2}"; }

# fails_with STATUS TEXT: one line on stderr, which holds TEXT, and no output
fails_with() {
    [ $code -eq "$1" ] || fail "exit $code, expected $1"
    [ "$(wc -l <err)" -eq 1 ] || fail "$(wc -l <err) lines on stderr, expected 1"
    grep -qF -- "$2" err || fail "stderr lacks '$2'"
    [ -z "$(find . -name 'out.nc' -o -name '*.part')" ] || fail "something was left behind"
}
# dump FILE: everything that ncdump shows but the name
dump() { ncdump "$1" | tail -n +2; }
make_fields() {
    "$BIN/graticule-make-fields" in.nc --nlat 19 --nlon 36 --levels 3 --samples 4 --progress none || fail "make-fields"
}

case_round_trip() {
    need ncdump netcdf-bin
    make_fields
    run 2 in.nc series.nc --variables u,v --order latitude,longitude,level,sample --chunk latitude=5,longitude=9 \
        --deflate 2 --memory 100kB --progress lines --report report.json
    succeeds
    grep -qF '100% rounds' err || fail "no progress line"
    ncdump -hs series.nc >out || fail "ncdump"
    local text
    for text in 'float u(latitude, longitude, level, sample) ;' 'float z(sample, level, latitude, longitude) ;' \
        'v:_ChunkSizes = 5, 9, 3, 4 ;' 'u:_DeflateLevel = 2 ;' 'u:_Shuffle = "true" ;' 'u:units = "m s-1" ;'; do
        grep -qF -- "$text" out || fail "the header lacks '$text'"
    done
    for text in '"driver": "graticule-repartition"' '"read":' '"move":' '"write":' '"peak_workspace_bytes": [' \
        '"moved_between_ranks"' '"process_grid"'; do
        grep -qF -- "$text" report.json || fail "the report lacks '$text'"
    done
    run 1 series.nc back.nc --order sample,level,latitude,longitude --chunk none --deflate 0 --no-shuffle --progress none
    succeeds
    [ ! -s err ] || fail "something on stderr"
    dump in.nc >a && dump back.nc >b && cmp a b || fail "the reverse call does not give the original"
    # Without compression the file is the same for every number of ranks.
    run 2 series.nc again.nc --order sample,level,latitude,longitude --chunk none --deflate 0 --no-shuffle --progress none
    succeeds
    cmp back.nc again.nc || fail "2 ranks give another file than 1"
    # Memory that ranks share counts as a file: where a limit forbids it, it is done without.
    (ulimit -f 60000 && run 2 series.nc limited.nc --order sample,level,latitude,longitude --chunk none --deflate 0 --no-shuffle \
        --progress none && exit $code) || fail "a limit on file sizes ends it"
    cmp back.nc limited.nc || fail "another file under a limit on file sizes"
    # Over itself only when told.
    run 2 again.nc ./again.nc --order level,sample,latitude,longitude --progress none
    [ $code -eq 2 ] && grep -qF -- '--in-place' err || fail "its input is replaced without a question"
    cmp back.nc again.nc || fail "the refused call has changed its input"
    # Nor by a report.
    run 2 again.nc other.nc --report ./again.nc --progress none
    [ $code -eq 2 ] && grep -qF -- '--report ./again.nc is also the path of --in' err || fail "a report replaces the input"
    cmp back.nc again.nc || fail "the report has changed the input"
    run 2 again.nc again.nc --in-place --order level,sample,latitude,longitude --progress none
    succeeds
    ncdump -h again.nc >out
    grep -qF 'float u(level, sample, latitude, longitude) ;' out || fail "over itself"
}

case_files() {
    need ncgen netcdf-bin
    # Unlimited time, text, a scalar, strings of variable length that are too many.
    printf '%s' 'netcdf x { dimensions: time = UNLIMITED; station = 3; letters = 4; variables:
        double time(time); time:units = "hours since 2000-01-01"; char name(station, letters); int crs;
        crs:grid_mapping_name = "latitude_longitude"; short t(time, station); t:scale_factor = 0.5; t:_FillValue = -1s;
        data: time = 0, 6; name = "oneA", "twoB", "sixC"; crs = 7; t = 1, 2, -1, 4, 5, 6; }' >x.cdl
    ncgen -k nc4 -o in.nc x.cdl || fail "ncgen"
    run 2 in.nc out.nc --order station,time --progress none
    succeeds
    ncdump out.nc >out
    local text
    for text in 'time = UNLIMITED ; // (2 currently)' 'short t(station, time) ;' '"oneA"' 'crs = 7 ;' 't:scale_factor = 0.5 ;' \
        'grid_mapping_name' '_FillValue = -1s' '{1, 4}' '{2, 5}' '{_, 6}'; do
        grep -qF -- "$text" out || fail "the output lacks '$text'"
    done
    # The way back from an unlimited dimension: fixed, in one piece.
    run 2 in.nc fixed.nc --chunk none --progress none
    succeeds
    grep -qF 'dimension time is no longer unlimited' err || fail "silent about it"
    ncdump -hs fixed.nc >header
    grep -qF 'time = 2 ;' header || fail "time is not fixed"
    for text in t time; do grep -qF "$text:_Storage = \"contiguous\"" header || fail "$text is not in one piece"; done
    dump in.nc | sed -n '/^data:/,$p' >a && dump fixed.nc | sed -n '/^data:/,$p' >b && cmp a b || fail "other values"
    rm out.nc fixed.nc

    printf 'netcdf x { dimensions: a = 2; b = 3; variables: float v(a, b); string s(a); data: s = "x", "%0600000d"; }' 1 >s.cdl
    ncgen -k nc4 -o s.nc s.cdl || fail "ncgen"
    run 2 s.nc out.nc
    fails_with 3 "(it holds more than 1 MiB of strings of variable length); --exclude s leaves it out"
    run 1 s.nc out.nc --exclude s --progress none
    succeeds
    rm out.nc
    printf '%s' 'netcdf x { dimensions: a = 2; variables: float w(a); group: g { dimensions: b = 3; variables: float v(a, b); } }' >g.cdl
    ncgen -k nc4 -o g.nc g.cdl || fail "ncgen"
    run 2 g.nc out.nc
    fails_with 3 "g/v in a group"
    run 1 g.nc out.nc --exclude g/v --progress none
    succeeds
    rm out.nc
    sed 's/UNLIMITED/2/' x.cdl >c.cdl && ncgen -k classic -o classic.nc c.cdl || fail "ncgen"
    run 2 classic.nc out.nc
    fails_with 3 "nccopy -k nc4"
}

case_refusals() {
    make_fields
    run 1
    fails_with 2 "--in is required"
    run 1 in.nc
    fails_with 2 "--out is required"
    run 2 nowhere.nc out.nc
    fails_with 3 "does not exist"
    run 2 in.nc out.nc --variables w
    fails_with 2 "no variable 'w'; the file has sample, level, latitude, longitude, z, u, v"
    run 2 in.nc out.nc --order latitude,longitude
    fails_with 2 "no field has dimensions of these names only"
    run 2 in.nc out.nc --order latitude,longitude --variables u
    fails_with 2 "--order lacks 'sample'"
    run 1 in.nc out.nc --order time,level,latitude,longitude
    fails_with 2 "no dimension 'time'"
    run 1 in.nc out.nc --chunk latitude=0
    fails_with 2 "--chunk latitude=0"
    run 1 in.nc out.nc --dtype i8
    fails_with 2 "--dtype"
    run 1 in.nc out.nc --deflate 12
    fails_with 2 "--deflate 12"
    run 1 in.nc out.nc --memory lots
    fails_with 2 "--memory lots"
    run 1 in.nc out.nc --memry 1GiB
    fails_with 2 "the nearest known one is --memory"
    run 2 in.nc out.nc --memory 1kB --chunk latitude=all
    fails_with 2 "needs at least"
    run 2 in.nc no/such/folder/out.nc --progress none
    fails_with 1 "does not exist"
    printf 'deflate: 3\nordr: [latitude]\n' >c.yaml
    run 1 in.nc out.nc --config c.yaml
    fails_with 2 "'ordr'; the nearest known one is 'order'"
    run 1 in.nc out.nc --deflate 4 --dump-config
    succeeds
    grep -qF 'deflate: 4' out && grep -qF 'memory: 2GiB' out || fail "--dump-config"
}

# A process that is stopped leaves no output: asked to (SIGTERM), and killed.
case_endings() {
    "$BIN/graticule-make-fields" in.nc --nlat 61 --nlon 120 --levels 3 --samples 20 --progress none || fail "make-fields"
    local signal pid
    for signal in TERM KILL; do
        # Tens of thousands of rounds of a few cells.
        "$BIN/graticule-repartition" in.nc out.nc --order longitude,sample,latitude,level --memory 2kB --progress lines \
            >out 2>err &
        pid=$!
        for _ in $(seq 1000); do
            [ -n "$(find . -name '*.part')" ] && break
            sleep 0.02
        done
        [ -n "$(find . -name '*.part')" ] || fail "it never starts to write"
        kill -s $signal $pid
        wait $pid
        code=$?
        [ ! -e out.nc ] || fail "an output after SIG$signal"
        if [ $signal = TERM ]; then
            [ $code -eq 1 ] || fail "exit $code, expected 1"
            grep -qF "stopped by signal TERM" err || fail "no message"
            [ -z "$(find . -name '*.part')" ] || fail "a temporary file is left"
        fi
    done
    [ -n "$(find . -name '*.part')" ] || fail "nothing is left after SIGKILL"
    # The same while a scratch file is in use, which has no name that could stay.
    "$BIN/graticule-make-fields" many.nc --nlat 61 --nlon 120 --levels 3 --samples 160 --progress none || fail "make-fields"
    run 1 many.nc maps.nc --deflate 1 --chunk sample=1,level=1,latitude=all,longitude=all --progress none
    succeeds
    for signal in TERM KILL; do
        rm -f .out.nc.*.part
        "$BIN/graticule-repartition" maps.nc out.nc --order latitude,longitude,level,sample --deflate 9 --memory 300kB \
            --chunk latitude=4,longitude=4,level=all,sample=all --progress none >out 2>err &
        pid=$!
        until find "/proc/$pid/fd" -lname '*.part (deleted)' 2>/dev/null | grep -q .; do
            [ ! -e out.nc ] && kill -0 $pid || fail "it writes without a scratch file"
            sleep 0.01
        done
        kill -s $signal $pid
        wait $pid
        code=$?
        [ $signal = KILL ] || [ $code -eq 1 ] || fail "exit $code, expected 1"
        [ ! -e out.nc ] || fail "an output after SIG$signal"
        [ "$(find . -name '*.part' | wc -l)" -le "$([ $signal = KILL ] && echo 1 || echo 0)" ] || fail "a scratch file is left"
    done
    # The next one to the same output tidies up; a link stays a link.
    run 2 in.nc out.nc --variables z --progress none
    succeeds
    [ -z "$(find . -name '*.part')" ] || fail "what was left stays"
    rm out.nc && ln -s real.nc out.nc
    run 2 in.nc out.nc --variables z --progress none
    succeeds
    [ -L out.nc ] && [ -f real.nc ] || fail "the link is replaced"
}

# ERA5 as it is downloaded: a list of strings, and a single number, beside the fields.
case_strings() {
    need ncgen netcdf-bin
    need ncdump netcdf-bin
    ncgen -4 -o era5.nc <<'CDL' || fail "ncgen"
netcdf era5 { dimensions: valid_time = 4 ; latitude = 3 ; longitude = 4 ;
variables: int64 number ; number:units = "1" ; number:standard_name = "realization" ;
    int64 valid_time(valid_time) ; valid_time:units = "seconds since 1970-01-01" ; valid_time:calendar = "proleptic_gregorian" ;
    string expver(valid_time) ; double latitude(latitude) ; latitude:units = "degrees_north" ;
    double longitude(longitude) ; longitude:units = "degrees_east" ;
    float t(valid_time, latitude, longitude) ; t:coordinates = "number expver" ;
data: number = 0 ; valid_time = 0, 21600, 43200, 64800 ; expver = "0001", "0001", "0005", "0005" ; latitude = 30, 0, -30 ;
    longitude = 0, 90, 180, 270 ; t = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48 ; }
CDL
    local ranks
    for ranks in 1 2 3; do
        run $ranks era5.nc turned.nc --order latitude,longitude,valid_time --progress none
        succeeds
        run $ranks turned.nc back.nc --order valid_time,latitude,longitude --progress none
        succeeds
        # Strings have become characters, which has one more dimension and the encoding.
        ncdump -n name era5.nc >a
        ncdump -n name back.nc | sed -e '/string4 = 4 ;/d' -e '/_Encoding/d' -e 's/char expver(valid_time, string4)/string expver(valid_time)/' |
            awk '/^ expver =/ { getline a; getline b; getline c; getline d; print " expver = " a b c d; next } { print }' |
            sed '/expver =/ s/  */ /g' >b
        cmp a b || fail "$ranks ranks changed it: $(diff a b)"
        ncdump -h turned.nc >header || fail "ncdump"
        grep -qF 'expver:_Encoding = "utf-8"' header || fail "no encoding"
    done
}

# Strings of stores, of a fixed and of variable length, in chunks that do not divide and chunks that are absent.
case_strings_of_stores() {
    local python=${GRATICULE_TEST_PYTHON:-python3}
    [ -x "$python" ] || python=python3
    "$python" -c 'import xarray, zarr, netCDF4' 2>/dev/null || skip "$python has no xarray with zarr and netCDF4"
    "$python" - <<'PY' || fail "make"
import numpy, zarr
from zarr.codecs import GzipCodec
words = numpy.array([["", "a", "Z\u00fcrich"], ["\u6c17\u6e29", "0001", "\U0001f30d"], ["x", "", "last"]])
for version in (2, 3):
    for separator in "./":
        group = zarr.open_group(f"v{version}{'abc'[separator == '/']}.zarr", mode="w", zarr_format=version)
        keys = {"name": "v2" if version == 2 else "default", "separator": separator}
        def add(name, values, axes, **options):
            names = {"dimension_names": axes} if version == 3 else {}
            array = group.create_array(name, shape=values.shape, chunk_key_encoding=keys, **names, **options)
            if version == 2:
                array.attrs["_ARRAY_DIMENSIONS"] = axes
            array[:2] = values[:2]
            return array
        add("t", numpy.arange(12.0).reshape(3, 4), ["y", "x"], dtype="f4", chunks=(2, 3), fill_value=-1.0)
        add("fixed", words, ["y", "k"], dtype=words.dtype, chunks=(2, 2))
        add("filled", words, ["y", "k"], dtype=words.dtype, chunks=(2, 2), fill_value="Z\u00fc")
        add("bytes", numpy.array([b"ab", b"c", b""]), ["y"], dtype="S2", chunks=(2,), fill_value=b"xy")
        add("half", numpy.array([0.5, -0.0, 65504]), ["y"], dtype="f2", chunks=(2,), fill_value=-1)
        add("variable", words, ["y", "k"], dtype=str, chunks=(2, 2))
        packed = add("packed", words[:, 1], ["y"], dtype=str, chunks=(2,), compressors=[GzipCodec()] if version == 3 else "auto")
        packed[2] = "more"
        if version == 3:
            group.create_array("sharded", shape=words.shape, dtype=words.dtype, chunks=(1, 3), shards=(2, 3), dimension_names=["y", "k"])[...] = words
            # Of variable length: a shard that is absent, a chunk that its shard lacks, both places of the index.
            for place in ("start", "end"):
                shards = {"shape": (2, 4), "index_location": place}
                array = group.create_array(f"sharded_{place}", shape=(5, 3), dtype=str, chunks=(1, 2), shards=shards, dimension_names=["z", "k"],
                                           compressors=[GzipCodec()] if place == "end" else "auto")
                array[:2], array[4, 2:] = words[1:], "alone"
        else:
            array = group.create_array("turned", shape=words.shape, dtype=words.dtype.newbyteorder(">"), chunks=(2, 2), order="F")
            array[...] = words
            array.attrs["_ARRAY_DIMENSIONS"] = ["y", "k"]
PY
    cat >compare.py <<'PY'
import sys
import numpy, xarray
store, copy = sys.argv[1:]
options = {"mask_and_scale": False}  # empty ones are fill values
ours = xarray.open_zarr(copy, **options).load() if copy.endswith(".zarr") else xarray.open_dataset(copy, **options).load()
theirs = xarray.open_zarr(store, consolidated=False, **options).load()
assert set(ours.variables) == set(theirs.variables), (ours, theirs)
for name in set(theirs.variables) - {"t"}:
    texts, wanted = ([text.decode() if isinstance(text, bytes) else str(text) for text in data[name].values.ravel().tolist()] for data in (ours, theirs))
    assert texts == wanted, (name, ours[name], theirs[name])
PY
    local store out
    for store in v*.zarr; do
        for out in out.nc out.zarr; do
            run 2 $store $out --progress none
            succeeds
            "$python" compare.py $store $out >log 2>&1 || fail "$store to $out: $(cat log)"
            rm -r $out
        done
    done
    # A chunk whose number of strings is another one.
    printf '\7\0\0\0' >v2a.zarr/variable/0.0
    run 2 v2a.zarr out.nc --progress none
    fails_with 3 'variable of v2a.zarr cannot be copied (variable/0.0: a chunk'
    run 2 v2a.zarr out.nc --exclude variable --progress none
    succeeds
}

# A full disk: one error that names the file, and no half file.
# Random data sets in every direction.
case_copies() {
    local python=${GRATICULE_TEST_PYTHON:-python3}
    [ -x "$python" ] || python=python3
    "$python" -c 'import xarray, zarr, netCDF4' 2>/dev/null || skip "$python has no xarray with zarr and netCDF4"
    "$python" "$(dirname "${BASH_SOURCE[0]}")/copies.py" "${SEED:-1}" "${COUNT:-30}" $MPIEXEC 2 "$BIN/graticule-repartition" >log 2>&1 || fail "$(cat log)"
}

# References of netCDF-4 files: a store of version 2 made of their byte ranges holds what the file holds, for xarray and here.
case_references() {
    local python=${GRATICULE_TEST_PYTHON:-python3}
    [ -x "$python" ] || python=python3
    "$python" -c 'import xarray, zarr, netCDF4' 2>/dev/null || skip "$python has no xarray with zarr and netCDF4"
    "$python" - <<'PY' || fail "make"
import netCDF4, numpy
random = numpy.random.default_rng(3)
with netCDF4.Dataset("in.nc", "w") as file:
    for name, extent in (("time", None), ("latitude", 19), ("longitude", 36), ("station", 2)):
        file.createDimension(name, extent)
    file.title = "A file \u00e9"
    def add(name, type, dimensions, values, attributes={}, **options):
        variable = file.createVariable(name, type, dimensions, **options)
        variable.setncatts(attributes)
        variable.set_auto_maskandscale(False)
        if values is not None:
            variable[...] = values
    add("time", "f8", ("time",), numpy.arange(5) * 6.0, {"units": "hours since 2020-01-01", "calendar": "noleap"})
    add("latitude", "f4", ("latitude",), numpy.linspace(90, -90, 19), {"units": "degrees_north"})
    add("longitude", "f4", ("longitude",), numpy.arange(36) * 10, {"units": "degrees_east"})
    axes, fields = ("time", "latitude", "longitude"), random.standard_normal((5, 19, 36))
    add("z", "f4", axes, fields, {"units": "m"}, zlib=True, shuffle=True, chunksizes=(2, 10, 36), fill_value=numpy.float32(numpy.nan))
    add("packed", "i2", axes, fields * 1000, {"scale_factor": 1e-3, "add_offset": 5.0}, zlib=True, shuffle=False, fill_value=-32767, chunksizes=(1, 19, 36))
    add("checked", "f4", axes, fields, fletcher32=True, chunksizes=(5, 7, 7))
    add("big", "f8", ("latitude", "longitude"), fields[0], {"valid_range": numpy.array([-9.0, numpy.inf])}, endian="big")
    add("part", "f4", axes, None, chunksizes=(2, 10, 36))
    file["part"][2:4] = fields[2:4]
    add("never", "i4", ("latitude",), None)
    add("number", "i8", (), 7)
    add("flags", "u1", ("time",), [1, 2, 3, 4, 255], {"flag_values": numpy.array([1, 2], "u1")})
    texts = file.createVariable("name", str, ("station",))
    texts[:] = numpy.array(["Basel", "Z\u00fcrich"], object)
    group = file.createGroup("inner")
    group.createVariable("w", "f4", ("latitude",), chunksizes=(7,))[:] = numpy.arange(19)
PY
    mkdir elsewhere
    run 2 in.nc --references elsewhere/refs.json --progress none
    succeeds
    [ ! -s err ] || fail "something on stderr"
    cat >compare.py <<'PY'
import json, os, sys
import numpy, xarray
import base64
refs = json.load(open("elsewhere/refs.json"))["refs"]
for key, value in refs.items():
    os.makedirs(os.path.dirname("made.zarr/" + key), exist_ok=True)
    if isinstance(value, list):
        with open(value[0], "rb") as file:
            file.seek(value[1])
            data = file.read(value[2])
    else:
        data = base64.b64decode(value[7:]) if value.startswith("base64:") else value.encode()
    with open("made.zarr/" + key, "wb") as file:
        file.write(data)
assert sum(isinstance(value, list) for value in refs.values()) > 30
files = []
for options in ({}, {"group": "inner"}):
    ours = xarray.open_zarr("made.zarr", consolidated=False, **options).load()
    with xarray.open_dataset("in.nc", **options) as file:
        file.load()
    files.append(file)
    assert set(ours.variables) == set(file.variables), (ours, file)
    for name in file.variables:
        mine, his = ours[name], file[name]
        assert mine.dims == his.dims, name
        if name == "name":  # strings of variable length are bytes there
            assert [text.decode() for text in mine.values] == list(his.values)
        elif name == "part":  # version 2 of Zarr says of cells that were never written that they are missing
            numpy.testing.assert_array_equal(mine.values, numpy.where(his.values > 9e36, numpy.nan, his.values))
        elif name == "never":
            assert numpy.isnan(mine.values).all(), mine.values
        else:
            numpy.testing.assert_array_equal(mine.values, his.values, err_msg=name)
            assert set(mine.attrs) == set(his.attrs) and all(numpy.array_equal(mine.attrs[key], his.attrs[key]) for key in his.attrs), name
back, file = xarray.open_dataset(sys.argv[1]).load(), files[0]
for name in ("time", "latitude", "longitude", "z", "packed", "big", "number", "flags"):
    numpy.testing.assert_array_equal(back[name].values, file[name].values, err_msg=name)
PY
    run 3 elsewhere/refs.json back.nc --exclude checked,name,inner/w --progress none
    succeeds
    "$python" compare.py back.nc >out 2>err || fail "other values"
    run 2 in.nc out.nc --references refs.json
    fails_with 2 '--references writes no other output: leave out out.nc'
    run 2 in.nc
    fails_with 2 '--out is required'
    run 2 made.zarr --references refs.json
    fails_with 3 'made.zarr is a Zarr store already'
    run 2 in.nc --references nowhere/refs.json
    fails_with 1 'the folder nowhere does not exist'
    [ ! -e refs.json ] || fail "a refused call has written references"
}

# Stores of each codec, with shards and without, read by zarr-python and xarray, and back to a netCDF-4 file.
case_stores() {
    local python=${GRATICULE_TEST_PYTHON:-python3}
    [ -x "$python" ] || python=python3
    "$python" -c 'import xarray, zarr, netCDF4' 2>/dev/null || skip "$python has no xarray with zarr and netCDF4"
    need ncgen netcdf-bin
    printf '%s' 'netcdf x { dimensions: time = UNLIMITED; row = 7; column = 9; letters = 4; variables:
        double time(time); time:units = "hours since 2000-01-01"; time:calendar = "noleap"; char name(row, letters); int crs;
        crs:grid_mapping_name = "latitude_longitude"; short t(time, row, column); t:scale_factor = 0.5f; t:_FillValue = -1s;
        t:valid_range = -100s, 100s; float f(time, row, column); f:missing_value = NaNf; f:_FillValue = 9.96921e+36f;
        f:coordinates = "crs"; int64 big(row); ubyte mask(row, column); :title = "stores"; :numbers = 1.5, NaN; }' >x.cdl
    ncgen -k nc4 -o in.nc x.cdl || fail "ncgen"
    "$python" - <<'PY' || fail "fill"
import netCDF4, numpy
rng = numpy.random.default_rng(1)
with netCDF4.Dataset("in.nc", "a") as file:
    file.set_auto_maskandscale(False)
    file["time"][:] = numpy.arange(11) * 6
    file["name"][:] = numpy.frombuffer(b"".join(b"st%02d" % i for i in range(7)), "S1").reshape(7, 4)
    file["crs"][...] = 5
    t = rng.integers(-99, 99, (11, 7, 9)).astype("i2")
    t[2], t[3, 1] = -1, -1
    file["t"][:] = t
    f = rng.standard_normal((11, 7, 9)).astype("f4")
    f[1, 2], f[5] = numpy.nan, 9.96921e36
    file["f"][:] = f
    file["big"][:] = 2**62 + numpy.arange(7)
    file["mask"][:] = rng.integers(0, 2, (7, 9))
PY
    cat >compare.py <<'PY'
import sys, warnings
import numpy, xarray, zarr
warnings.simplefilter("ignore")
name, axes = sys.argv[1], sys.argv[2].split(",")
for decoded in (False, True):
    ours = xarray.open_zarr(name, decode_cf=decoded).load()
    for other in ("in.nc", "back.nc"):
        theirs = xarray.open_dataset(other, decode_cf=decoded).load()
        assert set(ours.variables) == set(theirs.variables), (set(ours.variables), set(theirs.variables))
        for key in theirs.variables:
            a, b = ours[key], theirs[key]
            if key in ("t", "f"):
                assert other == "in.nc" or a.dims == tuple(axes) == b.dims, (key, a.dims, b.dims)
                b = b.transpose(*axes)
            assert a.dims == b.dims and (a.dtype == b.dtype or decoded), (key, a.dims, b.dims, a.dtype, b.dtype)
            numpy.testing.assert_array_equal(a.values, b.values, err_msg=key)
            assert set(a.attrs) == set(b.attrs), (key, a.attrs, b.attrs)
            for attribute, value in b.attrs.items():
                if decoded or attribute != "_FillValue":
                    numpy.testing.assert_array_equal(a.attrs[attribute], value, err_msg=f"{key}:{attribute}")
        assert set(ours.attrs) == set(theirs.attrs) and ours.attrs["title"] == "stores"
group = zarr.open_group(name, mode="r")
for key, array in group.arrays():
    numpy.testing.assert_array_equal(array[...], xarray.open_zarr(name, decode_cf=False)[key].values)
assert not any(path.endswith(".part") for path in group.store.root.rglob("*") for path in [str(path)])
print(group["f"].metadata.to_dict()["codecs"])
PY
    local number=0 codec shard order ranks
    for codec in none gzip:1 zstd:3 blosc-zstd:3 blosc-lz4 ''; do
        for shard in '' time=all,row=all; do
            number=$((number + 1))
            ranks=$((number % 3 + 1))
            order=time,row,column
            [ $((number % 4)) -ne 3 ] || order=column,time,row
            # shellcheck disable=SC2046
            run $ranks in.nc out.zarr --variables t,f --order $order --chunk time=3,row=2,column=all --progress none \
                $([ -z "$codec" ] || echo --codec $codec) $([ -z "$shard" ] || echo --shard $shard) --writers-per-node $((number % 2))
            succeeds
            run $((3 - ranks % 3)) out.zarr back.nc --progress none
            succeeds
            "$python" compare.py out.zarr $order >out 2>err || fail "$codec, $shard, $order, $ranks ranks"
            [ -z "$shard" ] || grep -qF sharding out || fail "no shards"
        done
    done
    [ "$(ls -A | grep -c part)" -eq 0 ] || fail "something was left behind"
    # A store takes the place of itself when told.
    run 2 out.zarr out.zarr/ --progress none
    [ $code -eq 2 ] && grep -qF -- '--in-place' err || fail "its input is replaced without a question"
    run 2 out.zarr out.zarr --in-place --codec gzip --progress none
    succeeds
    "$python" compare.py out.zarr $order >out 2>err && grep -qF gzip out || fail "in place"
    # Options of the other kind of file.
    for options in 'out.zarr --deflate 3' 'out.zarr --shuffle' 'out.zarr --chunk none' 'out.zarr --codec zip' 'out.nc --codec gzip' \
        'out.nc --shard time=all' 'out.zarr.zip' 'other.zarr --shard hour=3'; do
        run 1 in.nc $options --progress none
        [ $code -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] || fail "$options: exit $code"
    done
    small_disk 128
    "$BIN/graticule-make-fields" big.nc --nlat 61 --nlon 120 --levels 3 --samples 8 --progress none || fail "make-fields"
    for ranks in 1 2; do
        run $ranks big.nc disk/out.zarr --progress none
        [ $code -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] || fail "exit $code on a full disk"
        grep -qF 'disk/out.zarr cannot be written: No space left on device' err || fail "another message"
        [ -z "$(ls -A disk)" ] || fail "something was left behind"
    done
}

case_full_disk() {
    "$BIN/graticule-make-fields" in.nc --nlat 61 --nlon 120 --levels 3 --samples 8 --progress none || fail "make-fields"
    small_disk 256
    local ranks
    for ranks in 1 2; do
        run $ranks in.nc disk/out.nc --chunk latitude=5 --progress none
        fails_with 1 "disk/out.nc cannot be written: No space left on device"
        run $ranks in.nc disk/out.nc --exclude u,v,z --progress none
        succeeds
        rm disk/out.nc
    done
    run 2 "$PWD/in.nc" disk/out.nc --chunk none --dtype f64 --progress none
    fails_with 1 "disk/out.nc cannot be written: No space left on device"
    # Nobody knows how small compressed values will be, so the disk fills up under way; MPI may add a line of its own.
    run 1 in.nc disk/out.nc --deflate 1 --progress none
    fails_with 1 "disk/out.nc cannot be written: No space left on device"
    run 2 in.nc disk/out.nc --deflate 1 --progress none
    [ $code -eq 1 ] || fail "exit $code, expected 1"
    [ "$(grep -cF "disk/out.nc cannot be written: No space left on device" err)" -eq 1 ] || fail "not one message"
    [ -z "$(find disk -type f)" ] || fail "something was left behind"
    launch 2 "$BIN/graticule-make-fields" disk/fields.nc --nlat 91 --nlon 180 --progress none
    [ $code -eq 1 ] && grep -qF "disk/fields.nc cannot be written: No space left on device" err || fail "make-fields"
    [ -z "$(find disk -type f)" ] || fail "something was left behind"
}

"case_$1"
