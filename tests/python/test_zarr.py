# SPDX-License-Identifier: BSD-3-Clause
"""Zarr stores that zarr-python and xarray have written, read by the engine: every cell of random boxes."""
import json
import math
import os
import random
import re
import shutil
import tempfile
import warnings

import numpy as np
from mpi4py import MPI

import graticule
from graticule import engine
from support import RANK, main, raises, skip

COMM = MPI.COMM_WORLD
SEED = int(os.environ.get("GRATICULE_TEST_SEED", "1"))
COUNT = int(os.environ.get("GRATICULE_TEST_ARRAYS", "120"))


class Folder:
    """A folder of all ranks, removed at the end."""

    def __enter__(self):
        self.path = COMM.bcast(tempfile.mkdtemp(prefix="graticule-zarr-") if RANK == 0 else None)
        return self.path

    def __exit__(self, *_):
        COMM.barrier()
        if RANK == 0:
            shutil.rmtree(self.path, ignore_errors=True)


def on_first(make):
    """The result of rank 0; a test is skipped on all ranks where a package is missing."""
    result = None
    if RANK == 0:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = ("made", make())
        except ImportError as error:
            result = ("lacks", str(error))
    kind, value = COMM.bcast(result)
    if kind == "lacks":
        skip(value)
    return value


def read(file, name, lower, upper):
    field = np.full([b - a for a, b in zip(lower, upper)], -1.0)
    file.read(name, lower, upper, field)
    return field


def test_random_arrays_of_zarr_python():
    def make():
        import zarr_stores
        return zarr_stores.make(folder, SEED, COUNT)

    with Folder() as folder:
        pick = random.Random(100 + RANK)
        for number, (path, values, texts) in enumerate(on_first(make)):
            os.environ["GRATICULE_READ_THREADS"] = str(1 + number % 3)
            file = engine.File.open(engine.Comm.create(COMM), path)
            assert {file.variable_name(i) for i in range(file.num_variables())} == set(values), path
            for name, whole in values.items():
                assert tuple(file.extents(name)) == whole.shape, (path, name)
                for _ in range(3):
                    lower = [pick.randint(0, n) for n in whole.shape]
                    upper = [pick.randint(a, n) for a, n in zip(lower, whole.shape)]
                    found = read(file, name, lower, upper)
                    expected = whole[tuple(slice(a, b) for a, b in zip(lower, upper))]
                    assert np.array_equal(found, expected, equal_nan=True), (path, name, lower, upper, texts)
                if whole.ndim:
                    steps = [pick.choice([1, 2, 3, -1, -2]) for _ in whole.shape]
                    field = np.zeros(whole[tuple(slice(None, None, s) for s in steps)].shape)
                    file.read(name, [0] * whole.ndim, whole.shape, field, steps=steps)
                    expected = whole[tuple(slice(None, None, s) for s in steps)]
                    assert np.array_equal(field, expected, equal_nan=True), (path, name, steps, field[field != expected], expected[field != expected], texts)
            file.close()
        os.environ["GRATICULE_READ_THREADS"] = "two"
        raises("BadOption", lambda: engine.File.open(engine.Comm.create(COMM), path), "GRATICULE_READ_THREADS is 'two'")
        del os.environ["GRATICULE_READ_THREADS"]


def dataset(xr, times=8):
    rng = np.random.default_rng(3)
    time = np.datetime64("2020-01-01T00", "ns") + np.arange(times) * np.timedelta64(6, "h")
    z = rng.standard_normal((times, 19, 36)).astype("f4")
    z[2, 3, 4] = np.nan
    return xr.Dataset({"z": (("time", "latitude", "longitude"), z, {"units": "m"}),
                       "q": (("time", "latitude", "longitude"), (rng.random((times, 19, 36)) * 0.01))},
                      {"time": time, "latitude": ("latitude", np.linspace(90, -90, 19), {"units": "degrees_north"}),
                       "longitude": ("longitude", np.arange(36) * 10.0, {"units": "degrees_east"})})


def test_stores_of_xarray_have_its_values():
    def make():
        import numcodecs
        import xarray as xr
        import zarr
        whole = dataset(xr)
        packed = {"dtype": "i2", "scale_factor": 1e-7, "_FillValue": -32767}
        choices = {
            "v2.zarr": dict(zarr_format=2, encoding={"z": {"chunks": (1, 19, 36), "compressors": numcodecs.Blosc("lz4")}, "q": packed}),
            "v3.zarr": dict(zarr_format=3, encoding={"z": {"chunks": (2, 10, 12), "shards": (4, 20, 36)}, "q": packed}),
            "plain.zarr": dict(zarr_format=3, consolidated=False)}
        for name, options in choices.items():
            whole.to_zarr(os.path.join(folder, name), **options)
        # A time axis of numpy's own type, as earth2studio writes it.
        group = zarr.open_group(os.path.join(folder, "dates.zarr"), mode="w")
        for name, values in (("time", whole.time.values), ("lead_time", np.array([0, 6, 12], "m8[h]").astype("m8[ns]"))):
            array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=values.shape, dimension_names=[name])
            array[...] = values
        return {name: {k: xr.open_zarr(os.path.join(folder, name))[k].values.astype("f8") for k in ("z", "q")} for name in choices}

    with Folder() as folder:
        for name, variables in on_first(make).items():
            file = engine.File.open(engine.Comm.create(COMM), os.path.join(folder, name))
            for variable, expected in variables.items():
                found = read(file, variable, [0, RANK, 0], [8, 19, 36])
                assert np.allclose(found, expected[:, RANK:], rtol=1e-12, atol=0, equal_nan=True), (name, variable)
            assert [file.dimension("z", i) for i in range(3)] == ["time", "latitude", "longitude"]
            assert np.array_equal(file.coordinate("latitude", 19), np.linspace(90, -90, 19))
            assert " since " in file.attribute_text("units", "time") and file.attribute_text("units", "z") == "m"
            file.close()
        file = engine.File.open(engine.Comm.create(COMM), os.path.join(folder, "dates.zarr"))
        assert file.attribute_text("units", "time") == "seconds since 1970-01-01 00:00:00"
        assert read(file, "time", [0], [2]).tolist() == [1577836800.0, 1577858400.0]
        assert read(file, "lead_time", [0], [3]).tolist() == [0, 21600, 43200]
        file.close()


def test_zarr_python_and_xarray_read_what_all_ranks_write():
    """Cells of chunks that several ranks have, in several calls; a name that ends in .zarr is all that makes a store."""
    kinds = [engine.Type.U8, engine.Type.I16, engine.Type.I32, engine.Type.I64, engine.Type.F16, engine.Type.F32, engine.Type.F64]
    names = ["u1", "i2", "i4", "i8", "f2", "f4", "f8"]
    pick = random.Random(SEED + 5)
    comm = engine.Comm.create(COMM)

    def whole_of(shape, name):
        values = (np.arange(math.prod(shape)) * 37 % 251).reshape(shape).astype(name)
        values[tuple(slice(0, n // 2) for n in shape)] = 0  # chunks of zeros are not written
        return values

    with Folder() as folder:
        expected, deflated = {}, {}
        for number in range(int(os.environ.get("GRATICULE_TEST_WRITTEN", "25"))):
            path = os.path.join(folder, f"ours{number}.zarr")
            attributes = engine.Attributes.create()
            attributes.add_text("units", "K \u00e9")
            attributes.add_number("valid_max", math.inf, engine.Type.F64)
            writer = engine.Writer.create(comm, path)
            arrays = {}
            for i in range(3):
                kind = pick.randrange(len(kinds))
                shape = tuple(pick.randint(1, 12) for _ in range(pick.choice([1, 2, 2, 3, 4])))
                for axis, n in enumerate(shape):
                    writer.add_dimension(f"d{i}_{axis}", n)
                options = engine.VariableOptions(ndim=len(shape), chunk=tuple(pick.randint(1, n) for n in shape))
                if names[kind][0] == "f":
                    options.has_fill, options.fill = 1, math.nan if pick.random() < 0.5 else -9.0
                options.deflate = pick.choice([0, 0, 4])
                writer.add_variable(f"a{i}", " ".join(f"d{i}_{axis}" for axis in range(len(shape))), kinds[kind], options, attributes)
                deflated[path, f"a{i}"] = options.deflate > 0
                arrays[f"a{i}"] = whole_of(shape, names[kind])
            for name, whole in arrays.items():
                axis, rank_axis, parts = pick.randrange(whole.ndim), pick.randrange(whole.ndim), pick.randint(1, 3)
                for part in range(parts):
                    lower, upper = [0] * whole.ndim, list(whole.shape)
                    lower[axis], upper[axis] = whole.shape[axis] * part // parts, whole.shape[axis] * (part + 1) // parts
                    first, length = lower[rank_axis], upper[rank_axis] - lower[rank_axis]
                    lower[rank_axis], upper[rank_axis] = first + length * RANK // COMM.size, first + length * (RANK + 1) // COMM.size
                    own = np.ascontiguousarray(whole[tuple(slice(a, b) for a, b in zip(lower, upper))])
                    if RANK % 2:
                        own = np.asfortranarray(own)
                    writer.write(name, lower, upper, own)
            writer.commit()
            expected[path] = arrays
            file = engine.File.open(comm, path)
            for name, whole in arrays.items():
                assert np.array_equal(read(file, name, [0] * whole.ndim, whole.shape), whole.astype("f8")), (path, name)
            file.close()

        def compare():
            import xarray as xr
            import zarr
            for path, arrays in expected.items():
                group, data = zarr.open_group(path, mode="r"), xr.open_zarr(path, decode_cf=False)
                assert set(group.array_keys()) == set(arrays) and group.attrs["Conventions"] == "CF-1.8"
                for name, whole in arrays.items():
                    assert group[name].dtype == whole.dtype and np.array_equal(group[name][...], whole), (path, name)
                    codecs = str(group[name].compressors)
                    assert ("zlib" in codecs or "Gzip" in codecs) == deflated[path, name], (path, name, codecs)
                    assert np.array_equal(data[name].values, whole) and data[name].attrs["units"] == "K \u00e9"
                    assert data[name].attrs["valid_max"] == math.inf
                xr.open_zarr(path).load()
        on_first(compare)


def test_a_series_of_stores_is_one_axis_of_time():
    def make():
        import xarray as xr
        import zarr  # noqa: F401, what xarray writes by
        whole = dataset(xr)
        for i, part in enumerate((whole.isel(time=slice(0, 3)), whole.isel(time=slice(3, 8)))):
            part.to_zarr(os.path.join(folder, f"part{i}.zarr"), zarr_format=2 + i)
        return whole.z.values.astype("f8")

    with Folder() as folder:
        expected = on_first(make)
        file = engine.File.open_series(engine.Comm.create(COMM), os.path.join(folder, "part*.zarr"))
        assert file.extents("z").tolist() == [8, 19, 36]
        assert np.array_equal(read(file, "z", [0, 0, 0], [8, 19, 36]), expected, equal_nan=True)
        assert np.allclose(np.diff(file.coordinate("time", 8)), np.diff(file.coordinate("time", 8))[0])
        file.close()


def test_damaged_and_hostile_stores_are_one_error():
    def metadata(**changes):
        made = {"zarr_format": 2, "shape": [4, 6], "chunks": [4, 6], "dtype": "<f4", "compressor": None, "fill_value": None, "order": "C", "filters": None}
        made.update(changes)
        return json.dumps(made)

    def store(name, array, chunk=b"\0" * 96, link=None):
        path = os.path.join(folder, name)
        if RANK == 0:
            os.makedirs(os.path.join(path, "z"))
            for file, text in ((".zgroup", '{"zarr_format": 2}'), ("z/.zarray", array), ("z/.zattrs", "{}")):
                with open(os.path.join(path, file), "w") as out:
                    out.write(text)
            if link:
                os.symlink(link, os.path.join(path, "z/0.0"))
            else:
                with open(os.path.join(path, "z/0.0"), "wb") as out:
                    out.write(chunk)
        COMM.barrier()
        return path

    def read_all(path):
        file = engine.File.open(engine.Comm.create(COMM), path)
        try:
            return read(file, "z", [0, 0], file.extents("z"))
        finally:
            file.close()

    with Folder() as folder:
        assert not read_all(store("good", metadata())).any()
        raises("BrokenFile", lambda: read_all(store("short", metadata(), b"\0" * 95)), "95 bytes instead of 96", "z/0.0")
        raises("BrokenFile", lambda: read_all(store("json", '{"shape": [4')), "not JSON")
        raises("BrokenFile", lambda: read_all(store("shape", metadata(shape=[-4, 6]))), "shape")
        raises("BrokenFile", lambda: read_all(store("zlib", metadata(compressor={"id": "zlib", "level": 1}))), "chunk")
        raises("UnreadableFile", lambda: read_all(store("link", metadata(), link="/etc/hostname")), "symbolic link")
        raises("UnreadableVariable", lambda: read_all(store("codec", metadata(compressor={"id": "lzma"}))), "codec 'lzma'")
        raises("BrokenFile", lambda: read_all(store("text", metadata(dtype="<U3"))), "96 bytes instead of 288")
        raises("UnreadableVariable", lambda: read_all(store("huge", metadata(chunks=[1 << 40, 1 << 10]))), "chunks")
        raises("UnreadableVariable", lambda: read_all(store("twice", metadata(filters=[{"id": "zlib"}], compressor={"id": "gzip"}))), "twice")
        # What a misspelt or changed entry may mean is not guessed.
        raises("UnreadableVariable", lambda: read_all(store("order", metadata().replace('"order"', '"ordre"'))), "order of its cells is null")
        raises("UnreadableVariable", lambda: read_all(store("fill", metadata(dtype="|u1", fill_value=300))), "300, which its type")
        raises("UnreadableVariable", lambda: read_all(store("size", metadata(filters=[{"id": "shuffle", "elementsize": "4"}]))), "elements of 0")
        raises("UnreadableVariable", lambda: read_all(store("filters", metadata(filters="shuffle"))), "filters are 'shuffle'")
        raises("UnreadableVariable", lambda: read_all(store("lacks", metadata().replace('"fill_value"', '"fill"'))), "lack the fill value")
        raises("UnreadableVariable", lambda: read_all(store("separator", metadata(dimension_separator=1))), "dimension_separator 1")
        version3 = {"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "float32", "fill_value": 0, "attributes": {},
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
                    "chunk_key_encoding": {"name": "v2"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}

        def entries(name, **more):
            path = store(name, "{}")
            if RANK == 0:
                os.remove(os.path.join(path, "z/.zarray"))
                for where, made in (("", {"zarr_format": 3, "node_type": "group", "attributes": {}}), ("z", dict(version3, **more))):
                    with open(os.path.join(path, where, "zarr.json"), "w") as out:
                        json.dump(made, out)
            COMM.barrier()
            return path

        assert not read_all(entries("understood", hint={"must_understand": False})).any()
        raises("UnreadableVariable", lambda: read_all(entries("unknown", storage_tranaformers=[])), "entry 'storage_tranaformers'")
        raises("UnreadableVariable", lambda: read_all(entries("names", dimension_names=["y"])), "1 names for its 2 axes")
        raises("UnreadableVariable", lambda: read_all(entries("keys", chunk_key_encoding={"name": "v2", "configuration": "."})), "configuration '.'")
        raises("UnreadableVariable", lambda: read_all(entries("transformers", storage_transformers=1)), "storage transformers")
        scale = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": "60"}}
        raises("UnreadableVariable", lambda: read_all(entries("scale", data_type=scale)), "times in the unit 's' times 0")
        raises("NoSuchFile", lambda: read_all(os.path.join(folder, "absent.zarr")))


def test_a_store_that_is_removed_or_replaced_is_not_one_of_absent_chunks():
    """Absent chunks hold fill values, unless the store itself is gone."""
    def make():
        import zarr
        for version in (2, 3):
            group = zarr.open_group(path_of(version), mode="w", zarr_format=version)
            array = group.create_array("z", shape=(4, 6), dtype="f4", chunks=(2, 6), fill_value=0.5)
            array[:2] = 1.0
            scalar = group.create_array("s", shape=(), dtype="f8", chunks=(), fill_value=0.25)
            assert scalar[()] == 0.25

    def path_of(version):
        return os.path.join(folder, f"v{version}.zarr")

    def on_rank_0(change):
        COMM.barrier()
        if RANK == 0:
            change()
        COMM.barrier()

    with Folder() as folder:
        on_first(make)
        for version in (2, 3):
            path, metadata = path_of(version), "zarr.json" if version == 3 else ".zarray"
            for label, change, back in (
                    ("removed", lambda: os.rename(path, path + ".old"), lambda: os.rename(path + ".old", path)),
                    ("replaced", lambda: (os.rename(path, path + ".old"), shutil.copytree(path + ".old", path)),
                     lambda: (shutil.rmtree(path), os.rename(path + ".old", path))),
                    ("array removed", lambda: os.rename(os.path.join(path, "z"), os.path.join(path, "y")),
                     lambda: os.rename(os.path.join(path, "y"), os.path.join(path, "z")))):
                file = engine.File.open(engine.Comm.create(COMM), path)
                expected = [[1.0] * 6] * 2 + [[0.5 if version == 3 else math.nan] * 6] * 2
                assert np.array_equal(read(file, "z", [0, 0], [4, 6]), expected, equal_nan=True)
                assert np.array_equal(read(file, "s", [], []), 0.25 if version == 3 else math.nan, equal_nan=True)
                on_rank_0(change)
                if label != "removed":  # cells that are there can be read after it
                    raises("UnreadableFile", lambda: read(file, "z", [2, 0], [4, 6]), "removed or replaced", "variable z of " + path)
                on_rank_0(lambda: shutil.rmtree(path + ".old") if label == "removed" else None)
                if label == "removed":
                    raises("UnreadableFile", lambda: read(file, "z", [2, 0], [4, 6]), "removed or replaced")
                    raises("UnreadableFile", lambda: read(file, "s", [], []), "removed or replaced")
                    on_rank_0(make)
                else:
                    on_rank_0(back)
                file.close()
            chunk = os.path.join(path, "z", "c", "0", "0") if version == 3 else os.path.join(path, "z", "0.0")
            on_rank_0(lambda: (os.remove(chunk), os.mkdir(chunk)))
            file = engine.File.open(engine.Comm.create(COMM), path)
            raises("UnreadableFile", lambda: read(file, "z", [0, 0], [4, 6]), "not a regular file", os.path.relpath(chunk, path))
            file.close()
            assert os.path.exists(os.path.join(path, "z", metadata))


def test_zip_files_have_comments_wide_sizes_and_members_twice():
    import zipfile
    metadata = {"zarr_format": 2, "shape": [4, 6], "chunks": [4, 3], "dtype": "<f4", "compressor": None, "fill_value": None, "order": "C", "filters": None}
    whole = np.arange(24, dtype="f4").reshape(4, 6)

    def make(path):
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            warnings.simplefilter("ignore")
            members = [("z/0.0", b"\0" * 48), (".zgroup", b'{"zarr_format": 2}'), ("z/.zarray", json.dumps(metadata).encode()), ("z/.zattrs", b"{}"),
                       ("z/0.0", whole[:, :3].tobytes()), ("z/0.1", whole[:, 3:].tobytes())]
            for number, (name, data) in enumerate(members):
                with archive.open(name, "w", force_zip64=number % 2 == 0) as out:
                    out.write(data)
            archive.comment = b"PK\x05\x06 in a comment that is longer than the end of a directory"

    def read_all(path):
        file = engine.File.open(engine.Comm.create(COMM), path)
        try:
            return read(file, "z", [0, 0], [4, 6])
        finally:
            file.close()

    with Folder() as folder:
        path = os.path.join(folder, "store.zarr.zip")
        if RANK == 0:
            make(path)
            with open(path, "rb") as file:
                data = file.read()
            at = data.index(whole[:, 3:].tobytes())
            changed = data[:at + 5] + bytes([data[at + 5] ^ 1]) + data[at + 6:]
            for name, cut in (("end", data[:-100]), ("start", data[200:]), ("nothing", b""), ("chunk", changed), ("type", data.replace(b"<f4", b"<i4"))):
                with open(os.path.join(folder, name + ".zip"), "wb") as out:
                    out.write(cut)
        COMM.barrier()
        assert np.array_equal(read_all(path), whole)
        for name in ("end", "start", "nothing"):
            raises("BrokenFile", lambda: read_all(os.path.join(folder, name + ".zip")), name + ".zip", "no whole zip archive")
        raises("BrokenFile", lambda: read_all(os.path.join(folder, "chunk.zip")), "chunk.zip", "z/0.1", "another checksum")
        raises("BrokenFile", lambda: read_all(os.path.join(folder, "type.zip")), "type.zip/z/.zarray", "another checksum")


def test_urls_are_refused_by_name():
    comm = engine.Comm.create(COMM)
    for url in ("s3://bucket/era5.zarr", "https://host/x/era5.nc", "gs://bucket/era5-*.zarr"):
        raises("UnsupportedFile", lambda: engine.File.open(comm, url), url + " is a URL", "graticule.open_shard")
        raises("UnsupportedFile", lambda: engine.File.open_series(comm, url), url + " is a URL")
    raises("UnsupportedFile", lambda: engine.File.open(comm, "file:///tmp/x.nc"), "the path that follows file://")


def test_of_large_blosc_chunks_only_the_blocks_that_are_met_are_read():
    """Any compressor, shuffle and size of blocks, compressible or not; and with any byte of the table of blocks changed."""
    shape = (3, 150, 200)

    def make():
        import numcodecs
        import zarr
        rng = np.random.default_rng(SEED)
        values = {"steps": (rng.standard_normal(shape).cumsum(-1) * 10).astype("i4"), "noise": rng.standard_normal(shape),
                  "bytes": rng.integers(0, 30, shape).astype("u1")}
        group = zarr.open_group(os.path.join(folder, "large.zarr"), mode="w", zarr_format=2)
        for number, (cname, shuffle, block) in enumerate(((c, s, b) for c in ("lz4", "zstd", "zlib", "blosclz", "lz4hc") for s, b in
                                                           ((0, 0), (1, 0), (2, 8192), (1, 100000)))):
            for name, whole in values.items():
                array = group.create_array(f"{name}{number}", shape=shape, chunks=shape, dtype=whole.dtype,
                                           compressors=numcodecs.Blosc(cname, number % 3 * 4 + 1, shuffle, block), fill_value=None)
                array[...] = whole
        return values

    with Folder() as folder:
        values = on_first(make)
        pick = random.Random(SEED + RANK)
        path = os.path.join(folder, "large.zarr")

        def boxes(file, count):
            for i in range(file.num_variables()):
                name = file.variable_name(i)
                for _ in range(count):
                    lower = [pick.randrange(n) for n in shape]
                    upper = [min(n, a + pick.choice([1, 2, n // 3])) for a, n in zip(lower, shape)]
                    yield name, read(file, name, lower, upper), values[name.rstrip("0123456789")][tuple(slice(a, b) for a, b in zip(lower, upper))]

        file = engine.File.open(engine.Comm.create(COMM), path)
        sizes = {os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(path) for name in names}
        assert max(sizes) > 2**16
        for name, found, expected in boxes(file, 4):
            assert np.array_equal(found, expected.astype("f8")), name
        file.close()
        COMM.barrier()
        if RANK == 0:
            seen = {"read": 0, "refused": 0}
            chunks = sorted(os.path.join(where, name) for where, _, names in os.walk(path) for name in names if not name.startswith("."))
            for chunk in chunks:
                with open(chunk, "r+b") as out:
                    data = bytearray(out.read())
                    data[pick.randrange(200)] ^= 1 << pick.randrange(8)
                    out.seek(0)
                    out.write(data)
            alone = engine.File.open(engine.Comm.create(MPI.COMM_SELF), path)
            for i in range(alone.num_variables()):
                row = pick.randrange(shape[1])
                try:
                    read(alone, alone.variable_name(i), [1, row, 0], [2, row + 1, shape[2]])
                    seen["read"] += 1
                except graticule.Error as error:
                    assert error.fault == "input", error
                    seen["refused"] += 1
            alone.close()
            assert seen["refused"] > 10 and seen["read"] > 10, seen


def test_data_sets_of_anemoi_are_fields_on_their_grid():
    def make():
        import numcodecs
        import zarr
        rng = np.random.default_rng(5)
        ny, nx, names, made = 7, 12, ["2t", "10u", "q_500"], {}
        for kind, members, compressor in (("one", 1, numcodecs.Blosc("zstd", 3)), ("members", 2, numcodecs.Zstd(3)), ("rotated", 1, None)):
            path = os.path.join(folder, kind + ".zarr")
            group = zarr.open_group(path, mode="w", zarr_format=2)
            group.attrs.update(variables=names, field_shape=[ny, nx], resolution="o32", missing_dates=[])
            whole = rng.standard_normal((5, len(names), members, ny * nx)).astype("f4")
            whole[1, 0, 0, 3] = np.nan
            latitude, longitude = np.repeat(np.linspace(90, -90, ny), nx), np.tile(np.arange(nx) * 30.0, ny)
            if kind == "rotated":
                latitude[5] += 1
            dates = np.datetime64("2020-02-28T00", "s") + np.arange(5) * np.timedelta64(6, "h")
            for name, values, chunks, axes in (
                    ("data", whole, (1, len(names), 1, ny * nx if kind == "one" else 50), ["time", "variable", "ensemble", "cell"]),
                    ("dates", dates.astype("M8[s]"), (5,), ["time"]), ("latitudes", latitude, (ny * nx,), ["cell"]),
                    ("longitudes", longitude, (ny * nx,), ["cell"]), ("mean", np.zeros(len(names)), (len(names),), ["variable"])):
                array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=chunks,
                                           compressors=compressor, fill_value=np.nan if name == "data" else None)
                array[...] = values
                array.attrs["_ARRAY_DIMENSIONS"] = axes
            if kind != "one":
                zarr.consolidate_metadata(path)
            fields = whole.reshape(5, len(names), members, ny, nx).astype("f8")
            made[path] = {name: fields[:, i, 0] if members == 1 else fields[:, i] for i, name in enumerate(names)}
        return made

    with Folder() as folder:
        pick = random.Random(RANK)
        made = on_first(make)
        for path, variables in made.items():
            file = engine.File.open(engine.Comm.create(COMM), path)
            listed = {file.variable_name(i) for i in range(file.num_variables())}
            if "rotated" in path:
                assert listed == {"data", "dates", "latitudes", "longitudes", "mean"}
                file.close()
                continue
            assert listed == set(variables) | {"time", "latitude", "longitude", "mean"}, listed
            assert list(file.coordinate("latitude", 7)) == list(np.linspace(90, -90, 7))
            assert list(file.coordinate("longitude", 12)) == [30.0 * i for i in range(12)]
            assert engine.date_of_time(file.calendar("time"), file.times("time", 5)[4]) == (2020, 2, 29, 0)
            for name, whole in variables.items():
                assert tuple(file.extents(name)) == whole.shape
                for _ in range(8):
                    lower = [pick.randint(0, n) for n in whole.shape]
                    upper = [pick.randint(a, n) for a, n in zip(lower, whole.shape)]
                    expected = whole[tuple(slice(a, b) for a, b in zip(lower, upper))]
                    assert np.array_equal(read(file, name, lower, upper), expected, equal_nan=True), (path, name, lower, upper)
                field = np.zeros(whole[..., ::2, ::3].shape)
                file.read(name, [0] * whole.ndim, whole.shape, field, steps=[1] * (whole.ndim - 2) + [2, 3])
                assert np.array_equal(field, whole[..., ::2, ::3], equal_nan=True), (path, name)
            file.close()
        if RANK == 0:
            with open(os.path.join(folder, "one.zarr", "latitudes", "0"), "wb") as out:
                out.write(b"nothing")
        COMM.barrier()
        raises("BrokenFile", lambda: engine.File.open(engine.Comm.create(COMM), os.path.join(folder, "one.zarr")), "latitudes")


def references_of(path):
    """Of a netCDF-4 file, as kerchunk writes them: chunks by their places in the file, small arrays within."""
    import base64
    import h5py
    refs = {".zgroup": json.dumps({"zarr_format": 2}), ".zattrs": "{}"}
    with h5py.File(path) as file:
        for name, data in file.items():
            names = [scale[0].name[1:] if len(scale) else name for scale in data.dims]
            filters = [{"id": "shuffle", "elementsize": data.dtype.itemsize}] if data.shuffle else []
            filters += [{"id": "zlib", "level": 4}] if data.compression else []
            refs[f"{name}/.zarray"] = json.dumps({"shape": data.shape, "chunks": data.chunks or data.shape, "dtype": data.dtype.str, "order": "C",
                                                  "fill_value": None, "filters": filters, "compressor": None, "zarr_format": 2})
            refs[f"{name}/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": names} | ({"units": data.attrs["units"].decode()} if "units" in data.attrs else {}))
            if data.chunks is None:
                refs[f"{name}/" + ".".join("0" * data.ndim)] = "base64:" + base64.b64encode(data[...].tobytes()).decode()
                continue
            for i in range(data.id.get_num_chunks()):
                chunk = data.id.get_chunk_info(i)
                number = ".".join(str(at // n) for at, n in zip(chunk.chunk_offset, data.chunks))
                refs[f"{name}/{number}"] = [os.path.basename(path), chunk.byte_offset, chunk.size]
    return {"version": 1, "refs": refs}


def test_references_are_read_as_a_store():
    # In a process of its own: h5py has another HDF5.
    script = """
import json, sys, types
sys.path.insert(0, sys.argv[2])
import h5py, numpy as np
import os
text = open(os.path.join(sys.argv[2], "test_zarr.py")).read()
start = text.index("def references_of"); names = {"json": json, "os": os}
exec(text[start:text.index("def test_references_are")], names)
path = os.path.join(sys.argv[1], "fields.nc")
with h5py.File(path, "w") as file:
    z = np.random.default_rng(3).standard_normal((6, 19, 36)).astype("f4")
    data = file.create_dataset("z", data=z, chunks=(1, 10, 36), compression="gzip", shuffle=True)
    for axis, (name, values, units) in enumerate((("time", np.arange(6.0), b"hours since 2020-01-01"), ("latitude", np.linspace(90, -90, 19), b"degrees_north"),
                                                  ("longitude", np.arange(36) * 10.0, b"degrees_east"))):
        file[name] = values
        file[name].attrs["units"] = np.bytes_(units)
        file[name].make_scale(name)
        data.dims[axis].attach_scale(file[name])
refs = names["references_of"](path)
json.dump(refs, open(os.path.join(sys.argv[1], "good.json"), "w"))
json.dump(refs["refs"], open(os.path.join(sys.argv[1], "plain.json"), "w"))
np.save(os.path.join(sys.argv[1], "z.npy"), z)
far = json.loads(json.dumps(refs)); far["refs"]["z/0.0.0"][0] = "s3://bucket/fields.nc"
json.dump(far, open(os.path.join(sys.argv[1], "far.json"), "w"))
cut = json.loads(json.dumps(refs)); cut["refs"]["z/0.0.0"][1] = 10**9
json.dump(cut, open(os.path.join(sys.argv[1], "cut.json"), "w"))
json.dump(dict(refs, templates={"u": "x"}), open(os.path.join(sys.argv[1], "short.json"), "w"))
json.dump({"a": 1}, open(os.path.join(sys.argv[1], "other.json"), "w"))
"""

    def make():
        import importlib.util
        import subprocess
        import sys
        if importlib.util.find_spec("h5py") is None:
            raise ImportError("h5py of Python is not installed")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PMI", "LD_LIBRARY_PATH", "PYTHONPATH"))}
        done = subprocess.run([sys.executable, "-c", script, folder, os.path.dirname(os.path.abspath(__file__))], env=environment,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        os.makedirs(os.path.join(folder, "parquet.zarr"))
        with open(os.path.join(folder, "parquet.zarr", ".zmetadata"), "w") as out:
            json.dump({"metadata": {".zgroup": {"zarr_format": 2}}, "record_size": 10000}, out)
        return np.load(os.path.join(folder, "z.npy")).astype("f8")

    with Folder() as folder:
        whole = on_first(make)
        for name in ("good.json", "plain.json"):
            file = engine.File.open(engine.Comm.create(COMM), os.path.join(folder, name))
            assert list(file.coordinate("latitude", 19)) == list(np.linspace(90, -90, 19))
            lower, upper = [RANK % 3, 3, 5], [6, 17, 30]
            assert np.array_equal(read(file, "z", lower, upper), whole[lower[0]:6, 3:17, 5:30])
            file.close()
        file = engine.File.open(engine.Comm.create(COMM), os.path.join(folder, "cut.json"))
        raises("BrokenFile", lambda: read(file, "z", [0, 0, 0], [1, 19, 36]), "write the references again")
        file.close()
        for name, rule, word in (("far.json", "UnsupportedFile", "s3://bucket"), ("short.json", "UnsupportedFile", "templates"), ("other.json", "UnsupportedFile", "no references"),
                                 ("parquet.zarr", "UnsupportedFile", "parquet")):
            raises(rule, lambda: engine.File.open(engine.Comm.create(COMM), os.path.join(folder, name)), word)


def mutate(pick, path):
    """Changes a store in one or several places: bytes, ends, and numbers in metadata."""
    files = [path] if os.path.isfile(path) else [os.path.join(where, name) for where, _, names in os.walk(path) for name in names]
    for _ in range(pick.choice([1, 1, 2, 5])):
        file = pick.choice(files)
        with open(file, "rb") as of:
            data = bytearray(of.read())
        if not data:
            continue
        kind, at = pick.choice(["byte", "byte", "cut", "grow", "ones", "number"]), pick.randrange(len(data))
        if kind == "byte":
            data[at] = pick.randrange(256)
        elif kind == "cut":
            del data[at:]
        elif kind == "grow":
            data += bytes(pick.randrange(64))
        elif kind == "ones":
            data[at:at + 8] = b"\xff" * len(data[at:at + 8])
        else:
            data = re.sub(rb"\d+", lambda found: str(pick.choice([0, 1, -1, 3, 2**31, 2**40, 2**63, 10**18])).encode()
                          if pick.random() < 0.2 else found.group(), bytes(data))
        with open(file, "wb") as out:
            out.write(data)


def test_mutants_of_stores_are_read_or_refused():
    def make():
        import zarr_stores
        pick = random.Random(SEED)
        made = zarr_stores.make(folder, SEED, 60)
        comm = engine.Comm.create(MPI.COMM_SELF)
        seen = {"read": 0, "refused": 0}
        for _ in range(int(os.environ.get("GRATICULE_TEST_MUTANTS", "60"))):
            path = pick.choice(made)[0]
            mutant = os.path.join(folder, "mutant" + path[-4:])
            shutil.rmtree(mutant, ignore_errors=True)
            (shutil.copyfile if os.path.isfile(path) else shutil.copytree)(path, mutant)
            mutate(pick, mutant)
            try:
                file = engine.File.open(comm, mutant)
            except graticule.Error as error:
                assert error.fault == "input", error
                seen["refused"] += 1
                continue
            for i in range(file.num_variables()):
                name = file.variable_name(i)
                extents = [int(n) for n in file.extents(name)]
                if math.prod(extents) > 1e6:
                    continue
                try:
                    read(file, name, [0] * len(extents), extents)
                    seen["read"] += 1
                except graticule.Error as error:
                    assert error.fault == "input", error
                    seen["refused"] += 1
            file.close()
        return seen

    with Folder() as folder:
        seen = on_first(make)
        assert seen["read"] > seen["refused"] > 0, seen


if __name__ == "__main__":
    main(globals())
