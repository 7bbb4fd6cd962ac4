# SPDX-License-Identifier: BSD-3-Clause
"""Fields of files as the samples of a training."""
from __future__ import annotations

import atexit
import datetime
import weakref
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch.utils.data import IterableDataset, get_worker_info

from . import _core
from ._domain import AxisPart, Domain, FieldPart
from ._errors import Error
from ._library import handle_of
from ._xarray import _paths_of

_living: "weakref.WeakSet[SampleDataset]" = weakref.WeakSet()


@atexit.register
def _end_reading() -> None:
    """HDF5 ends itself at the end of the process, where no thread may be reading."""
    for samples in list(_living):
        samples._samples.bytes_read()


Numbers = Union[float, Sequence[float]]
Names = Union[str, Sequence[str]]


class SampleDataset(IterableDataset):
    """Batches of samples on this rank's rows and columns: a torch IterableDataset, made by `open_samples`.

    Iterating gives `(inputs, targets)` of one epoch after the other: tensors (batch, history, channel, row, column) and (batch,
    steps, channel, row, column), without the axes of length 1 of `history=1` and `steps=1`, and without the first axis where
    `batch_size` is None. Collective: all ranks iterate alike. A thread reads the next batch meanwhile. `len()` is the number of
    batches (or samples) of an epoch on this data team.
    channels, target_channels: names, with levels. part: rows and columns that this rank holds. latitudes, longitudes: of the whole
    grid, degrees. epoch: the number of the epoch that the next loop begins, or that the running one is in.
    """

    def __init__(self, samples: Any, domain: Domain, options: Dict[str, Any]) -> None:
        super().__init__()
        self._samples, self._options = samples, options
        _living.add(self)
        self.channels: List[str] = samples.input_channels
        self.target_channels: List[str] = samples.target_channels
        self.latitudes: List[float] = samples.latitudes
        self.longitudes: List[float] = samples.longitudes
        self.part = FieldPart(*(AxisPart(domain.part[axis], tuple(samples.cuts(axis))) for axis in (0, 1)))
        self.epoch, self._next, self._running = 0, 0, False

    @property
    def num_samples(self) -> int:
        """Samples of an epoch on all data teams together."""
        return self._samples.num_samples

    @property
    def scaling(self) -> Dict[str, Tuple[List[float], List[float]]]:
        """Means and standard deviations of each scaled variable, one per level: `open_samples(..., scaling=train.scaling)`."""
        return self._samples.scaling

    @property
    def bytes_read(self) -> int:
        """Bytes that this rank has read from the files so far."""
        return self._samples.bytes_read()

    def __len__(self) -> int:
        return self._samples.num_batches

    def __iter__(self) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        worker = get_worker_info()
        if worker is not None:
            raise Error("BadOption", f"num_workers must be 0, got {worker.num_workers}: samples are read by a thread of this process, and workers of a "
                        "DataLoader cannot call MPI", "usage")
        if self._running:  # the last loop was left early
            self.epoch, self._next = self.epoch + 1, 0
        self._running = True
        return self._batches(self.epoch)

    def _batches(self, epoch: int) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        while self._next < len(self):
            if epoch != self.epoch:
                raise Error("WrongState", f"this loop is of epoch {epoch}, and another one has begun epoch {self.epoch}")
            pair = self._samples.batch(epoch, self._next)
            self._next += 1
            if self._options["batch_size"] is None:
                pair = tuple(fields[0] for fields in pair)
            for fields in pair:
                fields._graticule_field = True
            yield pair
        self.epoch, self._next, self._running = epoch + 1, 0, False

    def set_epoch(self, epoch: int) -> None:
        """The next loop begins this epoch, whose order of samples depends on it and on the seed. The same on all ranks."""
        if not isinstance(epoch, int) or epoch < 0:
            raise Error("BadOption", f"epoch must be a number from 0, got {epoch!r}", "argument")
        self.epoch, self._next, self._running = epoch, 0, False

    def times(self, epoch: int, number: int) -> List[str]:
        """Of the samples of a batch, of the last state of their history: "2000-01-01 06:00"."""
        return self._samples.times(epoch, number)

    def state_dict(self) -> Dict[str, Any]:
        """The position in the data, after the batch that was given last, equal on all ranks; for checkpoints."""
        return {"epoch": self.epoch, "position": self._next * self._global_batch, "num_samples": self.num_samples,
                "shuffle": self._options["shuffle"], "seed": self._options["seed"]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on there, also with other numbers of ranks and other batch sizes: from the last whole batch on.

        Errors: StateMismatch for another number of samples, order or seed.
        """
        own = self.state_dict()
        for name in ("num_samples", "shuffle", "seed"):
            if state.get(name) != own[name]:
                raise Error("StateMismatch", f"the state is of samples with {name} {state.get(name)!r}, these have {own[name]!r}", "input")
        self.epoch, self._next, self._running = int(state["epoch"]), int(state["position"]) // self._global_batch, False

    @property
    def _global_batch(self) -> int:
        return (self._options["batch_size"] or 1) * self._samples.num_teams


def open_samples(files: Any, domain: Domain, variables: Names, targets: Optional[Names] = None, *,
                 lead: Union[int, str, datetime.timedelta] = 1, history: int = 1, steps: int = 1, times: Optional[str] = None,
                 batch_size: Optional[int] = None, drop_last: bool = False, shuffle: bool = False, seed: int = 0, data_team: Any = None,
                 scaling: Union[None, str, Mapping[str, Tuple[Numbers, Numbers]]] = None, missing: str = "keep",
                 forcings: Optional[Names] = None, rows: Optional[Sequence[int]] = None, columns: Optional[Sequence[int]] = None,
                 dtype: torch.dtype = torch.float32, memory: Optional[int] = None) -> SampleDataset:
    """Samples of a training, from files: `history` states of some variables, and `steps` states that follow, `lead` apart.

    files: a netCDF-4 file, a Zarr store, a pattern or a list of those that follow each other in time. Each rank reads its own rows
    and columns only. Samples are counted along time (and members of ensembles); levels are channels. None crosses a gap in time.
    variables: names of the inputs. targets: likewise; default: the inputs. lead: steps of the time axis, a timedelta or "6h"; 0:
    targets of the inputs' time. times: "2000..2015", "2016-01": samples whose states all lie in it. batch_size: of one data team;
    None: single samples, for `DataLoader(samples, batch_size=4)`. drop_last: an epoch ends before a smaller batch. shuffle: by seed and epoch, alike on all ranks; whole batches do
    not depend on the number of ranks. data_team: a communicator of the ranks with the same rows of other domains, each of which
    gets other samples. scaling: (values - mean) / standard deviation, "standard" (computed from these samples in one pass, by area),
    or means and deviations by variable, numbers or lists over its levels. missing: cells without values: "keep" (NaN), "mean"
    (inputs become the mean of their channel, targets NaN) or "refuse". forcings: further channels of each input, from its time and
    place: "insolation" (the mean over the lead of the cosine of the sun's zenith angle, 0 at night), "time_of_day", "time_of_year". rows, columns: cells of each part; default: balanced.
    memory: bytes for samples kept on this rank as they are stored; default: a quarter of the node's memory, divided by its ranks.
    Collective over the domain and the data team; an error of one rank is raised on all. DataLoader: with `num_workers=0` only.
    Errors: BadOption, BadCuts, ArgumentDisagreement, NoSuchFile, MissingVariable, BadInput, those of files.
    Example: `samples = graticule.open_samples("era5_*.nc", domain, ["z", "t"], lead="6h", batch_size=4, shuffle=True)`,
    `for x, y in samples: ...`.
    """
    paths = _paths_of(files, "open_samples reads files and stores: write a Dataset of xarray first (data.to_zarr('fields.zarr')), or read it by open_shard")
    names = [paths] if isinstance(paths, str) else paths
    if isinstance(lead, datetime.timedelta):
        seconds = lead.total_seconds()
        if seconds != int(seconds) or seconds < 0:
            raise Error("BadOption", f"lead must be a number of seconds from 0, got {lead}", "argument")
        lead = f"{int(seconds)}s" if seconds else 0
    if dtype not in (torch.float32, torch.float64):
        raise Error("BadOption", f"dtype must be torch.float32 or torch.float64, got {dtype}", "argument")
    if isinstance(scaling, str) and scaling != "standard":
        raise Error("BadOption", f"scaling must be 'standard', numbers by variable, or None, got {scaling!r}", "argument")
    options = {"variables": _listed(variables), "targets": _listed(targets), "lead": str(lead), "history": history, "steps": steps,
               "times": times, "batch_size": 1 if batch_size is None else batch_size, "drop_last": bool(drop_last), "shuffle": bool(shuffle),
               "seed": seed, "forcings": _listed(forcings), "scaling": _scaling_of(scaling), "standard": scaling == "standard", "missing": missing, "rows": rows and list(rows),
               "columns": columns and list(columns), "f64": dtype == torch.float64, "memory": memory}
    team = None if data_team is None else handle_of(data_team)
    samples = _core.Samples(domain._object, names, team, options)
    return SampleDataset(samples, domain, {"batch_size": batch_size, "shuffle": bool(shuffle), "seed": seed})


def _listed(names: Optional[Names]) -> List[str]:
    return [] if names is None else [names] if isinstance(names, str) else [str(name) for name in names]


def _scaling_of(scaling: Any) -> Dict[str, Tuple[List[float], List[float]]]:
    if scaling is None or isinstance(scaling, str):
        return {}
    result = {}
    for name, pair in scaling.items():
        try:
            mean, deviation = pair
            result[str(name)] = tuple([float(n) for n in numbers] if hasattr(numbers, "__len__") else [float(numbers)]
                                      for numbers in (mean, deviation))
        except (TypeError, ValueError):
            raise Error("BadOption", f"scaling[{name!r}] must be a mean and a standard deviation, or two lists over levels, got {pair!r}",
                        "argument") from None
    return result  # type: ignore[return-value]
