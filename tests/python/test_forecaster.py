# SPDX-License-Identifier: BSD-3-Clause
"""A network of graticule-train in Python, against the forecast of graticule-forecast (make_forecaster.sh made both: NETWORK)."""
import datetime
import os

import numpy as np
import torch
from support import COMM, RANKS, balanced, close, main, raises, uneven

import graticule
from graticule import engine as e

FOLDER = os.environ["NETWORK"]
NAMES = ["h", "u", "v", "vorticity"]


def record(file, number, names, rows):
    """[channel][row][column] of a record of a file."""
    fields = np.zeros((len(names), rows.stop - rows.start, 32))
    for field, name in zip(fields, names):
        file.read(name, [number, rows.start, 0], [number + 1, rows.stop, 32], field)
    return torch.from_numpy(fields)


def files():
    comm = e.Comm.create(COMM)
    return [e.File.open(comm, f"{FOLDER}/{name}") for name in ("swe/series.nc", "forecast/forecast.nc")]


def test_steps_as_graticule_forecast():
    series, forecast = files()
    for rows in (None, uneven(16), [16] + [0] * (RANKS - 1)):
        network = graticule.Forecaster(f"{FOLDER}/net", rows=rows)
        time = datetime.datetime(2000, 1, 2)
        states = torch.stack([record(series, 4, NAMES[:3], network.rows), record(series, 3, NAMES[:3], network.rows)])
        for step in range(3):
            later = network.next(states, time)
            expected = record(forecast, step, NAMES, network.rows)
            for name, found, wanted in zip(NAMES, later, expected):
                close(found, wanted, {"h": 1e-5, "u": 1e-4, "v": 1e-4, "vorticity": 1e-6}[name])
            assert later.numel() == 0 or later[0].max() > 1000
            states = torch.stack([later[:3], states[0]])
            time += network.lead


def test_says_what_it_is():
    network = graticule.Forecaster(f"{FOLDER}/net")
    assert network.channels == NAMES and network.num_prognostic == 3 and network.history == 2
    assert network.lead == datetime.timedelta(hours=6)
    assert len(network.longitudes) == 32 and network.longitudes[1] == 11.25
    assert len(network.latitudes) == 16 and network.latitudes[0] == -84.375
    assert network.rows.stop - network.rows.start in balanced(16)
    states = torch.zeros(6, network.rows.stop - network.rows.start, 32)
    assert network.next(states, 0).dtype == torch.float32


class Date:
    """As dates of cftime are."""

    def __init__(self, calendar, year, month, day):
        self.calendar, self.year, self.month, self.day = calendar, year, month, day
        self.hour, self.minute, self.second, self.microsecond = 6, 0, 1, 0


def test_counts_in_its_calendar():
    network = graticule.Forecaster(f"{FOLDER}/net")
    assert network.calendar == "standard"
    seconds = network._seconds
    assert seconds(datetime.datetime(2000, 3, 1)) == 951868800 and seconds(951868800) == 951868800
    assert seconds(datetime.datetime(2000, 3, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))) == 951868800
    assert seconds(datetime.datetime(1999, 12, 31, 23, 59, 59, 999999)) == 946684800
    network.calendar = "365_day"
    assert network.calendar == "noleap" and seconds(datetime.datetime(1970, 3, 1)) == 59 * 86400
    assert seconds(Date("noleap", 1971, 1, 1)) == seconds(Date("365_day", 1971, 1, 1)) == 365 * 86400 + 6 * 3600 + 1
    raises("BadArgument", lambda: seconds(datetime.datetime(2000, 2, 29)), "no time of the calendar noleap")
    states = torch.zeros(6, network.rows.stop - network.rows.start, 32)
    for wrong in (Date("360_day", 1971, 1, 1), Date("julian", 1971, 1, 1)):
        try:
            network.next(states, wrong)
        except ValueError as error:
            assert wrong.calendar in str(error) and "noleap" in str(error)
        else:
            raise AssertionError("a date of another calendar was taken")
    network.calendar = "360_day"
    assert seconds(Date("360_day", 1970, 2, 30)) == 59 * 86400 + 6 * 3600 + 1
    raises("BadInput", lambda: setattr(network, "calendar", "lunar"), "the calendar 'lunar' is none of")


def test_refuses():
    raises("NoSuchFile", lambda: graticule.Forecaster("nowhere"), "nowhere does not exist")
    raises("LayoutMismatch", lambda: graticule.Forecaster(f"{FOLDER}/net", rows=balanced(18)), "18 x 32 cells")
    network = graticule.Forecaster(f"{FOLDER}/net")
    rows = network.rows.stop - network.rows.start
    raises("ShapeMismatch", lambda: network.next(torch.zeros(5, rows, 32), 0), "2 times, 3 prognostic channels")
    raises("ShapeMismatch", lambda: network.next(torch.zeros(rows, 32, 6), 0), "32 columns")


main(globals())
