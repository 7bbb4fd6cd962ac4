# SPDX-License-Identifier: BSD-3-Clause
"""Where the cells of a tensor are while the code of a sharded model runs.

A field, [..., rows, columns], carries its cuts (`_cuts`). Any other tensor that is cut, such as tokens, windows or heads, carries
an `At`: its shape on the globe and the cut of one of its axes. What carries neither is whole, and the same on all ranks.
"""
from __future__ import annotations

import functools
import itertools
from typing import Any, List, NamedTuple, Optional, Tuple, Union

import torch

from ._cuts import Cuts, cuts, extents, mark
from ._domain import Domain


class At(NamedTuple):
    """A cut of one axis: rank r has the indices i with bounds[r] <= i mod period < bounds[r + 1]."""
    shape: Tuple[int, ...]  # on the globe
    axis: int
    period: int
    bounds: Tuple[int, ...]

    @property
    def place(self) -> Tuple[int, int, List[int]]:
        """As the C++ `Cut`."""
        return self.axis, self.period, list(self.bounds)


Mark = Union[Cuts, At]


def at(x: Any) -> Optional[At]:
    """The cut of a tensor that is no field."""
    return getattr(x, "_graticule_at", None) if isinstance(x, torch.Tensor) else None


def mark_of(x: Any) -> Optional[Mark]:
    """What a tensor that is cut carries."""
    of = cuts(x)
    return at(x) if of is None else of


def place(x: torch.Tensor, of: Mark) -> torch.Tensor:
    """Makes a tensor carry where its cells are."""
    if not isinstance(of, At):
        return mark(x, of)
    x._graticule_at = of  # type: ignore[attr-defined]
    return x


def shape_of(x: torch.Tensor, of: Mark) -> Tuple[int, ...]:
    """The shape on the globe."""
    return of.shape if isinstance(of, At) else (*x.shape[:-2], *extents(of))


def in_blocks(domain: Domain) -> bool:
    """Whether rows and columns are cut."""
    return min(domain.grid) > 1


@functools.lru_cache(maxsize=4096)
def of_field(shape: Tuple[int, ...], of: Cuts, axis: int) -> At:
    """The cut of a field whose rows (axis -2) or columns (-1) alone are cut."""
    return At(shape, len(shape) + axis, shape[axis], (0, *itertools.accumulate(of[axis])))


def axis_of(domain: Domain) -> int:
    """The axis of fields that is cut; of blocks, that of the bands in which functions are planned."""
    return -1 if domain.grid[0] == 1 and domain.grid[1] > 1 else -2


def field_of(where: At, axis: int) -> Optional[Cuts]:
    """The cuts of a field that is cut along `axis` so; None where it is cut otherwise."""
    if len(where.shape) < 2 or where.axis != len(where.shape) + axis or where.period != where.shape[axis]:
        return None
    parts = tuple(b - a for a, b in zip(where.bounds, where.bounds[1:]))
    return (parts, (where.shape[-1],)) if axis == -2 else ((where.shape[-2],), parts)
