# SPDX-License-Identifier: BSD-3-Clause
"""Collective operations with exact adjoints over the ranks of a domain, and losses.

All are collective, forward and backward, differentiable to any order, and accept any dtype that can be added and any strides.
Errors of all: StructureDisagreement, on all ranks, where the ranks' calls differ; BadAxis.
"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, List, Optional, Sequence, Union

import torch

from . import _core
from ._placed import Mark, mark_of, place
from ._domain import Domain
from ._library import uncompiled
from ._outside import note_loss, refuse_partial_means
from ._recompute import Again, RandomStates

Sizes = Optional[Sequence[int]]


def _list(sizes: Sizes) -> Optional[List[int]]:
    return None if sizes is None else list(sizes)


@uncompiled
def all_sum(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """Sum over all ranks, on all ranks: for statistics. A loss ends with `reduce_loss` instead."""
    return _core.all_sum(x, domain._object)


@uncompiled
def copy_to_region(x: torch.Tensor, domain: Domain) -> torch.Tensor:
    """Returns x, equal on all ranks, for different computations on each. Adjoint: the sum of the cotangents."""
    return _core.copy_to_region(x, domain._object)


@uncompiled
def broadcast(x: Optional[torch.Tensor], root: int, domain: Domain) -> torch.Tensor:
    """Rank root's x on all ranks; None elsewhere. Adjoint: `sum_to_root`. Errors: OutOfRange."""
    return _core.broadcast(x, root, domain._object)


@uncompiled
def sum_to_root(x: torch.Tensor, root: int, domain: Domain) -> torch.Tensor:
    """Sum over all ranks on rank root; an empty tensor elsewhere. Adjoint: `broadcast`. Errors: OutOfRange."""
    return _core.sum_to_root(x, root, domain._object)


@uncompiled
def gather(x: torch.Tensor, axis: int, domain: Domain, consumer: str = "replicated") -> torch.Tensor:
    """All ranks' parts, concatenated along an axis in order of ranks, on all ranks.

    consumer: "replicated" if all ranks compute the same from it, "distinct" if their cotangents are partial.
    Example: parts of 3 and 2 rows on 2 ranks give both ranks 5 rows.
    """
    return _core.gather(x, axis, domain._object, consumer)


@uncompiled
def scatter(x: torch.Tensor, axis: int, domain: Domain, cuts: Sizes = None) -> torch.Tensor:
    """This rank's part of x, which is equal on all ranks; cuts: sizes, default balanced. Errors: BadCuts."""
    return _core.scatter(x, axis, domain._object, _list(cuts))


@uncompiled
def reduce_scatter(x: torch.Tensor, axis: int, domain: Domain, cuts: Sizes = None) -> torch.Tensor:
    """This rank's part of the sum of all ranks' x, added in order of ranks. Errors: BadCuts."""
    return _core.reduce_scatter(x, axis, domain._object, _list(cuts))


@uncompiled
def all_to_all(x: torch.Tensor, split_axis: int, join_axis: int, domain: Domain, cuts: Sizes = None) -> torch.Tensor:
    """Redistributes parts along `join_axis` to parts along `split_axis`, which is whole in each rank's x. Errors: BadCuts."""
    return _core.all_to_all(x, split_axis, join_axis, domain._object, _list(cuts))


@uncompiled
def gather_to_root(x: torch.Tensor, axis: int, root: int, domain: Domain) -> torch.Tensor:
    """All ranks' parts on rank root; an empty tensor elsewhere. Adjoint: `scatter_from_root`. Errors: OutOfRange."""
    return _core.gather_to_root(x, axis, root, domain._object)


@uncompiled
def scatter_from_root(x: Optional[torch.Tensor], axis: int, cuts: Sequence[int], root: int, domain: Domain) -> torch.Tensor:
    """This rank's part of rank root's x; None elsewhere. Errors: OutOfRange, BadCuts."""
    return _core.scatter_from_root(x, axis, list(cuts), root, domain._object)


@uncompiled
def reduce_loss(partial: torch.Tensor, domain: Domain) -> torch.Tensor:
    """Sum over the ranks, with which a loss of one's own ends: gradients of parameters are then partial sums.

    Example: `reduce_loss(y.square().sum(), domain)`. Errors: UnusedOnSomeRanks; NotSharded for a mean of this rank's cells.
    """
    if domain.num_ranks > 1:
        refuse_partial_means([partial], direct=True)
    return note_loss(_core.reduce_loss(partial, domain._object), domain)


Segment = Callable[..., Union[torch.Tensor, Sequence[torch.Tensor]]]


@uncompiled
def checkpoint(domain: Domain, segment: Segment, *inputs: torch.Tensor, preserve_rng_state: bool = True) -> Union[torch.Tensor, List[torch.Tensor]]:
    """Runs `segment(*inputs)` without storing its activations, and again in the backward, on all ranks together.

    Dropouts repeat their masks, other random numbers with `preserve_rng_state`. Of a sharded model's parts, torch.utils.checkpoint does
    the same. The loss is differentiated by `backward()`, once. Errors: Unsupported.
    """
    again = Again(segment, inputs)
    begun: List[bool] = []
    states = RandomStates(inputs) if preserve_rng_state else None
    single: List[bool] = []
    results: List[Optional[Mark]] = []

    def run(given: List[torch.Tensor]) -> List[torch.Tensor]:
        if not begun:
            begun.append(True)
            return listed(again.first(*given))
        with contextlib.nullcontext() if states is None else states.restored():
            return listed(again(*given))

    def listed(y: Any) -> List[torch.Tensor]:
        single[:] = [isinstance(y, torch.Tensor)]
        found = [y] if isinstance(y, torch.Tensor) else list(y)
        results[:] = [mark_of(x) for x in found]
        return found

    outputs = _core.checkpoint(domain._object, run, list(inputs))
    outputs = [x if at is None else place(x, at) for x, at in zip(outputs, results)]
    return outputs[0] if single[0] else outputs


@uncompiled
def rollout(domain: Domain, state: torch.Tensor, step: Callable[[torch.Tensor, int], torch.Tensor],
            on_state: Callable[[torch.Tensor, int], torch.Tensor], num_steps: int, checkpoint_steps: int = 0,
            gradient_steps: int = 0) -> torch.Tensor:
    """Applies `step(state, i)` repeatedly and sums the losses `on_state(state, i)`; the state stays sharded.

    checkpoint_steps: steps whose activations the backward recomputes at a time; 0: activations are stored.
    gradient_steps: most steps that gradients flow back over; 0: all. Errors: BadOption.
    """
    return _core.rollout(domain._object, state, step, on_state, num_steps, checkpoint_steps, gradient_steps)
