# SPDX-License-Identifier: BSD-3-Clause
"""Domains, and fields cut over them."""
from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence, Tuple, Union

import torch

from . import _core
from ._errors import Error, tensor_of
from ._library import handle_of, start, uncompiled

Edges = Union[str, Tuple[str, str]]


class Domain:
    """The ranks that share one sample, their grid over (latitude, longitude), and the rules at the edges of the globe.

    comm: a communicator of mpi4py, its `py2f()`, a DeviceMesh, or None for all ranks; it is duplicated.
    grid: ranks along latitude and longitude; default: all along latitude.
    latitude, longitude: the rule beyond both edges, or one for each: "pole_face" (a pole on the outer face of the row),
    "pole_row" (on the row itself), "periodic", "replicate", "reflect", "constant", and the others of the halo plans.
    constant: beyond edges with the rule "constant". odd_longitudes: poles with an odd number of columns are shifted by
    half of them, rounded down, instead of refused. rows, columns: those of the globe, if sharded models shall refuse others, such
    as a whole field in the place of a shard, in their first call.
    Collective. Errors: BadProcessGrid, BadBoundary, BadArgument, BadOption, WrongState, SingleRankWorlds.
    Example: 721 rows on 4 ranks: `Domain(MPI.COMM_WORLD, latitude="pole_row")`.
    """

    def __init__(self, comm: Any = None, grid: Optional[Tuple[int, int]] = None, latitude: Edges = "pole_face",
                 longitude: Edges = "periodic", constant: float = 0.0, odd_longitudes: bool = False,
                 rows: Optional[int] = None, columns: Optional[int] = None) -> None:
        handle = self._comm = handle_of(comm)
        start()
        given = (rows, columns)
        if any(n is not None and (not isinstance(n, int) or n < 1) for n in given) or (rows is None) != (columns is None):
            raise Error("BadOption", f"rows = {rows!r}, columns = {columns!r}: both are numbers of cells of the globe, or neither is given", "argument")
        self.extents: Optional[Tuple[int, int]] = None if rows is None or columns is None else (rows, columns)
        if grid is not None and len(tuple(grid)) != 2:
            raise Error("BadProcessGrid", f"grid = {tuple(grid)}: ranks along latitude and along longitude are 2 numbers", "argument")
        self._checks = True
        self._in_call = False
        self._left: Optional[Error] = None  # an exception, no Error, that has ended this rank's part of a call
        self._num_programs = 0  # that have been captured on it
        parts = (0, 0) if grid is None else grid
        self._object = _core.Domain(handle, *parts, _both(latitude), _both(longitude), constant, odd_longitudes)

    @classmethod
    def from_mesh(cls, mesh: Any, **options: Any) -> "Domain":
        """The domain of the ranks of a DeviceMesh, in its order.

        mesh: of torch.distributed, `mesh["domain"]`; one of two axes is the grid over latitude and longitude. options: as above,
        without comm. Collective over the mesh. Errors: those above; ArgumentDisagreement where torch.distributed and MPI number
        the ranks differently.
        Example: 8 ranks: `Domain.from_mesh(init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "domain"))["domain"])`.
        """
        from ._groups import team_of
        if mesh.ndim > 2:
            raise Error("BadProcessGrid", f"a mesh of {mesh.ndim} axes for a domain, which has one or two: pass mesh['domain']", "argument")
        if mesh.ndim == 2:
            options.setdefault("grid", tuple(mesh.mesh.shape))
        return cls(team_of(mesh), **options)

    @property
    def rank(self) -> int:
        """This rank in the communicator."""
        return self._object.rank

    @property
    def num_ranks(self) -> int:
        """Ranks of the communicator."""
        return self._object.num_ranks

    @property
    def grid(self) -> Tuple[int, int]:
        """Ranks along latitude and longitude."""
        return self._object.grid

    @property
    def part(self) -> Tuple[int, int]:
        """The place of this rank in the grid."""
        return self._object.part

    @property
    def num_draws(self) -> int:
        """Masks that the dropouts of the domain have drawn: their only state, for checkpoints. May be set, on all ranks."""
        return self._object.num_draws()

    @num_draws.setter
    def num_draws(self, number: int) -> None:
        self._object.set_num_draws(number)

    def check_calls(self, every_call: bool) -> None:
        """With False layers compare their calls between ranks only for new structures, which saves a small all-reduce.

        For programs known to be correct: other disagreements may hang. The same on all ranks.
        """
        self._object.set_call_checks(every_call)
        self._checks = every_call

    def barrier(self) -> None:
        """Waits for all ranks."""
        self._object.barrier()

    def renew(self) -> None:
        """Makes the domain usable again after an error that some ranks had in the middle of a call. Collective."""
        self._object.renew()

    def __deepcopy__(self, memo: dict) -> "Domain":
        return self

    def __reduce__(self):
        raise TypeError("a Domain belongs to its ranks and is not saved: save the model's state_dict()")

    def __repr__(self) -> str:
        return f"Domain(rank {self.rank} of {self.num_ranks}, grid {self.grid})"


def _both(edges: Edges) -> Tuple[str, str]:
    return (edges, edges) if isinstance(edges, str) else (edges[0], edges[1])


@dataclasses.dataclass(frozen=True)
class AxisPart:
    """How one axis is cut, and which part this rank holds: cells `lo` to `lo + size` of `extent`."""
    part: int
    sizes: Tuple[int, ...]

    @property
    def lo(self) -> int:
        """First cell of this rank."""
        return sum(self.sizes[:self.part])

    @property
    def size(self) -> int:
        """Cells of this rank."""
        return self.sizes[self.part]

    @property
    def extent(self) -> int:
        """Cells of all ranks."""
        return sum(self.sizes)


@dataclasses.dataclass(frozen=True)
class FieldPart:
    """The rows and columns of the globe that this rank holds."""
    rows: AxisPart
    columns: AxisPart


def shard_of(whole: torch.Tensor, domain: Domain, rows: Optional[Sequence[int]] = None,
             columns: Optional[Sequence[int]] = None) -> torch.Tensor:
    """This rank's rows and columns, the last two axes, of a field that it holds whole: a view. No message.

    rows, columns: cells of each part, the same on all ranks; default: balanced.
    Example: 7 rows on 2 ranks: rank 0 gets rows 0 to 3, rank 1 rows 4 to 6. Errors: BadCuts, UnsupportedTensor.
    """
    mine = _core.shard_of(tensor_of(whole, "shard_of"), domain._object, None if rows is None else list(rows),
                          None if columns is None else list(columns))
    mine._graticule_field = True
    from ._cuts import Active, mark
    if Active.mode is None:
        return mine
    sizes = (rows, columns)
    cut = tuple(tuple(sizes[a] or _balanced(whole.shape[a - 2], domain.grid[a])) for a in range(2))
    return mark(mine, cut)  # in the code of a sharded model


def _balanced(extent: int, parts: int) -> Tuple[int, ...]:
    return tuple(extent // parts + (i < extent % parts) for i in range(parts))


@uncompiled
def part_of(shard: torch.Tensor, domain: Domain) -> FieldPart:
    """Which rows and columns of the globe this rank's shard holds, anywhere in a network. Collective.

    Errors: UnsupportedTensor, BadLayout where shards do not fit together, on all ranks alike.
    """
    (row, rows), (column, columns) = _core.part_of(tensor_of(shard, "part_of"), domain._object)
    return FieldPart(AxisPart(row, tuple(rows)), AxisPart(column, tuple(columns)))


@uncompiled
def whole_field(shard: torch.Tensor, domain: Domain) -> torch.Tensor:
    """The whole field on every rank, from any cuts. Collective and differentiable.

    For output and diagnosis: every rank holds the whole field. Errors: UnsupportedTensor, BadLayout.
    """
    return _core.whole_field(tensor_of(shard, "whole_field"), domain._object)
