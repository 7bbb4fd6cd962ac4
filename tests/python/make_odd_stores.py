# SPDX-License-Identifier: BSD-3-Clause
"""make_odd_stores.py FOLDER SEED COUNT: Zarr stores in rare but legal forms, and the values that xarray finds in them.

Packed values with scales of other types, unsigned and signed ones that say so by `_Unsigned`, fill values of each spelling, chunks
that do not divide and chunks that are absent, both byte orders, orders of axes, filters, shards, groups of the same dimensions in
other lengths, times of numpy, and strings beside the fields. `stores.json` lists the variables and a file of numpy with their values.
"""
import base64
import json
import os
import struct
import sys
import warnings

import numcodecs
import numpy as np
import xarray
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.codecs.numcodecs import BitRound

TYPES = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
BLOSC = ["lz4", "lz4hc", "zstd", "zlib", "blosclz"]


class OddStore:
    def __init__(self, folder, number, random):
        self.path, self.random = os.path.join(folder, f"odd_{number}.zarr"), random
        self.rounds = np.random.default_rng(number)  # whose choices leave those of the others as they were
        self.version = self.pick([2, 3])
        self.notes = [f"{number}: version {self.version}"]

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, of):
        return self.random.integers(of) == 0

    def write(self):
        root = zarr.open_group(self.path, mode="w", zarr_format=self.version)
        names = self.add_data_set(root, "")
        if self.chance(3):
            for group in ("coarse", "fine/inner"):
                names += self.add_data_set(root.create_group(group), group + "/")
        root.attrs.update({"Conventions": "CF-1.8", "list": [1, 2.5], "nan": float("nan"), "nested": {"a": [1]}})
        if self.chance(2):
            zarr.consolidate_metadata(self.path, zarr_format=self.version)
        expected = {}
        for name in names:
            group, _, base = name.rpartition("/")
            with xarray.open_zarr(self.path, group=group or None, consolidated=None, decode_times=False) as data:
                expected[name.replace("/", "|")] = np.asarray(data[base].values).astype("f8")
        np.savez(self.path + ".npz", **expected)
        return {"store": self.path, "names": names, "expected": self.path + ".npz", "text": "; ".join(self.notes)}

    def add_data_set(self, group, prefix):
        extents = {name: int(self.random.integers(least, 8)) for name, least in (("time", 1), ("lat", 2), ("lon", 2))}
        days = np.arange(1, extents["time"] + 1)
        if self.chance(3):
            unit = self.pick(["s", "ms", "us", "ns", "h"])
            self.add(group, "time", np.datetime64("2000-01-01", unit) + days.astype("m8[D]").astype(f"m8[{unit}]"), ["time"], {})
        else:
            self.add(group, "time", days.astype(self.pick(["i4", "i8", "f4", "f8"])), ["time"], {"units": "days since 2000-01-01"})
        self.add(group, "lat", np.linspace(80, -80, extents["lat"])[::self.pick([1, -1])], ["lat"], {"units": "degrees_north"})
        self.add(group, "lon", np.arange(extents["lon"]) * 10.0 + 5, ["lon"], {"units": "degrees_east"})
        if self.chance(2):
            texts = np.array([self.pick(["", "0001", "Zürich", "気温"]) for _ in days], self.pick(["U7", object]))
            names = {"dimension_names": ["time"]} if self.version == 3 else {}
            array = group.create_array("station", shape=texts.shape, chunks=(2,), dtype=str if texts.dtype == object else texts.dtype, **names)
            array[...] = texts
            if self.version == 2:
                array.attrs["_ARRAY_DIMENSIONS"] = ["time"]
        names = []
        for i in range(3):
            axes = [a for a in self.random.permutation(["time", "lat", "lon"]).tolist() if i == 0 or self.chance(2)]
            names.append(self.pick(["v", "Var_", "2t", "é"]) + str(i))
            self.add_field(group, names[-1], axes, tuple(extents[a] for a in axes))
        return [prefix + name for name in names]

    def add_field(self, group, name, axes, shape):
        kind = np.dtype(self.pick(TYPES))
        fill, attributes = None, {"units": self.pick(["K", "m s-1", "1"])}
        if kind.kind != "b":
            if self.chance(2):
                limits = [] if kind.kind == "f" else [np.iinfo(kind).max, np.iinfo(kind).min]
                fill = kind.type(self.pick([0, 7, 100] + ([np.nan, np.nan] if kind.kind == "f" else limits)))
            if self.chance(3) and kind != "f2":
                attributes["missing_value"] = kind.type(self.pick([3, 100])).tolist()
            if self.chance(2):
                attributes["scale_factor"] = self.pick([0.01, 2.0, 0.5, -0.25])
                if self.chance(2):
                    attributes["add_offset"] = self.pick([273.15, 40.0, -1.5])
        # xarray fails where such values have missing ones beyond the limits of their type.
        if kind.kind in "iu" and kind.itemsize < 8 and self.chance(2) and fill is None and "missing_value" not in attributes:
            attributes["_Unsigned"] = "true" if kind.kind == "i" else "false"
        values = self.values(kind, shape)
        if shape and kind.kind != "b":
            values[self.random.random(shape) < 0.2] = self.pick([0, 3, 7, 100])
            if fill is not None:
                values[self.random.random(shape) < 0.1] = fill
        part = tuple(slice(0, int(self.random.integers(0, n + 1))) for n in shape) if shape and self.chance(3) else ...
        self.add(group, name, values, axes, attributes, fill, part)

    def values(self, kind, shape):
        if kind.kind == "f":
            return (self.random.normal(size=shape) * 100).astype(kind)
        if kind.kind == "b":
            return self.random.integers(0, 2, shape).astype(kind)
        limits = np.iinfo(kind)
        whole = kind.itemsize < 8 and self.chance(3)
        return self.random.integers(limits.min if whole else max(limits.min, -2000), limits.max if whole else min(limits.max, 2000), shape).astype(kind)

    def add(self, group, name, values, axes, attributes, fill=None, part=...):
        chunks = tuple(int(self.random.integers(1, n + 3)) for n in values.shape)
        attributes = dict(attributes)
        if self.version == 2:
            array = self.array_of_version2(group, name, values, chunks, fill)
            attributes["_ARRAY_DIMENSIONS"] = axes
        else:
            array = self.array_of_version3(group, name, values, chunks, fill, axes)
            if fill is not None and self.chance(2):
                attributes["_FillValue"] = base64.b64encode(struct.pack("<d", fill)).decode() if values.dtype.kind == "f" else int(fill)
        array.attrs.update(attributes)
        array[part] = values[part] if part is not ... else values
        self.notes.append(f"{name}: {json.dumps(array.metadata.to_dict(), default=str)}")

    def array_of_version2(self, group, name, values, chunks, fill):
        kind, filters = values.dtype, []
        stored = kind.newbyteorder(">") if kind.kind in "iuf" and kind.itemsize > 1 and self.chance(4) else kind
        if kind.kind == "f" and kind.itemsize > 2 and self.chance(6):
            filters = [numcodecs.FixedScaleOffset(offset=self.pick([0, 10, 273.15]), scale=self.pick([1, 10, 100]), dtype=stored.str,
                                                  astype=self.pick(["<i4", "<i8", ">i4", "f4"]))]
        elif kind.itemsize > 1 and kind.kind in "iuf" and self.chance(5):
            filters = [numcodecs.Shuffle(kind.itemsize)]
        elif kind.kind == "f" and stored == kind and self.rounds.integers(4) == 0:
            filters = [numcodecs.BitRound(8) if self.rounds.integers(2) else numcodecs.Quantize(1, kind.str)]
        compressor = self.pick([None, numcodecs.Zlib(3), numcodecs.GZip(2), numcodecs.Zstd(2)] + 2 * [numcodecs.Blosc(
            self.pick(BLOSC), int(self.random.integers(0, 10)), self.pick([0, 1, 2, -1]), self.pick([0, 16, 256]))])
        return group.create_array(name, shape=values.shape, chunks=chunks if values.ndim else "auto", dtype=stored, filters=filters or None,
                                  compressors=compressor, order=self.pick("CF"), fill_value=fill,
                                  chunk_key_encoding={"name": "v2", "separator": self.pick("./")})

    def array_of_version3(self, group, name, values, chunks, fill, axes):
        kind, ndim = values.dtype, values.ndim
        codecs = [TransposeCodec(order=[int(i) for i in self.random.permutation(ndim)])] if ndim > 1 and self.chance(3) else []
        if kind.kind == "f" and self.rounds.integers(6) == 0:
            codecs.insert(0, BitRound(keepbits=8))
        codecs.append(BytesCodec(endian=self.pick(["little", "big"]) if kind.itemsize > 1 else None))
        codecs += self.pick([[], [Crc32cCodec()], [GzipCodec(level=3)], [ZstdCodec(level=int(self.random.integers(-3, 5)), checksum=bool(self.chance(2)))],
                             [BloscCodec(typesize=kind.itemsize, cname=self.pick(BLOSC), clevel=int(self.random.integers(0, 10)),
                                         shuffle=self.pick(["noshuffle", "shuffle", "bitshuffle"])), Crc32cCodec()]])
        if ndim and self.chance(2):
            index = [BytesCodec(endian=self.pick(["little", "big"]))] + ([Crc32cCodec()] if self.chance(2) else [])
            codecs = [ShardingCodec(chunk_shape=chunks, codecs=codecs, index_codecs=index, index_location=self.pick(["start", "end"]))]
            chunks = tuple(n * int(self.random.integers(1, 4)) for n in chunks)
        return zarr.create(store=group.store, path=f"{group.path}/{name}".strip("/"), shape=values.shape, chunks=chunks, dtype=kind, codecs=codecs,
                           zarr_format=3, chunk_key_encoding=(self.pick(["default", "v2"]), self.pick("./")),
                           dimension_names=axes, fill_value=fill if fill is not None and self.chance(2) else np.zeros((), kind)[()])


def fill_values(folder):
    """Arrays without a chunk, whose fill values are written as JSON has them."""
    made = []
    for number, (kind, fill) in enumerate([("<f4", "Infinity"), ("<f8", "-Infinity"), ("<f8", "NaN"), ("<u8", 2**64 - 1), ("<i8", -2**63), ("|b1", True),
                                           ("<i2", None), ("<f4", 0), ("<i4", -9999), (">f4", 1e20)]):
        made.append((os.path.join(folder, f"fill2_{number}.zarr"), {".zgroup": {"zarr_format": 2}, "a/.zattrs": {"_ARRAY_DIMENSIONS": ["x"]}, "a/.zarray": {
            "zarr_format": 2, "shape": [3], "chunks": [2], "dtype": kind, "fill_value": fill, "order": "C", "filters": None, "compressor": None}}, None))
    for number, (kind, fill, value) in enumerate([
            ("float32", "0x7fc00001", np.nan), ("float32", "0x3f800000", 1), ("float16", "0x3c00", 1), ("float64", "-Infinity", -np.inf),
            ("uint64", 2**64 - 1, 2**64 - 1), ("int8", -128, -128), ("bool", True, 1), ("float32", 1e20, np.float32(1e20)), ("int32", 5.0, 5)]):
        made.append((os.path.join(folder, f"fill3_{number}.zarr"), {"zarr.json": {"zarr_format": 3, "node_type": "group"}, "a/zarr.json": {
            "zarr_format": 3, "node_type": "array", "shape": [3], "data_type": kind, "fill_value": fill, "dimension_names": ["x"],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": {"name": "default"},
            "codecs": ["bytes"] if kind in ("bool", "int8") else [{"name": "bytes", "configuration": {"endian": "little"}}]}}, value))
    for path, keys, value in made:
        for key, metadata in keys.items():
            os.makedirs(os.path.dirname(os.path.join(path, key)), exist_ok=True)
            with open(os.path.join(path, key), "w") as file:
                json.dump(metadata, file)
        if value is None:
            with xarray.open_zarr(path, consolidated=False) as data:
                value = data["a"].values.astype("f8")
        np.savez(path + ".npz", a=np.full(3, value, "f8"))
        yield {"store": path, "names": ["a"], "expected": path + ".npz", "text": json.dumps(keys)}


def main():
    folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    made = [OddStore(folder, n, np.random.default_rng([seed, 99, n])).write() for n in range(count)]
    with open(os.path.join(folder, "stores.json"), "w") as file:
        json.dump(made + list(fill_values(folder)), file)


main()
