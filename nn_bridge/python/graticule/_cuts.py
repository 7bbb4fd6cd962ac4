# SPDX-License-Identifier: BSD-3-Clause
"""Shards that carry their cuts while the code of a sharded model runs."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ._domain import Domain, part_of
from ._errors import Error, tensor_of

Cuts = Tuple[Tuple[int, ...], Tuple[int, ...]]  # rows, columns


class NotSharded(Error):
    """A layer or a function that would be wrong on shards, by its name."""

    def __init__(self, text: str) -> None:
        super().__init__("NotSharded", text)

    def __reduce__(self):
        return type(self), (self.text,)


class Active:
    """Whether the code of a sharded model runs: its mode, if so."""
    mode: Optional[Any] = None


def cuts(x: Any) -> Optional[Cuts]:
    """The cuts that a tensor carries."""
    return getattr(x, "_graticule_cuts", None) if isinstance(x, torch.Tensor) else None


def mark(x: torch.Tensor, of: Optional[Cuts]) -> torch.Tensor:
    """Makes a tensor carry its cuts."""
    if of is not None:
        x._graticule_cuts = of  # type: ignore[attr-defined]
    return x


def whole(x: torch.Tensor) -> torch.Tensor:
    """Says to a sharded model that a tensor is no field but the same on all ranks, such as tokens or a noise level: a view. No message.

    Example: `net(field, graticule.whole(tokens))`. `shard(..., whole=["tokens"])` says it of an argument of every call.
    """
    return mark_whole(tensor_of(x, "whole").view_as(x))


def field(x: torch.Tensor) -> torch.Tensor:
    """Says to a sharded model that a tensor is this rank's shard of a field, where its sizes or values do not show it: a view. No message.

    Example: a second field on a coarser grid, at first of zeros: `net(x, graticule.field(state))`.
    """
    x = tensor_of(x, "field").view_as(x)
    x._graticule_field = True  # type: ignore[attr-defined]
    return x


def mark_whole(x: torch.Tensor, of_cells: bool = False) -> torch.Tensor:
    """Makes a tensor carry that it is whole, and the same on all ranks. of_cells: computed from shards; on other numbers of ranks it may be cut."""
    x._graticule_whole = is_of_cells(x) or of_cells  # type: ignore[attr-defined]
    return x


def is_of_cells(x: Any) -> bool:
    """Whether a tensor that is whole was computed from shards."""
    return getattr(x, "_graticule_whole", False)


def is_field(x: Any) -> bool:
    """Whether a tensor is declared to be a shard."""
    return getattr(x, "_graticule_field", False)


def is_whole(x: Any) -> bool:
    """Whether a tensor is known to be whole."""
    return isinstance(x, torch.nn.Parameter) or hasattr(x, "_graticule_whole")


def ask(x: torch.Tensor, domain: Domain) -> Cuts:
    """The cuts of a shard. Collective."""
    part = part_of(x, domain)
    return part.rows.sizes, part.columns.sizes


def extents(of: Cuts) -> Tuple[int, int]:
    """Rows and columns of the globe."""
    return sum(of[0]), sum(of[1])


def tensors(value: Any) -> List[torch.Tensor]:
    """All tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for v in value for x in tensors(v)] if isinstance(value, (tuple, list)) else []


def follow(results: Dict[Any, Cuts], key: Any, domain: Domain, x: torch.Tensor, run: Callable[[], Any]) -> Any:
    """Runs a layer, and marks what it returns by the cuts that it gave for the same `key` and the same cuts before.

    They are asked for once, so that the decision to ask is the same on all ranks.
    """
    before = cuts(x)
    with torch._C.DisableTorchFunction():
        y = run()
        if Active.mode is None or before is None:
            return y
        after = results.get((before, key))
        first = y[0] if isinstance(y, tuple) else y
        if after is None:
            after = results[(before, key)] = ask(first, domain)
        for one in tensors(y):
            Active.mode.made(mark(one, after))
        return y
