# SPDX-License-Identifier: BSD-3-Clause
"""Networks that graticule-train has trained."""
import datetime
from typing import Any, List, Optional, Sequence

import torch

from . import _core
from ._errors import tensor_of
from ._library import handle_of, start


class Forecaster:
    """A network that `graticule-train --lead` has trained: steps states one lead in time, on bands of latitude.

    path: the output folder of graticule-train (its best network, else the last), a folder of checkpoints, or one of them.
    comm: a communicator of mpi4py, its `py2f()`, or None for all ranks; it is duplicated.
    rows: of each rank, from the first row of the file on; default: equal numbers.
    Collective. Errors: NoSuchFile, BadInput, BrokenFile, LayoutMismatch, BadCuts.
    Example: `network = Forecaster("run")`, `later = network.next(present, datetime.datetime(2006, 1, 6, 18))`.
    """

    def __init__(self, path: Any, comm: Any = None, rows: Optional[Sequence[int]] = None) -> None:
        handle = handle_of(comm)
        start()
        self._object = _core.Forecaster(handle, str(path), None if rows is None else list(rows))

    @property
    def channels(self) -> List[str]:
        """Names of the channels with their levels: prognostic ones, then diagnostic ones."""
        return self._object.channels

    @property
    def num_prognostic(self) -> int:
        """Channels of a state that a step starts from."""
        return self._object.num_prognostic

    @property
    def history(self) -> int:
        """States that a step starts from, one lead apart."""
        return self._object.history

    @property
    def lead(self) -> datetime.timedelta:
        """How far a step goes."""
        return datetime.timedelta(seconds=self._object.lead_seconds)

    @property
    def calendar(self) -> str:
        """In which times count, as files name it (`noleap`, `360_day`): that of the training until it is set. The same on all ranks."""
        return self._object.calendar

    @calendar.setter
    def calendar(self, name: str) -> None:
        self._object.calendar = name

    @property
    def latitudes(self) -> List[float]:
        """Of all rows of the grid, in degrees."""
        return self._object.latitudes

    @property
    def longitudes(self) -> List[float]:
        """Of all columns, in degrees."""
        return self._object.longitudes

    @property
    def rows(self) -> slice:
        """The rows of this rank."""
        return slice(*self._object.rows)

    def next(self, states: torch.Tensor, time: Any) -> torch.Tensor:
        """The state one lead after `time`: [channel][row][column], of the type and device of `states`. Collective.

        states: [time][channel][row][column] of this rank's rows, prognostic channels of the present, then of the states before
        it as far as `history` goes, in the units of the training's file; without the first axis where there is one state.
        Missing values are NaN, and stay so. time: of the present, a `datetime` (UTC), a date of cftime in `calendar`, or in seconds
        since 1970-01-01 of that calendar; counts for forcings alone.
        Gradients do not pass. Errors: ShapeMismatch; BadArgument for dates that the calendar has not.
        """
        return self._object.next(tensor_of(states, "states"), self._seconds(time))

    def _seconds(self, time: Any) -> int:
        """Since 1970 of the network's calendar."""
        if isinstance(time, int):
            return time
        if isinstance(time, datetime.datetime):
            if time.tzinfo is not None:
                time = time.astimezone(datetime.timezone.utc)
        else:
            own = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap", "": "standard"}.get(time.calendar, time.calendar)
            if own != self.calendar:
                raise ValueError(f"time is a date of the calendar {own}, the network counts in {self.calendar}; set its calendar")
        second = time.hour * 3600 + time.minute * 60 + time.second + (1 if time.microsecond >= 500000 else 0)
        # A second that rounds up to midnight belongs to the next day.
        return self._object.time_of_date(time.year, time.month, time.day, min(second, 86399)) + max(0, second - 86399)
