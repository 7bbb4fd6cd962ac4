# SPDX-License-Identifier: BSD-3-Clause
"""Shards of files and of xarray's Datasets, and Datasets of shards."""
import os

import numpy as np
import torch

import graticule
from graticule import Domain
from support import COMM, RANK, RANKS, main, raises, skip
from test_zarr import Folder, dataset, on_first

try:
    import xarray as xr
except ImportError:
    xr = None


def needs_xarray():
    if xr is None:
        skip("xarray is not installed")


def rows_of(domain, extent):
    first = sum(extent // RANKS + (i < extent % RANKS) for i in range(domain.part[0]))
    return slice(first, first + extent // RANKS + (domain.part[0] < extent % RANKS))


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


def made(folder):
    """A netCDF-4 file, a store, and two files that follow each other in time."""
    def make():
        whole = dataset(xr)
        whole.attrs["title"] = "shards"
        whole.to_netcdf(os.path.join(folder, "x.nc"))
        whole.to_zarr(os.path.join(folder, "x.zarr"), zarr_format=3)
        whole.isel(time=slice(0, 3)).to_netcdf(os.path.join(folder, "part_1.nc"))
        whole.isel(time=slice(3, 8)).to_netcdf(os.path.join(folder, "part_2.nc"))
        return whole
    return on_first(make)


def test_files_stores_series_and_datasets_give_the_same_shards():
    needs_xarray()
    domain = Domain(COMM)
    with Folder() as folder:
        whole = made(folder)
        rows = rows_of(domain, 19)
        path = os.path.join(folder, "x.nc")
        for source in (path, os.path.join(folder, "x.zarr"), os.path.join(folder, "part_*.nc"), [path], whole,
                       whole.transpose("longitude", "time", "latitude"), xr.open_dataset(path)):
            shard = graticule.open_shard(source, domain)
            assert isinstance(shard, graticule.FieldShard) and sorted(shard) == ["q", "z"] and len(shard) == 2
            for name in shard:
                assert shard[name].dtype == torch.float32 and shard.dims[name] == ("time", "latitude", "longitude")
                assert same(shard[name], whole[name].values[:, rows].astype("f4")), (source, name)
            assert (shard.part.rows.lo, shard.part.rows.size, shard.part.columns.extent) == (rows.start, rows.stop - rows.start, 36)
            data = graticule.to_dataset(shard)
            assert same(data.latitude, whole.latitude[rows]) and same(data.time, whole.time) and same(data.longitude, whole.longitude)
            assert data.z.attrs["units"] == "m" and data.attrs["title"] == "shards"
            gathered = graticule.to_dataset(shard, whole=True)
            assert same(gathered.z, whole.z) and same(gathered.latitude, whole.latitude) and same(gathered.time, whole.time)
            assert f"rows {rows.start}" in repr(shard)
        assert graticule.whole_field(shard["z"], domain).shape == (8, 19, 36)


def test_axes_are_found_by_coordinates_of_other_names():
    """`lat(nj)` and `lon(ni)`, and degrees of no direction."""
    needs_xarray()
    domain = Domain(COMM)
    with Folder() as folder:
        def make():
            whole = dataset(xr)
            values = {"z": (("time", "nj", "ni"), whole.z.values)}
            places = {"lat": ("nj", whole.latitude.values, {"units": "degrees_north"}), "lon": ("ni", whole.longitude.values, {"units": "degrees_east"})}
            xr.Dataset(values, places).to_netcdf(os.path.join(folder, "auxiliary.nc"))
            degrees = whole.rename(latitude="lat", longitude="lon")
            degrees.lat.attrs, degrees.lon.attrs = {"units": "degrees"}, {"units": "degrees"}
            degrees.to_netcdf(os.path.join(folder, "degrees.nc"))
            cells = {"lat": ("cell", np.zeros(4), {"units": "degrees_north"}), "lon": ("cell", np.zeros(4), {"units": "degrees_east"})}
            xr.Dataset({"z": (("time", "cell"), np.zeros((2, 4)))}, cells).to_netcdf(os.path.join(folder, "cells.nc"))
            return whole
        whole = on_first(make)
        for name in ("auxiliary", "degrees"):
            path = os.path.join(folder, f"{name}.nc")
            for source in (path, xr.open_dataset(path)):
                shard = graticule.open_shard(source, domain, "z")
                assert same(shard["z"], whole.z.values[:, rows_of(domain, 19)].astype("f4")), (name, source)
                gathered = graticule.to_dataset(shard, whole=True)
                assert same(gathered.lat, whole.latitude) and same(gathered.lon, whole.longitude), (name, source)
        path = os.path.join(folder, "cells.nc")
        for source in (path, xr.open_dataset(path)):
            raises("MissingVariable", lambda: graticule.open_shard(source, domain, "z"), "has no axes of latitude and longitude")


def test_groups_have_axes_of_their_own():
    needs_xarray()
    domain = Domain(COMM)
    with Folder() as folder:
        path = os.path.join(folder, "groups.zarr")

        def make():
            whole = dataset(xr).isel(time=0, drop=True)
            plain = xr.Dataset({"z": (("lat", "lon"), whole.z.values)}, {"lat": whole.latitude.values, "lon": whole.longitude.values})
            plain.to_zarr(path, group="low/surface", zarr_format=3)
            return whole
        whole = on_first(make)
        shard = graticule.open_shard(path, domain, "low/surface/z")
        assert same(shard["low/surface/z"], whole.z.values[rows_of(domain, 19)].astype("f4"))


def test_objects_that_are_no_files_say_what_helps():
    needs_xarray()
    domain = Domain(COMM)
    data = dataset(xr)
    for action, text in ((lambda: graticule.open_shard([data, data], domain), "xarray.concat"),
                         (lambda: graticule.open_samples(data, domain, ["z"]), "data.to_zarr")):
        try:
            action()
        except TypeError as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)


def test_chosen_cells_and_cuts():
    needs_xarray()
    domain = Domain(COMM)
    with Folder() as folder:
        whole = made(folder)
        cut = [19 - RANKS + 1] + [1] * (RANKS - 1)
        rows = slice(sum(cut[:RANK]), sum(cut[:RANK + 1]))
        for source in (os.path.join(folder, "x.zarr"), whole):
            shard = graticule.open_shard(source, domain, "z", select={"time": slice(1, 7, 2)}, rows=cut, dtype=torch.float64)
            assert shard["z"].dtype == torch.float64 and same(shard["z"], whole.z.values[1:7:2, rows])
            assert same(graticule.to_dataset(shard).time, whole.time[1:7:2])
            shard = graticule.open_shard(source, domain, ["q"], select={"time": -1})
            assert shard.dims["q"] == ("latitude", "longitude") and same(shard["q"], whole.q.values[-1, rows_of(domain, 19)].astype("f4"))
            # The output of a network, with more axes and fewer.
            fields = {"q": shard["q"] * 2, "forecast": torch.stack([shard["q"]] * 3)}
            data = graticule.to_dataset(shard, fields, whole=True)
            assert same(data.q, whole.q.values[-1].astype("f4") * 2) and data.forecast.dims == ("forecast_0", "latitude", "longitude")


def test_accessors_and_columns():
    needs_xarray()
    import graticule.xarray  # noqa: F401
    domain = Domain(COMM, grid=(1, RANKS))
    whole = dataset(xr)
    shard = whole.graticule.shard(domain, ["z"])
    first = sum(36 // RANKS + (i < 36 % RANKS) for i in range(RANK))
    assert same(shard["z"], whole.z.values[:, :, first:first + shard.part.columns.size])
    assert same(whole.z.graticule.shard(domain)["z"], shard["z"])
    assert same(graticule.to_dataset(shard, whole=True).longitude, whole.longitude)
    # A mask over both axes, and a coordinate without axes.
    whole = whole.assign_coords(mask=(("latitude", "longitude"), np.arange(19 * 36).reshape(19, 36)), number=3)
    data = graticule.to_dataset(graticule.open_shard(whole, domain, "z"), whole=True)
    assert same(data.mask, whole.mask) and data.number == 3


def test_each_rank_loads_its_own_rows_only():
    needs_xarray()
    from xarray.backends import BackendArray
    from xarray.core import indexing
    loaded = []

    class Recorded(BackendArray):
        shape, dtype = (4, 19, 36), np.dtype("f4")

        def __getitem__(self, key):
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self.load)

        def load(self, key):
            values = np.zeros(self.shape, "f4")[key]
            loaded.append(values.size)
            return values

    lazy = xr.Variable(("time", "lat", "lon"), indexing.LazilyIndexedArray(Recorded()))
    domain = Domain(COMM)
    shard = graticule.open_shard(xr.Dataset({"t": lazy}), domain, select={"time": 2})
    assert loaded == [shard["t"].numel()] == [shard.part.rows.size * 36]


def test_an_error_of_one_rank_is_that_of_all():
    needs_xarray()
    domain = Domain(COMM)
    whole = dataset(xr)
    raises("MissingVariable", lambda: graticule.open_shard(whole, domain, "t"), "'t'", "z, q")
    raises("MissingVariable", lambda: graticule.open_shard(whole.isel(latitude=0), domain), "latitude and longitude")
    raises("MissingVariable", lambda: graticule.open_shard(whole.isel(longitude=0), domain, "z"), "z(time, latitude)")
    raises("BadCuts", lambda: graticule.open_shard(whole, domain, rows=[19] * (RANKS + 1)), "rows")
    raises("BadOption", lambda: graticule.open_shard(whole, domain, select={"level": 1}), "level", "time")
    raises("BadOption", lambda: graticule.open_shard(whole, domain, select={"latitude": 1}), "cut over the ranks")
    raises("OutOfRange", lambda: graticule.open_shard(whole, domain, select={"time": 8}), "8 cells")
    raises("NoSuchFile", lambda: graticule.open_shard("/nowhere/x.nc", domain), "/nowhere/x.nc")
    last = whole if RANK < RANKS - 1 else whole.drop_vars("z")
    raises("MissingVariable", lambda: graticule.open_shard(last, domain, "z"), "z")
    raises("ShapeMismatch", lambda: graticule.to_dataset(graticule.open_shard(whole, domain, "z"), {"z": torch.zeros(2, 5)}), "(2, 5)")


def test_ranks_that_ask_for_different_fields_are_told():
    needs_xarray()
    domain = Domain(COMM)
    if RANKS == 1:
        return
    cut, other = [19 - RANKS + 1] + [1] * (RANKS - 1), [1] * (RANKS - 1) + [19 - RANKS + 1]
    with Folder() as folder:
        whole = made(folder)
        for source in (os.path.join(folder, "x.zarr"), whole):
            for names, options in (("z" if RANK == 0 else "q", {}), ("z", {"select": {"time": min(RANK, 1)}}), ("z", {"rows": cut if RANK == 0 else other}),
                                   ("z", {"dtype": torch.float64 if RANK == 0 else torch.float32})):
                raises("ArgumentDisagreement", lambda: graticule.open_shard(source, domain, names, **options), "open_shard of ")
        raises("ArgumentDisagreement", lambda: graticule.open_shard(whole.isel(time=slice(8 - (RANK == 0))), domain, "z"), "(7, 19, 36)", "(8, 19, 36)")


def test_sources_that_differ_on_one_rank_are_told():
    needs_xarray()
    domain = Domain(COMM)
    if RANKS == 1:
        return
    whole = dataset(xr)
    last = RANK == RANKS - 1
    moved = whole.longitude.values.copy()
    moved[18] += 0.5
    bare = whole.drop_vars("latitude").rename(latitude="lat")
    others = {
        "latitude": whole.isel(latitude=slice(None, None, -1)),
        "longitude": whole.assign_coords(longitude=("longitude", moved, whole.longitude.attrs)),
        "time": whole.assign_coords(time=whole.time.values + np.timedelta64(1, "h") if whole.time.dtype.kind == "M" else whole.time.values + 1),
        "z with": whole.assign(z=whole.z.assign_attrs(units="cm")),
        "scale_factor 2": whole.assign(z=whole.z.assign_attrs(scale_factor=2.0)),
    }
    for text, other in others.items():
        raises("ArgumentDisagreement", lambda: graticule.open_shard(other if last else whole, domain, "z"), text)
    raises("ArgumentDisagreement", lambda: graticule.open_shard((whole.z.isel(latitude=slice(None, None, -1)) if last else whole.z), domain), "latitude")
    raises("ArgumentDisagreement", lambda: graticule.open_shard(bare.assign_coords(lat=whole.latitude.values) if last else bare, domain, "z"), "lat")
    with Folder() as folder:
        on_first(lambda: (whole.to_netcdf(os.path.join(folder, "x.nc")), whole.isel(latitude=slice(None, None, -1)).to_netcdf(os.path.join(folder, "y.nc"))))
        raises("ArgumentDisagreement", lambda: graticule.open_shard(os.path.join(folder, "x.nc") if last else whole, domain, "z"), "files", "xarray")
        raises("BadInput", lambda: graticule.open_shard(os.path.join(folder, "x.nc" if last else "y.nc"), domain, "z"), "not the same file")
    assert same(graticule.open_shard(whole, domain, "z")["z"], whole.z.values[:, rows_of(domain, 19)].astype("f4"))  # and later calls agree


def test_fields_of_16_bits():
    needs_xarray()
    domain = Domain(COMM)
    shard = graticule.open_shard(dataset(xr), domain, "z")
    for whole in (False, True):
        data = graticule.to_dataset(shard, {"z": shard["z"].bfloat16()}, whole=whole)
        assert data.z.dtype == np.float32 and np.allclose(data.z, graticule.to_dataset(shard, whole=whole).z, rtol=1e-2, atol=1e-2, equal_nan=True)


def test_grib_by_cfgrib():
    needs_xarray()

    def make():
        import cfgrib  # noqa: F401, what reads it
        import eccodes
        values = 280 + dataset(xr).z.fillna(0).values
        with open(os.path.join(folder, "x.grib"), "wb") as file:
            for step, field in enumerate(values):
                message = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
                for key, value in dict(Ni=36, Nj=19, iDirectionIncrementInDegrees=10, jDirectionIncrementInDegrees=10,
                                       latitudeOfFirstGridPointInDegrees=90, latitudeOfLastGridPointInDegrees=-90, longitudeOfFirstGridPointInDegrees=0,
                                       longitudeOfLastGridPointInDegrees=350, shortName="t", level=500, dataDate=20200101, dataTime=100 * step).items():
                    eccodes.codes_set(message, key, value)
                eccodes.codes_set_values(message, field.astype("f8").ravel())
                eccodes.codes_write(message, file)
                eccodes.codes_release(message)
        return values

    with Folder() as folder:
        values = on_first(make)
        domain = Domain(COMM)
        path = os.path.join(folder, "x.grib")
        raises("UnsupportedFile", lambda: graticule.open_shard(path, domain), "is a GRIB file", "graticule.open_shard", "cfgrib")
        with xr.open_dataset(path, engine="cfgrib", backend_kwargs={"indexpath": ""}) as data:
            shard = graticule.open_shard(data, domain)
        rows = rows_of(domain, 19)
        assert np.allclose(shard["t"].numpy(), values[:, rows], atol=1e-3)
        data = graticule.to_dataset(shard, whole=True)
        assert data.t.attrs["units"] == "K" and data.latitude.size == 19 and float(data.isobaricInhPa) == 500


if __name__ == "__main__":
    main(globals())
