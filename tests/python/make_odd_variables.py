# SPDX-License-Identifier: BSD-3-Clause
"""make_odd_variables.py FOLDER SEED COUNT: netCDF files with a variable each whose attributes are written in rare ways.

Scales of other types than the values, as lists, unsigned integers that say so by `_Unsigned`, several missing values of another
type, limits, both byte orders, names beyond ASCII, groups, variables without axes or without cells, units of time with blanks
round them. `variables.json` has the name of each, and the file of numpy with its values as netCDF4 reads them.
"""
import json
import os
import sys

import cftime
import netCDF4
import numpy as np
import xarray

NAMES = ["z", "Z2", "température", "气温", "a-b.c", "x" * 100, "with blank", "_leading"]
STORED = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8", ">i2", ">i4", ">f4", ">f8", ">u2"]


class Odd:
    def __init__(self, folder, number, random):
        self.folder, self.number, self.random = folder, number, random
        self.name = self.pick(NAMES)
        self.stored = self.pick(STORED)
        self.group = self.pick(["", "", "", "forecast", "forecast/surface"])
        self.axes = [f"d{i}" for i in range(int(random.integers(0, 5)))]
        self.extents = [int(random.integers(1, 6)) for _ in self.axes]
        if self.axes and random.integers(10) == 0:
            self.extents[0] = 0
        self.unlimited = [bool(random.integers(3) == 0) for _ in self.axes]
        self.notes = []

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, of):
        return self.random.integers(of) == 0

    def number_like(self, value):
        """A number as an attribute of some type that holds it, now and then as a list of one."""
        # numpy multiplies in the wider of two integers, and netCDF4 gives values of floats the type of their scale.
        kinds = ["f8", "f4"] + (["i8"] if value == int(value) and np.dtype(self.stored).kind in "iu" and np.dtype(self.stored).itemsize < 8 else [])
        kind = self.pick(kinds)
        self.notes.append(f"{value}:{kind}")
        return np.array([value], kind) if self.chance(3) else np.dtype(kind).type(value)

    def values(self, v):
        kind = np.dtype(self.stored)
        shape = tuple(self.extents)
        if kind.kind == "f":
            return (self.random.normal(size=shape) * 100).astype(kind)
        limits = np.iinfo(kind)
        low, high = max(limits.min + 2, -1000), min(limits.max - 2, 1000)
        if self.chance(3) and kind.itemsize < 8:
            low, high = limits.min + 2, limits.max - 2
        return self.random.integers(low, high, shape).astype(kind)

    def write(self):
        path = os.path.join(self.folder, f"odd_{self.number}.nc")
        with netCDF4.Dataset(path, "w") as data:
            group = data.createGroup(self.group) if self.group else data
            for axis, extent, is_unlimited in zip(self.axes, self.extents, self.unlimited):
                (data if self.chance(2) else group).createDimension(axis, None if is_unlimited else extent)
            kind = np.dtype(self.stored)
            is_integer = kind.kind in "iu"
            fill = None
            if self.chance(2):
                fill = np.nan if not is_integer and self.chance(2) else kind.newbyteorder("=").type(self.pick([0, 7, 100]))
            options = {"zlib": True, "shuffle": bool(self.chance(2))} if self.axes and self.chance(2) else {}
            v = group.createVariable(self.name, kind, self.axes, fill_value=fill if fill is not None else None,
                                     endian="big" if self.stored[0] == ">" else "native", **options)
            v.set_auto_maskandscale(False)
            packed = self.chance(2) if is_integer else self.chance(6)
            if packed and not self.chance(4):
                v.scale_factor = self.number_like(self.pick([0.01, 2, 0.5, 1, 1e-3]))
            if packed and not self.chance(4):
                v.add_offset = self.number_like(self.pick([273.15, 5, -1.5, 0, 40]))
            if is_integer and kind.kind == "i" and self.chance(4):
                v.setncattr("_Unsigned", self.pick(["true", "True"]))
                self.notes.append("unsigned")
            if self.stored in ("u1", "u2", "u4") and fill is None and self.chance(2):
                v.setncattr("_Unsigned", "false")
                self.notes.append("signed")
            if self.chance(3):
                several = self.chance(3)
                like = kind.newbyteorder("=")
                v.missing_value = np.array([3, 9], like) if several else like.type(self.pick([3, 100]))
                self.notes.append(f"missing {v.missing_value}")
            v[...] = self.values(v)
            if self.extents and 0 not in self.extents:
                raw = v[...]
                raw[self.random.random(raw.shape) < 0.2] = self.pick([0, 3, 7, 9, 100])
                v[...] = raw
            units, dates = self.write_time(data)
        with netCDF4.Dataset(path) as data:
            v = (data[self.group] if self.group else data).variables[self.name]
            wanted = np.ma.filled(np.ma.asarray(v[...]).astype(np.float64), np.nan)
        if "signed" in self.notes:  # netCDF4 knows the other direction only
            with xarray.open_dataset(path, group=self.group or None, decode_times=False) as data:
                values = np.asarray(data[self.name].values, "f8")
                wanted = np.where(np.isnan(wanted), np.nan, values)
        np.savez(os.path.join(self.folder, f"odd_{self.number}.npz"), values=wanted, dates=np.array(dates))
        name = f"{self.group}/{self.name}" if self.group else self.name
        return {"file": path, "name": name, "expected": path[:-3] + ".npz", "text":
                f"{self.number}: {name} {self.stored} {self.extents} fill {fill} {self.notes} units {units!r}"}

    def write_time(self, data):
        """Days whose units have blanks and capitals where people leave them."""
        data.createDimension("time", 3)
        v = data.createVariable("time", self.pick(["f8", "i4", "i2", "f4"]), ("time",))
        calendar = self.pick(["standard", "noleap", "360_day", "proleptic_gregorian"])
        year = int(self.pick([1582, 1900, 2000] if calendar == "standard" else [1900, 2000]))
        text = f"days since {year:04d}-10-04 00:00:00"
        if calendar == "standard" and year == 1582:
            self.notes.append("1582")
        units = self.pick(["{}", " {}", "{} ", "{}\n", "\t{}", "{}  "]).format(self.pick([text, text.replace(" since ", "  since  "), text.upper(), text]))
        v.units = units
        v.calendar = self.pick(["{}", "{}", " {}", "{} "]).format(calendar)
        v[:] = [0, 1, 400]
        moments = cftime.num2date([0, 1, 400], text, calendar, only_use_cftime_datetimes=True)
        return units, [[d.year, d.month, d.day, d.hour * 3600] for d in moments]


def main():
    folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    made = [Odd(folder, n, np.random.default_rng([seed, 53, n])).write() for n in range(count)]
    with open(os.path.join(folder, "variables.json"), "w") as file:
        json.dump(made, file)


main()
