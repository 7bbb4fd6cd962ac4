#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""copies.py SEED COUNT COMMAND...: random data sets, as netCDF-4 files and stores of both versions of Zarr, copied by graticule-repartition to
either format and back, and compared with the source by xarray: names, dimensions, types, every value and attribute.

All types, text and strings, fill values, packed values, scalars, extents of zero, unlimited dimensions, cells that were never written, chunks,
filters, shards. Where the format lacks something the copy has what docs/zarr.md says: f16 is f32 in netCDF, and text has no `_FillValue`."""
import base64
import os
import shutil
import struct
import subprocess
import sys
import warnings

import netCDF4
import numpy as np
import xarray
import zarr

warnings.simplefilter("ignore")
NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
AXES = [(), ("lat",), ("lat", "lon"), ("time", "lat"), ("time", "lat", "lon"), ("zero", "lat"), ("time",), ("lat", "zero")]


class Maker:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, of):
        return self.random.integers(of) == 0

    def attributes(self, plain):
        found = {}
        for name in NUMBERS:
            if not self.chance(3):
                continue
            kind = np.dtype(name)
            limits = [] if kind.kind == "f" else [np.iinfo(kind).max, np.iinfo(kind).min]
            value = kind.type(self.pick([0.1, -2.5, 1e30, np.nan, np.inf] if kind.kind == "f" else [0, 1, 100] + limits))
            found["a_" + name] = np.array([value, kind.type(3)]) if self.chance(3) else value
        if self.chance(3):
            found["text"] = self.pick(["K", "", "Zürich °C", "a\nb", "x" * 300])
        if self.chance(4):
            found["texts"] = self.pick([["a", "bcd"], ["é", ""], ["one"]])
        return {k: v.tolist() if plain and hasattr(v, "tolist") else v for k, v in found.items()}

    def values(self, kind, shape):
        kind = np.dtype(kind)
        if kind.kind == "f":
            values = np.asarray((self.random.normal(size=shape) * 100).astype(kind))
            if values.ndim:
                values[self.random.random(shape) < 0.1] = self.pick([np.nan, 0, -0.0, np.inf, 7])
            return values
        if kind.kind == "b":
            return np.asarray(self.random.integers(0, 2, shape).astype(kind))
        if kind.kind in "iu":
            limits, whole = np.iinfo(kind), kind.itemsize < 8 and self.chance(2)
            lower, upper = (limits.min, limits.max) if whole else (max(limits.min, -200), min(limits.max, 200))
            return np.asarray(self.random.integers(lower, upper, shape).astype(kind))
        words = np.array([b"", b"a", b"bc", b"xyz"], kind) if kind.kind == "S" else np.array(["", "a", "bc", "Zü"], kind)
        return np.asarray(words[self.random.integers(0, len(words), shape)])

    def fill(self, kind):
        if kind.kind == "f":
            return kind.type(self.pick([np.nan, -9999, 0, 7, 100]))
        return kind.type(self.pick([0, 7, np.iinfo(kind).max, np.iinfo(kind).min])) if kind.kind in "iu" else None

    def fields(self):
        extents = {"time": self.pick([0, 1, 3, 5]), "lat": self.pick([1, 2, 4]), "lon": self.pick([1, 3, 5]), "zero": 0}
        return extents, [(f"v{i}", axes, tuple(extents[a] for a in axes)) for i, axes in enumerate(self.pick(AXES) for _ in range(4))]

    def file(self, path):
        extents, fields = self.fields()
        unlimited = {a for a in extents if self.chance(3)}
        with netCDF4.Dataset(path, "w") as file:
            file.setncatts(self.attributes(False))
            for axis, extent in extents.items():
                file.createDimension(axis, None if axis in unlimited else extent)
                if self.chance(2) or axis in unlimited:  # else records of one variable may be fewer than those of others
                    file.createVariable(axis, self.pick(["i4", "f8"]), (axis,))[:] = np.arange(extent)
            for name, axes, shape in fields:
                kind = self.pick(NUMBERS + ["S1", "S1", str])
                is_string = kind is str
                fill = None
                if self.chance(2):
                    fill = "missing" if is_string else b"x" if kind == "S1" else self.fill(np.dtype(kind))
                options = {}
                if shape and not is_string and 0 not in shape and self.chance(2):
                    options = self.pick([{"zlib": True}, {"zlib": True, "shuffle": False}, {"fletcher32": True},
                                         {"chunksizes": tuple(max(1, n // 2) for n in shape)}])
                if not is_string and kind != "S1" and self.chance(4):
                    options["endian"] = "big"
                variable = file.createVariable(name, kind, axes, fill_value=fill, **options)
                variable.set_auto_maskandscale(False)
                variable.set_auto_chartostring(False)
                variable.setncatts(self.attributes(False))
                if kind in ("i1", "i2", "u2", "i4") and self.chance(3):
                    variable.setncatts({"scale_factor": self.pick([0.5, 2.0]), "add_offset": self.pick([0.0, 273.15])})
                if 0 not in shape and (not self.chance(6) or unlimited.intersection(axes)):
                    variable[...] = self.values("U3", shape).astype(object) if is_string else self.values(kind, shape)

    def store(self, path, version):
        extents, fields = self.fields()
        group = zarr.open_group(path, mode="w", zarr_format=version)
        group.attrs.update(self.attributes(True))

        def put(name, axes, values, fill):
            shape = values.shape
            options = {"dimension_names": list(axes)} if version == 3 and axes else {}
            if self.chance(3):
                options["compressors"] = None
            chunks = tuple(int(self.random.integers(1, n + 2)) for n in shape) if shape else "auto"
            if version == 3 and shape and self.chance(3):
                options["shards"] = tuple(2 * n for n in chunks)
            array = group.create_array(name, shape=shape, chunks=chunks, dtype=str if values.dtype == object else values.dtype, fill_value=fill, **options)
            attributes = self.attributes(True)
            if version == 2:
                attributes["_ARRAY_DIMENSIONS"] = list(axes)
            elif fill is not None and values.dtype.kind in "iuf" and self.chance(2):
                attributes["_FillValue"] = base64.b64encode(struct.pack("<d", fill)).decode() if values.dtype.kind == "f" else int(fill)
            if values.dtype.kind in "iu" and values.dtype.itemsize < 8 and self.chance(4):
                attributes.update({"scale_factor": self.pick([0.5, 2.0]), "add_offset": self.pick([0.0, 273.15])})
            array.attrs.update(attributes)
            if not self.chance(6):
                array[...] = values
            elif shape and shape[0] > 1:
                array[0] = values[0]

        for axis, extent in extents.items():
            if extent and self.chance(2):
                put(axis, (axis,), np.arange(extent).astype(self.pick(["i4", "f8"])), None)
        for name, axes, shape in fields:
            kind = self.pick(NUMBERS + ["f2", "f2", "b1", "S3", "S1", "S300", "U3", "O"])
            values = self.values("U3" if kind == "O" else kind, shape).astype("O" if kind == "O" else kind)
            fill = self.fill(np.dtype(kind)) if kind != "O" and self.chance(2) else None
            if kind[0] in "SU" and self.chance(2):
                fill = np.array("x", kind)[()]
            put(name, axes, values, fill)
        if self.chance(2):
            zarr.consolidate_metadata(path, zarr_format=version)


def opened(path, masked):
    options = {"mask_and_scale": masked, "decode_times": False, "decode_coords": False}
    return xarray.open_zarr(path, consolidated=None, **options) if path.endswith(".zarr") else xarray.open_dataset(path, engine="netcdf4", **options)


def same_attribute(a, b):
    a, b = (v.tolist() if hasattr(v, "tolist") else v for v in (a, b))
    a, b = (v if isinstance(v, list) else [v] for v in (a, b))
    if a and isinstance(a[0], str):
        return "\n".join(map(str, a)) == "\n".join(map(str, b))
    return len(a) == len(b) and all(x == y or (x != x and y != y) for x, y in zip(a, b))


def texts_of(values):
    """Of strings, of text, and of characters along one more axis."""
    return [v.decode() if isinstance(v, bytes) else "" if v is None or v != v else str(v) for v in values.ravel().tolist()]


def same_values(a, b):
    if a.dtype.kind in "OUST" or b.dtype.kind in "OUST":
        if a.ndim != b.ndim and a.size and b.size:
            a, b = (netCDF4.chartostring(v) if v.ndim > min(a.ndim, b.ndim) else v for v in (a, b))
        return texts_of(a) == texts_of(b)
    a, b = (v.astype("u1") if v.dtype.kind == "b" else v for v in (a, b))
    if a.shape != b.shape or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
        return False
    return a.dtype.kind != "f" or np.array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]))


def differences(source, copy, formats):
    found = []
    for masked in (False, True):
        with opened(source, masked) as a, opened(copy, masked) as b:
            if set(a.variables) != set(b.variables):
                return [f"variables {set(a.variables) ^ set(b.variables)}"]
            for name in a.variables:
                old, new = np.asarray(a[name].values), np.asarray(b[name].values)
                is_text = old.dtype.kind in "OUST"
                if masked and is_text:
                    continue
                kinds = [v.dtype.newbyteorder("=") for v in (old, new)] if not is_text else [0, 0]
                widened = not is_text and old.dtype.kind == "b" or old.dtype == "f2" and "nc" in formats
                if not masked and kinds[0] != kinds[1] and not widened:
                    found.append(f"{name}: {kinds}")
                if not is_text and a[name].dims != b[name].dims:
                    found.append(f"{name}: {a[name].dims} {b[name].dims}")
                if not same_values(old, new):
                    found.append(f"{name}: masked {masked}: {old.ravel()[:6].tolist()} {new.ravel()[:6].tolist()}")
                if masked:
                    continue
                one, other = a[name].attrs, b[name].attrs
                left_out = {"_Encoding"} | ({"_FillValue"} if is_text or old.size == 0 else set())
                found += [f"{name}.{k}: {one.get(k)!r} {other.get(k)!r}" for k in (set(one) | set(other)) - left_out
                          if k not in one or k not in other or not same_attribute(one[k], other[k])]
            found += [f".{k}: {a.attrs.get(k)!r} {b.attrs.get(k)!r}" for k in set(a.attrs) | set(b.attrs)
                      if k not in a.attrs or k not in b.attrs or not same_attribute(a.attrs[k], b.attrs[k])]
    return found


def copy(command, source, target):
    shutil.rmtree(target, ignore_errors=True)
    made = subprocess.run([*command, source, target, "--progress", "none"], capture_output=True, text=True)
    return made.stderr if made.returncode else ""


def main():
    seed, count, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    num_wrong = 0
    for number in range(count):
        maker = Maker([seed, number])
        version = maker.pick([None, 2, 3])
        own = "zarr" if version else "nc"
        source = f"source{number}.{own}"
        if version:
            maker.store(source, version)
        else:
            maker.file(source)
        for other in ("zarr", "nc"):
            formats = [own, other]
            for origin, target in ((source, f"copy{number}.{other}"), (f"copy{number}.{other}", f"back{number}.{own}")):
                problem = copy(command, origin, target)
                found = [problem] if problem else differences(source, target, formats[1:] + [target.rpartition(".")[2]])
                for text in found:
                    print(f"seed {seed}, number {number}, {own} of version {version} to {other}, {target}: {text}")
                num_wrong += len(found)
                if problem:
                    break
        for name in os.listdir("."):
            if f"{number}." in name and not num_wrong:
                (shutil.rmtree if os.path.isdir(name) else os.remove)(name)
    return 1 if num_wrong else 0


sys.exit(main())
