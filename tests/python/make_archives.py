# SPDX-License-Identifier: BSD-3-Clause
"""make_archives.py FOLDER SEED COUNT: netCDF files in COUNT of the many ways in which people have them, and what they hold.

Each variation is a file, or a series of them, and a file of numpy with the values, times and coordinates as netCDF4, xarray
and cftime read them; `variations.json` lists them. `test_archives.py` compares. A process of its own: netCDF4 has another HDF5.
"""
import json
import os
import sys

import cftime
import netCDF4
import numpy as np
import xarray

CALENDARS = {"standard": "standard", "gregorian": "standard", "proleptic_gregorian": "proleptic_gregorian", "julian": "julian",
             "noleap": "noleap", "365_day": "noleap", "all_leap": "all_leap", "366_day": "all_leap", "360_day": "360_day",
             "NOLEAP": "noleap", None: "standard"}
UNITS = {"seconds": 1, "second": 1, "minutes": 60, "Minutes": 60, "mins": 60, "hours": 3600, "Hours": 3600, "hour": 3600,
         "HOURS": 3600, "hr": 3600, "h": 3600, "days": 86400, "Days": 86400, "day": 86400, "d": 86400}
CLOCKS = ["", " 00:00", " 00:00:00", " 00:00:0.0", "T00:00:00", " 06:30:00", " 12:00:00 UTC", "T18:00:00Z"]
SPELLINGS = [("K", "kelvin"), ("m s-1", "m/s"), ("m s**-1", "m s-1"), ("kg m-2 s-1", "kg/m2/s"), ("1", "")]


# Those of plugins that this netCDF4 has, and szip, which HDF5 may have itself.
FILTERS = [{}, {}, {"zlib": True}, {"zlib": True, "shuffle": False}, {"zlib": True, "complevel": 9}, {"fletcher32": True}]
FILTERS += [{"compression": name, "shuffle": shuffle} for name, has in
            (("zstd", "__has_zstandard_support__"), ("bzip2", "__has_bzip2_support__"), ("szip", "__has_szip_support__"))
            for shuffle in (False, True) if getattr(netCDF4, has, False) and os.environ.get("HDF5_PLUGIN_PATH")]


class Variation:
    def __init__(self, folder, number, random):
        self.folder, self.number, self.random = folder, number, random
        self.num_files = int(random.choice([1, 1, 1, 2, 3]))
        self.calendar = self.pick(list(CALENDARS))
        self.times = np.cumsum(self.random.integers(1, 5, 12)) * 21600  # seconds from the first reference
        self.counts = [int(n) for n in random.integers(1, 4, self.num_files)]
        self.ny, self.nx = int(random.integers(3, 8)), int(random.integers(4, 10))
        self.first_year = int(self.pick([1, 850, 1500, 1850, 1900, 1979, 2000, 2001]))
        if self.first_year < 1600 and self.calendar == "proleptic_gregorian":
            self.first_year = 1850  # cftime and datetime disagree on what is before
        self.coordinates = self.pick(["own", "own", "own", "auxiliary"])
        self.names = self.pick([("time", "lat", "lon"), ("time", "latitude", "longitude"), ("valid_time", "latitude", "longitude")])
        self.level = self.pick([None, None, ("level", "hPa"), ("plev", "Pa"), ("lev", "millibars")])
        self.axis_order = self.random.permutation(4 if self.level else 3) if self.random.integers(4) == 0 else None
        self.kind = self.pick(["f4", "f8", "packed i2", "packed u1", "packed i4", "i4", "f4 valid", "f4 default", "i2 default", "f4 >"])
        self.filters = self.pick(FILTERS)
        self.unlimited = bool(random.integers(2)) or self.num_files > 1
        self.units = self.pick(SPELLINGS)
        self.lat, self.lon = self.places()

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def places(self):
        lat = np.linspace(80, -80, self.ny)
        if self.random.integers(2):
            lat = lat[::-1]
        step = 360 / self.nx
        lon = self.pick([np.arange(self.nx) * step, -180 + np.arange(self.nx) * step, 340 + np.arange(self.nx) * 4.0,
                         np.mod(352 + np.arange(self.nx) * 4.0, 360)])
        kind = self.pick(["f4", "f8"])
        return lat.astype(kind), lon.astype(kind)

    def reference(self, place):
        """A date that the file counts from, and its text."""
        year, month, day = self.first_year, int(self.random.integers(1, 13)) if place else 1, 1
        clock = self.pick(CLOCKS)
        second = {"06": 23400, "12": 43200, "18": 64800}.get(clock[1:3], 0)
        text = self.pick([f"{year:04d}-{month:02d}-{day:02d}", f"{year:04d}-{month}-{day}"]) + clock
        date = cftime.datetime(year, month, day, second // 3600, second // 60 % 60, 0, calendar=CALENDARS[self.calendar])
        return date, text

    def write(self):
        stem = os.path.join(self.folder, f"v{self.number:03d}")
        files, at = [], 0
        begin = cftime.datetime(self.first_year, 2, 27, calendar=CALENDARS[self.calendar])
        moments = [cftime.num2date(int(s), f"seconds since {begin.isoformat()}", CALENDARS[self.calendar]) for s in self.times]
        for place, count in enumerate(self.counts):
            files.append(f"{stem}_{place}.nc")
            self.write_file(files[-1], place, moments[at:at + count])
            at += count
        expected = self.expected(files)
        np.savez(f"{stem}.npz", **expected)
        return {"files": files, "expected": f"{stem}.npz", "calendar": CALENDARS[self.calendar], "time": self.names[0],
                "lat": self.axis_names()[-2], "lon": self.axis_names()[-1], "text": self.text()}

    def text(self):
        return f"{self.number}: {self.kind} {self.calendar} {self.counts} {self.names} {self.level} {self.coordinates} {self.filters}"

    def axis_names(self):
        return ("y", "x") if self.coordinates == "auxiliary" else self.names[1:]

    def write_file(self, path, place, moments):
        data = netCDF4.Dataset(path, "w", format=self.pick(["NETCDF4", "NETCDF4", "NETCDF4_CLASSIC"]))
        y, x = self.axis_names()
        time = self.names[0]
        data.createDimension(time, None if self.unlimited else len(moments))
        data.createDimension(y, self.ny)
        data.createDimension(x, self.nx)
        reference, text = self.reference(place)
        unit = self.pick(list(UNITS))
        seconds = np.array([round((m - reference).total_seconds()) for m in moments])
        kind = self.pick(["f8", "i4", "i8"]) if np.all(seconds % UNITS[unit] == 0) else "f8"
        if data.data_model == "NETCDF4_CLASSIC" and kind == "i8":
            kind = "f8"
        if kind == "i4" and np.abs(seconds / UNITS[unit]).max() > 2**31 - 1:
            kind = "f8"
        v = data.createVariable(time, kind, (time,))
        v.units = f"{unit} since {text}"
        if self.calendar is not None:
            v.calendar = self.calendar
        v.standard_name = "time"
        v[:] = seconds / UNITS[unit] if kind == "f8" else seconds // UNITS[unit]
        for name, axis, values, units in ((self.names[1], y, self.lat, "degrees_north"), (self.names[2], x, self.lon, "degrees_east")):
            v = data.createVariable(name, values.dtype, (axis,))
            v.units = units
            v.standard_name = "latitude" if units == "degrees_north" else "longitude"
            v[:] = values
        axes = [time, y, x]
        if self.level:
            name, units = self.level
            data.createDimension(name, 3)
            v = data.createVariable(name, "f8", (name,))
            v.units = units
            v[:] = np.array([1000, 850, 500]) * (100 if units == "Pa" else 1)
            axes.insert(1, name)
        if self.axis_order is not None:
            axes = [axes[i] for i in self.axis_order]
        if self.random.integers(3) == 0 and data.data_model == "NETCDF4":
            text = data.createVariable("expver", str, (time,))
            text[:] = np.array(["0001"] * len(moments), dtype=object)
            number = data.createVariable("number", "i8", ())
            number[...] = 7
        self.write_values(data, axes, place, len(moments))
        data.close()

    def write_values(self, data, axes, place, num_times):
        kind = self.kind
        options = dict(self.filters) if self.random.integers(2) else {}
        stored = {"packed i2": "i2", "packed u1": "u1", "packed i4": "i4", "i2 default": "i2", "i4": "i4", "f8": "f8", "f4 >": ">f4"}.get(kind, "f4")
        if stored == "u1" and data.data_model == "NETCDF4_CLASSIC":
            stored = "i1"
        fills = {"i2": -999, "u1": 255, "i4": -2147480000}
        fill = fills.get(stored) if kind.startswith("packed") and self.random.integers(2) else None
        v = data.createVariable("z", stored, axes, fill_value=fill, endian="big" if stored == ">f4" else "native", **options)
        v.units = self.units[place % 2]
        v.set_auto_maskandscale(False)
        shape = tuple(num_times if a == self.names[0] else len(data.dimensions[a]) for a in axes)
        if kind.startswith("packed") or kind == "i2 default":
            v.scale_factor = self.pick([np.float64(0.01), np.float32(0.5), np.float64(2)])
            v.add_offset = self.pick([np.float64(273.15), np.float32(-1.5)])
            low, high = {"i1": (-100, 100), "u1": (0, 200), "i2": (-900, 30000), "i4": (-100000, 100000)}[stored]
            values = self.random.integers(low, high, shape).astype(stored)
            if fill is not None:
                values[self.random.random(shape) < 0.2] = fill
            elif stored not in ("i1", "u1"):
                values[self.random.random(shape) < 0.2] = netCDF4.default_fillvals[stored]
        elif kind == "i4":
            values = self.random.integers(-1000, 1000, shape).astype("i4")
        else:
            values = self.random.normal(size=shape).astype(stored) * 100
            if kind == "f4 valid":
                v.valid_min, v.valid_max = np.float32(-50), np.float32(80)
            if kind == "f4 default":
                values[self.random.random(shape) < 0.2] = netCDF4.default_fillvals["f4"]
            if kind == "f8":
                v.missing_value = np.float64(-1e20)
                values[self.random.random(shape) < 0.2] = -1e20
        v[:] = values

    def expected(self, files):
        values, dates, axis = [], [], None
        for path in files:
            with netCDF4.Dataset(path) as data:
                z, time = data["z"], data[self.names[0]]
                axis = z.dimensions.index(self.names[0])
                raw = z[:]
                values.append(np.ma.filled(np.ma.asarray(raw, dtype=np.float64), np.nan))
                moments = cftime.num2date(np.asarray(time[:], dtype="f8"), time.units.lower(), CALENDARS[self.calendar],
                                          only_use_cftime_datetimes=True)
                dates += [[d.year, d.month, d.day, d.hour * 3600 + d.minute * 60 + d.second] for d in np.atleast_1d(moments)]
                lat, lon = np.asarray(data[self.names[1]][:], "f8"), np.asarray(data[self.names[2]][:], "f8")
            self.compare_with_xarray(path, values[-1])
        return {"z": np.concatenate(values, axis), "dates": np.array(dates), "lat": lat, "lon": lon}

    def compare_with_xarray(self, path, values):
        """Two readers of Python agree, where xarray follows the conventions: it knows no default fill values and no limits."""
        with xarray.open_dataset(path, decode_times=False) as data:
            other = np.asarray(data["z"].values, "f8")
            assert other.shape == values.shape, self.text()
            both = ~np.isnan(values) & ~np.isnan(other)
            assert both.any() or np.isnan(values).all(), self.text()
            assert np.allclose(other[both], values[both], rtol=1e-5, atol=1e-5), self.text()
            assert not np.any(np.isnan(other) & ~np.isnan(values)), self.text()


def main():
    folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    made = [Variation(folder, n, np.random.default_rng([seed, n])).write() for n in range(count)]
    with open(os.path.join(folder, "variations.json"), "w") as file:
        json.dump(made, file)


main()
