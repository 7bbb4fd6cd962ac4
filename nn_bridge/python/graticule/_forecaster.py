# SPDX-License-Identifier: BSD-3-Clause
"""Networks that graticule-train has trained."""
import datetime
from typing import Any, List, Optional, Sequence, Union

import torch

from . import _core
from ._errors import tensor_of
from ._library import handle_of, start

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


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

    def next(self, states: torch.Tensor, time: Union[datetime.datetime, int]) -> torch.Tensor:
        """The state one lead after `time`: [channel][row][column], of the type and device of `states`. Collective.

        states: [time][channel][row][column] of this rank's rows, prognostic channels of the present, then of the states before
        it as far as `history` goes, in the units of the training's file; without the first axis where there is one state.
        Missing values are NaN, and stay so. time: of the present, UTC, or in seconds since 1970; counts for forcings alone.
        Gradients do not pass. Errors: ShapeMismatch.
        """
        if isinstance(time, datetime.datetime):
            utc = time if time.tzinfo else time.replace(tzinfo=datetime.timezone.utc)
            time = round((utc - _EPOCH).total_seconds())
        return self._object.next(tensor_of(states, "states"), time)
