# SPDX-License-Identifier: BSD-3-Clause
"""Samples of files: what xarray reads of them, on this rank's rows, in the same batches on any number of ranks."""
import datetime
import os

import numpy as np
import torch
from torch.utils.data import DataLoader

import graticule
from graticule import Domain
from support import COMM, RANK, RANKS, main, raises, skip, uneven
from test_zarr import Folder, on_first

try:
    import xarray as xr
except ImportError:
    xr = None


def data_of(num_times=12, hole=False):
    """t(time, level, latitude, longitude) and sst(time, latitude, longitude), with land and packed."""
    rng = np.random.default_rng(3)
    times = np.datetime64("2000-01-01", "ns") + np.arange(num_times) * np.timedelta64(6, "h")
    land = np.zeros((19, 36), bool)
    land[4:9, 3:7] = True
    sst = 290 + 5 * rng.standard_normal((num_times, 19, 36))
    sst[:, land] = np.nan
    data = xr.Dataset({"t": (("time", "level", "latitude", "longitude"), (250 + 10 * rng.standard_normal((num_times, 2, 19, 36))).astype("f4")),
                       "sst": (("time", "latitude", "longitude"), sst)},
                      {"time": times, "level": ("level", [500, 850], {"units": "hPa"}),
                       "latitude": ("latitude", 90 - 10.0 * np.arange(19), {"units": "degrees_north"}),
                       "longitude": ("longitude", 10.0 * np.arange(36), {"units": "degrees_east"})})
    return data.drop_isel(time=4) if hole else data


def made(folder, hole=False):
    def make():
        data = data_of(hole=hole)
        packed = {"sst": {"dtype": "i2", "scale_factor": 0.001, "add_offset": 290.0, "_FillValue": -32768}}
        for name, part in (("x.nc", data), ("part_1.nc", data.isel(time=slice(0, 5))), ("part_2.nc", data.isel(time=slice(5, None)))):
            part.to_netcdf(os.path.join(folder, name), encoding=packed)
        data.to_zarr(os.path.join(folder, "x.zarr"), zarr_format=3, encoding={"t": {"chunks": (1, 2, 19, 36)}, "sst": {"chunks": (2, 10, 36)}})
        return xr.open_dataset(os.path.join(folder, "x.nc")).load(), data
    if xr is None:
        skip("xarray is not installed")
    return on_first(make)


def channels(data, names, time):
    """[channel][row][column] of the globe, by xarray."""
    return np.concatenate([np.atleast_3d(data[name].values[time].T).T.reshape(-1, 19, 36) for name in names]).astype("f4")


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


def rows_of(samples):
    return slice(samples.part.rows.lo, samples.part.rows.lo + samples.part.rows.size)


def test_files_stores_and_series_give_what_xarray_reads():
    domain = Domain(COMM)
    with Folder() as folder:
        packed, plain = made(folder)
        parts = [os.path.join(folder, f"part_{i}.nc") for i in (1, 2)]
        for files, data in ((os.path.join(folder, "x.nc"), packed), (os.path.join(folder, "x.zarr"), plain),
                            (os.path.join(folder, "part_*.nc"), packed), (parts, packed)):
            for cut in (None, uneven(19)):
                samples = graticule.open_samples(files, domain, ["t", "sst"], "sst", lead="6h", history=2, steps=3, batch_size=3, rows=cut)
                assert isinstance(samples, graticule.SampleDataset) and isinstance(samples, torch.utils.data.IterableDataset)
                assert (len(samples), samples.num_samples) == (3, 8)
                assert samples.channels == ["t 500 hPa", "t 850 hPa", "sst"] and samples.target_channels == ["sst"]
                assert same(samples.latitudes, data.latitude) and same(samples.longitudes, data.longitude)
                assert cut is None or samples.part.rows.size == cut[domain.part[0]]
                rows, first = rows_of(samples), 1
                for number, (x, y) in enumerate(samples):
                    assert x.shape[1:3] == (2, 3) and y.shape[1:3] == (3, 1) and x.dtype == torch.float32
                    for i in range(x.shape[0]):
                        for k in (0, 1):
                            assert same(x[i, k], channels(data, ["t", "sst"], first - 1 + k)[:, rows]), (files, first, k)
                        for k in range(3):
                            assert same(y[i, k], channels(data, ["sst"], first + 1 + k)[:, rows])
                        assert samples.times(0, number)[i] == str(data.time.values[first])[:16].replace("T", " ")
                        first += 1
                assert first == 9


def test_loader_shuffles_alike_on_all_ranks_and_goes_on_from_a_state():
    domain = Domain(COMM)
    with Folder() as folder:
        made(folder)
        path = os.path.join(folder, "x.zarr")

        def opened(comm_domain=domain, **options):
            return graticule.open_samples(path, comm_domain, "t", batch_size=options.pop("batch_size", 2), shuffle=True, seed=5, **options)

        samples, alone = opened(), opened(Domain(COMM.Split(RANK)))
        rows = rows_of(samples)
        epochs = []
        for epoch in (0, 1):
            assert samples.epoch == epoch
            epochs.append([x for x, _ in samples])
            for (x, y), (whole_x, whole_y) in zip(zip(epochs[-1], [y for _, y in opened_at(opened(), epoch)]), opened_at(alone, epoch)):
                assert same(x, whole_x[..., rows, :]) and same(y, whole_y[..., rows, :])
        assert not all(same(a, b) for a, b in zip(*epochs))
        assert len({x.double().sum().item() for x in torch.cat(epochs[0])}) == 11
        # Single samples, collated by the loader.
        loader = DataLoader(opened(batch_size=None), batch_size=2, num_workers=0)
        assert len(loader) == 6
        for _ in range(2):
            for x, _ in loader:
                pass
        loader = DataLoader(opened(batch_size=None), batch_size=2)
        for a, (x, _) in zip(epochs[0], loader):
            assert same(a, x)
        # Stopped in the middle of the second epoch.
        first = opened()
        list(first)
        loop = iter(first)
        next(loop), next(loop)
        state = first.state_dict()
        assert state == {"epoch": 1, "position": 4, "num_samples": 11, "shuffle": True, "seed": 5}
        later = opened()
        later.load_state_dict(state)
        assert all(same(x, a) for (x, _), a in zip(later, epochs[1][2:])) and later.epoch == 2
        # A loop that is left early ends its epoch; the other loop says so.
        left = opened()
        loop = iter(left)
        next(loop)
        assert same(next(iter(left))[0], epochs[1][0])
        raises("WrongState", lambda: next(loop), "epoch 0")
        left.set_epoch(0)
        assert same(next(iter(left))[0], epochs[0][0])
        raises("StateMismatch", lambda: opened().load_state_dict({**state, "seed": 6}), "seed")
        raises("BadOption", lambda: left.set_epoch(-1), "-1")


def opened_at(samples, epoch):
    samples.set_epoch(epoch)
    return samples


def test_data_teams_share_batches():
    alone = Domain(COMM.Split(RANK))
    with Folder() as folder:
        made(folder)
        path = os.path.join(folder, "x.nc")
        shared = graticule.open_samples(path, alone, "t", batch_size=1, shuffle=True, data_team=COMM)
        whole = graticule.open_samples(path, alone, "t", batch_size=RANKS, shuffle=True)
        assert len(shared) == 11 // RANKS
        for (x, _), (batch, _) in zip(shared, whole):
            assert same(x[0], batch[RANK])
        state = shared.state_dict()
        assert state["epoch"] == 1 and state["position"] == 0
        loop = iter(shared)
        next(loop)
        whole.load_state_dict(shared.state_dict())
        assert shared.state_dict()["position"] == RANKS and same(next(iter(whole))[0][RANK], next(loop)[0][0])


def test_scaling_and_missing_cells():
    domain = Domain(COMM)
    with Folder() as folder:
        packed, _ = made(folder)
        path = os.path.join(folder, "x.nc")
        samples = graticule.open_samples(path, domain, ["t", "sst"], lead=0, scaling="standard", missing="mean", dtype=torch.float64)
        rows = rows_of(samples)
        area = np.broadcast_to(np.asarray(graticule.engine.area_weights(samples.latitudes))[:, None], (19, 36))
        mean, deviation = samples.scaling["t"]
        for level in (0, 1):
            values = packed.t.values[:, level].astype("f8")
            expected = np.average(values, weights=np.broadcast_to(area, values.shape))
            assert abs(mean[level] - expected) < 1e-9 * abs(expected)
        for time, (x, y) in enumerate(samples):
            for level in (0, 1):
                expected = (packed.t.values[time, level, rows].astype("f8") - mean[level]) / deviation[level]
                assert np.allclose(x[level], expected, rtol=0, atol=1e-12)
            land = np.isnan(packed.sst.values[time, rows])
            assert same(x[2].numpy()[land], np.zeros(land.sum())) and torch.isnan(y[2]).numpy()[land].all()
            assert torch.isnan(x).sum() == 0
        again = graticule.open_samples(path, domain, "sst", scaling={"sst": samples.scaling["sst"]}, times="2000-01-02", lead=datetime.timedelta(hours=12))
        assert again.scaling == {"sst": samples.scaling["sst"]} and again.num_samples == 2
        numbers = graticule.open_samples(path, domain, "sst", lead=0, scaling={"sst": (290, 5)}, dtype=torch.float64)
        expected = ((packed.sst.values[0, rows].astype("f8") - 290) / 5)
        assert np.allclose(next(iter(numbers))[0][0], expected, rtol=0, atol=1e-12, equal_nan=True)
        refused = graticule.open_samples(path, domain, "sst", missing="refuse")
        raises("BadInput", lambda: next(iter(refused)), "x.nc", "sst", "2000-01-01", "50 N 30 E")


def test_forcings_and_whole_batches():
    domain = Domain(COMM)
    with Folder() as folder:
        made(folder)
        path = os.path.join(folder, "x.nc")
        samples = graticule.open_samples(path, domain, "sst", batch_size=4, drop_last=True, forcings=["time_of_day", "time_of_year"], dtype=torch.float64)
        names = ["sst", "sin_local_time", "cos_local_time", "sin_utc", "cos_utc", "sin_year", "cos_year"]
        assert samples.channels == names and samples.target_channels == ["sst"]
        assert samples.num_samples == 11 and len(samples) == 2
        batches = list(samples)
        assert [x.shape[:2] for x, _ in batches] == [(4, 7), (4, 7)] and all(y.shape[1] == 1 for _, y in batches)
        utc = torch.cat([x[:, 3:5] for x, _ in batches])
        angle = torch.arange(8, dtype=torch.float64) / 4 * 2 * np.pi
        if utc.numel():
            assert torch.allclose(utc[:, 0, 0, 0], angle.sin(), atol=1e-12) and torch.allclose(utc[:, 1, 0, 0], angle.cos(), atol=1e-12)
        plain = graticule.open_samples(path, domain, "sst", batch_size=4, dtype=torch.float64)
        assert len(plain) == 3 and same(next(iter(plain))[0], batches[0][0][:, :1])
        raises("BadOption", lambda: graticule.open_samples(path, domain, "t", batch_size=12, drop_last=True), "batch_size", "11")
        raises("BadOption", lambda: graticule.open_samples(path, domain, "t", forcings="moonlight"), "moonlight")


def test_gaps_in_time_and_the_rows_that_are_read():
    domain = Domain(COMM)
    with Folder() as folder:
        made(folder, hole=True)
        samples = graticule.open_samples(os.path.join(folder, "x.zarr"), domain, "t", memory=0)
        assert samples.num_samples == 9
        assert [samples.times(0, i)[0] for i in range(9) if samples.times(0, i)[0].startswith("2000-01-02")][0] == "2000-01-02 06:00"
        list(samples)
        # Two states per sample, and the first one of the next epoch; the store has whole chunks, which are unpacked in parts.
        cells = samples.part.rows.size * 36
        assert samples.bytes_read == 10 * 2 * 2 * cells * 4, (samples.bytes_read, cells)


def test_errors_name_option_variable_and_file_on_all_ranks():
    domain = Domain(COMM)
    with Folder() as folder:
        made(folder)
        path = os.path.join(folder, "x.nc")

        def opened(*arguments, **options):
            return lambda: graticule.open_samples(path, domain, *arguments, **options)

        raises("MissingVariable", opened("z"), "z", "x.nc")
        raises("NoSuchFile", lambda: graticule.open_samples("/nowhere/*.nc", domain, "t"), "/nowhere")
        raises("BadOption", opened([]), "inputs")
        raises("BadOption", opened("t", lead="5h"), "5 h")
        raises("BadOption", opened("t", lead=-1), "-1")
        raises("BadOption", opened("t", lead=datetime.timedelta(hours=-6)), "lead")
        raises("BadOption", opened("t", history=0), "history", "0")
        raises("BadOption", opened("t", missing="zero"), "missing", "zero")
        raises("BadOption", opened("t", missing="mean"), "t", "scaling")
        raises("BadOption", opened("t", scaling="minmax"), "minmax")
        raises("BadOption", opened("t", scaling={"t": 3}), "'t'", "3")
        raises("BadOption", opened("t", scaling={"z": (0, 1)}), "z")
        raises("BadOption", opened("t", dtype=torch.float16), "float16")
        raises("BadOption", opened("t", times="2010..2011"), "2010..2011", "2000-01-01")
        raises("BadOption", opened("t", times="soon"), "times", "soon")
        raises("BadCuts", opened("t", rows=[19] * (RANKS + 1)), "rows")
        if RANKS > 1:
            raises("ArgumentDisagreement", opened("t", seed=RANK), "seed")

        loader = DataLoader(opened("t")(), batch_size=2, num_workers=1)
        try:
            next(iter(loader))
        except RuntimeError as error:
            assert "num_workers must be 0, got 1" in str(error), error
        else:
            raise AssertionError("workers read samples")


if __name__ == "__main__":
    main(globals())
