#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The first commands of docs/inputs.md, on a store as xarray writes ERA5 and files of a CMIP model. The environment names the folder of
# the programs (BIN), the launcher (MPIEXEC), and a Python with xarray, zarr and netCDF4 (GRATICULE_TEST_PYTHON).
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"
python=${GRATICULE_TEST_PYTHON:-python3}
[ -x "$python" ] || python=python3
"$python" -c 'import xarray, zarr, netCDF4, cftime' 2>/dev/null || skip "$python has no xarray with zarr and netCDF4"
page=$(dirname "${BASH_SOURCE[0]}")/../../docs/inputs.md
page=$(realpath "$page")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
"$python" - <<'PY' || exit 1
import warnings
import cftime, netCDF4, numcodecs, numpy, xarray
warnings.simplefilter("ignore")
random = numpy.random.default_rng(1)
times = numpy.datetime64("2020-01-01T00", "ns") + numpy.arange(24) * numpy.timedelta64(6, "h")
axes = {"latitude": ("latitude", numpy.linspace(90, -90, 19), {"units": "degrees_north"}),
        "longitude": ("longitude", numpy.arange(36) * 10.0, {"units": "degrees_east"})}
z = random.standard_normal((24, 19, 36)).cumsum(0).astype("f4")
xarray.Dataset({"z": (("time", "latitude", "longitude"), z, {"units": "m**2 s**-2", "standard_name": "geopotential"})}, {"time": times, **axes}).to_zarr(
    "era5.zarr", zarr_format=2, encoding={"z": {"chunks": (1, 19, 36), "compressors": numcodecs.Blosc("lz4", 5)}})
for year, days in ((2001, 59), (2002, 59)):
    with netCDF4.Dataset(f"ta_day_{year}.nc", "w") as file:
        for name, extent in (("time", None), ("lat", 19), ("lon", 36), ("bnds", 2)):
            file.createDimension(name, extent)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": f"days since {year}-01-01", "calendar": "365_day", "bounds": "time_bnds", "axis": "T"})
        time[:] = numpy.arange(days if year == 2002 else 365) + 0.5
        count = len(time[:])
        file.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = numpy.stack([numpy.arange(count), numpy.arange(count) + 1.0], 1)
        for name, values, units in (("lat", numpy.linspace(-90, 90, 19), "degrees_north"), ("lon", numpy.arange(36) * 10.0, "degrees_east")):
            variable = file.createVariable(name, "f8", (name,))
            variable.units = units
            variable[:] = values
        field = file.createVariable("ta", "f4", ("time", "lat", "lon"), fill_value=numpy.float32(1e20), zlib=True, shuffle=True, chunksizes=(1, 19, 36))
        field.setncatts({"units": "K", "missing_value": numpy.float32(1e20), "cell_methods": "time: mean"})
        field[:] = 250 + random.standard_normal((count, 19, 36))
PY
commands=$(sed -n '/^```sh$/,/^```$/p' "$page" | grep -v '^```')
[ "$(wc -l <<<"$commands")" -ge 7 ] || { echo "the page lacks its commands"; exit 1; }
PATH=$BIN:$PATH
# shellcheck disable=SC2086
mpiexec() { shift 2; command $MPIEXEC 2 "$@"; }
while read -r line; do
    echo "+ $line"
    # The page's commands are meant to be typed.
    eval "$line" >out 2>&1 </dev/null || { cat out; exit 1; }
    ! grep -qi 'warning' out || { cat out; exit 1; }
done <<<"$commands"
"$python" - <<'PY' || exit 1
import xarray
first, second, third = xarray.open_zarr("era5.zarr").load(), xarray.open_dataset("era5.nc").load(), xarray.open_zarr("rewritten.zarr").load()
assert first.equals(second) and first.equals(third), (first, second, third)
assert third.z.encoding["shards"] == (8, 20, 36) and third.z.encoding["chunks"] == (1, 10, 36), third.z.encoding
PY
