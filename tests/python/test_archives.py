# SPDX-License-Identifier: BSD-3-Clause
"""Files and stores in a hundred ways each in which people have them, cell by cell against netCDF4, xarray and cftime (make_*.py)."""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

# Plugins of netCDF4 for HDF5, whose folder HDF5 looks up when it starts.
NETCDF4 = importlib.util.find_spec("netCDF4")
PLUGINS = os.path.join(NETCDF4.submodule_search_locations[0], "plugins") if NETCDF4 else ""
if os.path.isdir(PLUGINS):
    os.environ["HDF5_PLUGIN_PATH"] = PLUGINS

import numpy as np
from support import COMM, RANK, RANKS, main, skip

from graticule import engine as e

SEED = int(os.environ.get("GRATICULE_ARCHIVE_SEED", "1"))
COUNT = int(os.environ.get("GRATICULE_ARCHIVE_COUNT", "120"))


def make(folder, name="make_archives.py"):
    """A process of its own, whose HDF5 is another one. Returns its error text."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    made = subprocess.run([sys.executable, script, folder, str(SEED), str(COUNT)], capture_output=True, text=True)
    return made.stderr if made.returncode else ""


def check(comm, one):
    expected = np.load(one["expected"])
    whole = expected["z"]
    files = one["files"]
    with (e.File.open(comm, files[0]) if len(files) == 1 else e.File.open_series(comm, files)) as file:
        assert list(file.extents("z")) == list(whole.shape), one["text"]
        # Each rank reads its own part of the first axis, and all cells of the others; rank 0 reads all, too.
        lower, upper = [0] * whole.ndim, list(whole.shape)
        if RANK > 0:
            lower[0] = min(RANK - 1, upper[0] - 1)
        values = np.zeros([b - a for a, b in zip(lower, upper)])
        file.read("z", lower, upper, values)
        wanted = whole[lower[0]:upper[0]]
        assert np.array_equal(np.isnan(values), np.isnan(wanted)), one["text"]
        known = ~np.isnan(wanted)
        assert np.allclose(values[known], wanted[known], rtol=1e-12, atol=0), one["text"]
        dates = expected["dates"]
        assert file.calendar(one["time"]) == one["calendar"], one["text"]
        times = file.times(one["time"], len(dates))
        assert [list(e.date_of_time(one["calendar"], int(t))) for t in times] == dates.tolist(), one["text"]
        assert [e.time_of_date(one["calendar"], *map(int, d)) for d in dates] == list(times), one["text"]
        for axis in ("lat", "lon"):
            assert np.array_equal(file.coordinate(one[axis], len(expected[axis])), expected[axis]), one["text"]


def made_by(script):
    """A folder of files that all ranks see."""
    missing = [name for name in ("netCDF4", "xarray", "cftime", "zarr") if importlib.util.find_spec(name) is None]
    if missing:
        skip(f"{', '.join(missing)} of Python is not installed")
    folder = COMM.bcast(tempfile.mkdtemp(prefix="graticule-archives-") if RANK == 0 else None)
    problem = COMM.bcast(make(folder, script) if RANK == 0 else None)
    assert not problem, problem
    return folder


def test_variations():
    folder = made_by("make_archives.py")
    comm = e.Comm.create(COMM)
    with open(os.path.join(folder, "variations.json")) as file:
        variations = json.load(file)
    assert len(variations) == COUNT and len({one["calendar"] for one in variations}) == 6
    assert not os.path.isdir(PLUGINS) or any("zstd" in one["text"] for one in variations)
    for one in variations:
        check(comm, one)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def check_odd(comm, one):
    expected = np.load(one["expected"])
    wanted = expected["values"]
    with e.File.open(comm, one["file"]) as file:
        assert list(file.extents(one["name"])) == list(wanted.shape), one["text"]
        values = np.zeros(wanted.shape)
        file.read(one["name"], [0] * wanted.ndim, list(wanted.shape), values)
        assert np.array_equal(np.isnan(values), np.isnan(wanted)), one["text"]
        known = ~np.isnan(wanted)
        assert np.allclose(values[known], wanted[known], rtol=1e-6, atol=0), one["text"]  # netCDF4 scales in f32
        times = file.times("time", 3)
        assert [list(e.date_of_time(file.calendar("time"), int(t))) for t in times] == expected["dates"].tolist(), one["text"]


def test_odd_variables():
    folder = made_by("make_odd_variables.py")
    comm = e.Comm.create(COMM)
    with open(os.path.join(folder, "variables.json")) as file:
        variables = json.load(file)
    assert len(variables) == COUNT and all(any(f"'{note}'" in one["text"] for one in variables) for note in ("unsigned", "signed"))
    for one in variables:
        check_odd(comm, one)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def test_odd_stores():
    folder = made_by("make_odd_stores.py")
    comm = e.Comm.create(COMM)
    with open(os.path.join(folder, "stores.json")) as file:
        stores = json.load(file)
    assert len(stores) > COUNT
    for words in (("_Unsigned",), ("fixedscaleoffset",), ("sharding_indexed",), ("coarse", "fine/inner")):
        assert any(all(word in one["text"] + str(one["names"]) for word in words) for one in stores), words
    for one in stores:
        expected = np.load(one["expected"])
        with e.File.open(comm, one["store"]) as file:
            for name in one["names"]:
                wanted = expected[name.replace("/", "|")]
                assert list(file.extents(name)) == list(wanted.shape), one["text"]
                # Rank 0 reads all cells, each other rank its part of the first axis.
                lower, upper = [0] * wanted.ndim, list(wanted.shape)
                if RANK > 0 and wanted.ndim:
                    lower[0] = min(RANK - 1, upper[0] - 1)
                values = np.zeros([b - a for a, b in zip(lower, upper)])
                file.read(name, lower, upper, values)
                wanted = wanted[tuple(slice(a, b) for a, b in zip(lower, upper))]
                assert np.array_equal(np.isnan(values), np.isnan(wanted)), (name, one["text"])
                known = ~np.isnan(wanted)
                tolerance = 2e-3 if "float16" in one["text"] or "<f2" in one["text"] else 1e-6  # the types that xarray computes in
                assert np.allclose(values[known], wanted[known], rtol=tolerance, atol=tolerance), (name, one["text"])
            if len(one["names"]) > 3:
                # Each group has axes of its own length, rounded where a filter does that.
                for group in ("", "coarse/", "fine/inner/"):
                    assert abs(file.coordinate(group + "lon", file.extents(group + "lon")[0])[0] - 5) < 1, one["text"]
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


main(globals())
