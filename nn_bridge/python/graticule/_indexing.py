# SPDX-License-Identifier: BSD-3-Clause
"""`x[...]` of shards, judged by the sizes of the globe."""
from __future__ import annotations

from typing import Any, List, Tuple

import torch

from . import _cells
from ._cuts import NotSharded


def _is_list(entry: Any) -> bool:
    return isinstance(entry, (list, torch.Tensor)) or hasattr(entry, "__array__")


def _counted(entry: Any) -> int:
    """Axes that an entry stands for."""
    if entry is None or isinstance(entry, bool):
        return 0
    if isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8):
        return entry.dim()
    return 1


def resolve(what: str, x: torch.Tensor, index: Any) -> Tuple[Tuple[Any, ...], "_cells.Cells"]:
    """The index with whole slices for rows and columns, and the place of the cells in the result.

    Raises NotSharded for an index that selects rows or columns of the globe: the same on all ranks.
    """
    at = _cells.placed(x)
    shape = _cells.shape_of(x, at)
    entries = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    missing = x.dim() - sum(_counted(e) for e in entries if e is not Ellipsis)
    place = dots[0] if dots else len(entries)
    entries[place:place + len(dots[:1])] = [slice(None)] * max(0, missing)
    resolved: List[Any] = []
    first, axis = -1, 0
    for entry in entries:
        here = set(range(axis, axis + _counted(entry))) & set(at.axes)
        if here:
            if not isinstance(entry, slice) or slice(*entry.indices(shape[axis])) != slice(0, shape[axis], 1):
                raise NotSharded(f"{what} of a shard, {tuple(shape)} on the globe, by {_shown(entry)} in axis {axis}: it selects rows or "
                                 "columns, which are cut; graticule.nn.Trim2d removes rows and columns from the edges of the globe")
            first = len(resolved) if first < 0 else first
            entry = slice(None)
        resolved.append(entry)
        axis += _counted(entry)
    return tuple(resolved), _cells.Cells(_place(what, resolved, first, len(at.axes)), at.folded, at.cuts)


def _shown(entry: Any) -> str:
    if isinstance(entry, slice):
        return ":".join("" if v is None else str(v) for v in (entry.start, entry.stop, entry.step)[:2 + (entry.step is not None)])
    if isinstance(entry, torch.Tensor):
        at = _cells.placed(entry)
        return f"a tensor of {tuple(entry.shape if at is None else _cells.shape_of(entry, at))}"
    return repr(entry)[:40]


def _place(what: str, entries: List[Any], first: int, count: int) -> int:
    """The axis of the result where the cells begin."""
    if any(e is None or not isinstance(e, slice) for e in entries[first:first + count]):
        raise NotSharded(f"{what} of a shard: an axis between rows and columns")
    listed = [i for i, e in enumerate(entries) if _is_list(e) or isinstance(e, bool)]
    if listed:  # numbers are lists beside lists
        listed = [i for i, e in enumerate(entries) if not isinstance(e, slice) and e is not None]
    if not listed:
        return sum(e is None or isinstance(e, slice) for e in entries[:first])
    if listed[0] < first < listed[-1]:
        raise NotSharded(f"{what} of a shard by lists before and behind its cells")
    kept = [i for i, e in enumerate(entries) if e is None or isinstance(e, slice)]
    together = listed == list(range(listed[0], listed[-1] + 1))
    before = sum(i < first for i in kept)
    if together and listed[0] > first:
        return before
    wide = 0
    for i in listed:
        e = entries[i]
        wide = max(wide, 1 if isinstance(e, list) and (not e or not isinstance(e[0], (list, tuple))) else
                   1 if isinstance(e, torch.Tensor) and e.dtype in (torch.bool, torch.uint8) else torch.as_tensor(e).dim())
    return before + wide
