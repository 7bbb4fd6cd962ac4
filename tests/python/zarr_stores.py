# SPDX-License-Identifier: BSD-3-Clause
"""Zarr stores of random layout, written by zarr-python, and the values that a reader should find in them."""
import itertools
import os
import random
import zipfile

import numcodecs
import numpy as np
import zarr
from zarr.codecs import (BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec)

TYPES = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "f2", "f4", "f8"]


def values_of(pick, dtype, shape):
    rng = np.random.default_rng(pick.randrange(2**32))
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return rng.integers(max(limits.min, -2**52), min(limits.max, 2**52), shape, endpoint=True).astype(kind)
    return (rng.standard_normal(shape) * 100).astype(kind)


def codecs_of_version2(pick, kind):
    filters, compressor = [], None
    if pick.random() < 0.2 and kind.itemsize > 1 and kind.kind != "b":
        filters = [numcodecs.Shuffle(kind.itemsize)]
    which = pick.choice(["none", "zlib", "gzip", "zstd", "blosc", "blosc", "blosc"])
    if which == "zlib":
        compressor = numcodecs.Zlib(pick.randint(1, 9))
    elif which == "gzip":
        compressor = numcodecs.GZip(pick.randint(1, 9))
    elif which == "zstd":
        compressor = numcodecs.Zstd(pick.randint(1, 5))
    elif which == "blosc":
        compressor = numcodecs.Blosc(pick.choice(["lz4", "lz4hc", "zstd", "zlib", "blosclz"]), pick.randint(1, 9), pick.choice([0, 1, 2]))
    return filters, compressor


def byte_codecs(pick, kind):
    chosen = []
    which = pick.choice(["none", "gzip", "zstd", "blosc", "blosc"])
    if pick.random() < 0.2:
        chosen.append(Crc32cCodec())
    if which == "gzip":
        chosen.append(GzipCodec(level=pick.randint(0, 9)))
    elif which == "zstd":
        chosen.append(ZstdCodec(level=pick.randint(0, 5), checksum=pick.random() < 0.3))
    elif which == "blosc":
        chosen.append(BloscCodec(typesize=kind.itemsize, cname=pick.choice(["lz4", "lz4hc", "zstd", "zlib", "blosclz"]), clevel=pick.randint(1, 9),
                                 shuffle=pick.choice(["noshuffle", "shuffle", "bitshuffle"])))
    if pick.random() < 0.2:
        chosen.append(Crc32cCodec())
    return chosen


def inner_codecs(pick, kind, ndim):
    chosen = []
    if ndim > 1 and pick.random() < 0.3:
        order = list(range(ndim))
        pick.shuffle(order)
        chosen.append(TransposeCodec(order=order))
    chosen.append(BytesCodec(endian=pick.choice(["little", "big"]) if kind.itemsize > 1 else None))
    return chosen + byte_codecs(pick, kind)


def add_array(pick, group, name, version, what):
    """One array, of which some cells may never have been written. Its text says how it is stored; returns what a reader finds."""
    kind = np.dtype(pick.choice(TYPES))
    ndim = pick.choice([0, 1, 1, 2, 2, 3, 3, 4])
    shape = tuple(pick.randint(1, 14) for _ in range(ndim))
    chunks = tuple(pick.randint(1, n + 3) for n in shape)
    full = values_of(pick, kind, shape)
    fill = pick.choice([None, 0, 7]) if version == 2 else pick.choice([0, 7])
    if kind.kind == "f" and pick.random() < 0.4:
        fill = "NaN" if version == 2 else float("nan")
    if kind.kind == "b":
        fill = False
    options = {"fill_value": fill}
    if version == 2:
        stored = kind.newbyteorder(">") if kind.itemsize > 1 and pick.random() < 0.3 else kind
        filters, compressor = codecs_of_version2(pick, kind)
        keys = {"name": "v2", "separator": pick.choice([".", "/"])}
        if fill == "NaN":
            options["fill_value"] = float("nan")
        array = group.create_array(name, shape=shape, chunks=chunks if ndim else "auto", dtype=stored, filters=filters or None,
                                   compressors=compressor, order=pick.choice("CF"), chunk_key_encoding=keys, **options)
    else:
        codecs = inner_codecs(pick, kind, ndim)
        if ndim and pick.random() < 0.5:
            inner = chunks
            chunks = tuple(c * pick.randint(1, 3) for c in inner)
            index = [BytesCodec(endian=pick.choice(["little", "big"]))] + ([Crc32cCodec()] if pick.random() < 0.7 else [])
            codecs = [ShardingCodec(chunk_shape=inner, codecs=codecs, index_codecs=index, index_location=pick.choice(["start", "end"]))]
        keys = {"name": pick.choice(["default", "v2"]), "separator": pick.choice([".", "/"])}
        array = zarr.create(store=group.store, path=f"{group.path}/{name}".strip("/"), shape=shape, chunks=chunks, dtype=kind, codecs=codecs,
                            zarr_format=3, chunk_key_encoding=(keys["name"], keys["separator"]), dimension_names=[f"{name}_{i}" for i in range(ndim)], **options)
    if version == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = [f"{name}_{i}" for i in range(ndim)]
    written = np.full(shape, np.nan if fill == "NaN" else 0 if fill is None else fill, kind)
    if pick.random() < 0.3 and ndim:
        part = tuple(slice(0, pick.randint(0, n)) for n in shape)
        array[part] = full[part]
        written[part] = full[part]
    else:
        array[...] = full
        written[...] = full
    found = written.astype(np.float64)
    if version == 2 and fill not in (None, "NaN"):  # what xarray takes for missing
        found = np.where(written == np.array(fill).astype(kind), np.nan, found)
    what.append(f"{name}: {array.metadata.to_dict()}")
    return found


def make(folder, seed, count):
    """Stores with `count` arrays in all; [(path, {name: values}, texts)]."""
    pick = random.Random(seed)
    made = []
    for number in itertools.count():
        if sum(len(values) for _, values, _ in made) >= count:
            return made
        version = pick.choice([2, 3])
        path = os.path.join(folder, f"store{number}.zarr")
        root = zarr.open_group(path, mode="w", zarr_format=version)
        values, what = {}, []
        for i in range(5):
            inside = pick.random() < 0.2
            group = root.require_group("inner") if inside else root
            values[("inner/" if inside else "") + f"a{i}"] = add_array(pick, group, f"a{i}", version, what)
        if pick.random() < 0.5:
            zarr.consolidate_metadata(path, zarr_format=version)
        if pick.random() < 0.25:
            with zipfile.ZipFile(path + ".zip", "w", zipfile.ZIP_STORED) as archive:
                for where, _, names in os.walk(path):
                    for name in names:
                        full = os.path.join(where, name)
                        archive.write(full, os.path.relpath(full, path))
            path += ".zip"
        made.append((path, values, what))
