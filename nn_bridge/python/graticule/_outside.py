# SPDX-License-Identifier: BSD-3-Clause
"""Losses that code outside of a sharded model makes of its results: a mean of one rank's cells is refused when it is differentiated."""
from __future__ import annotations

import math
from typing import Any, Iterable, List, Optional, Tuple

import torch

from ._cuts import NotSharded, cuts

_RESULT, _LOSS = "graticule_result", "graticule_loss"
_MOST = 2000  # nodes of a graph that are looked at
_LOSSES = {"MseLossBackward0": "mse_loss", "SmoothL1LossBackward0": "smooth_l1_loss", "HuberLossBackward0": "huber_loss",
           "BinaryCrossEntropyBackward0": "binary_cross_entropy", "BinaryCrossEntropyWithLogitsBackward0": "binary_cross_entropy_with_logits",
           "NllLossBackward0": "nll_loss", "NllLoss2DBackward0": "nll_loss", "SoftMarginLossBackward0": "soft_margin_loss"}
_OF_CELLS = {"MeanBackward": "mean", "VarBackward": "var", "StdBackward": "std", "LinalgVectorNormBackward": "norm", "NormBackward": "norm",
             "NanmedianBackward": "nanmedian", "MedianBackward": "median", "MaxBackward": "max", "MinBackward": "min", "AmaxBackward": "amax",
             "AminBackward": "amin", "LogsumexpBackward": "logsumexp"}


def note_result(x: torch.Tensor, grid: Tuple[int, int]) -> None:
    """Notes that a tensor is a shard that a model has returned."""
    if x.grad_fn is not None and cuts(x) is not None and math.prod(grid) > 1:
        x.grad_fn.metadata[_RESULT] = grid


def note_loss(loss: torch.Tensor) -> torch.Tensor:
    """Notes that a loss is one of all ranks."""
    if loss.grad_fn is not None:
        loss.grad_fn.metadata[_LOSS] = True
    return loss


def _averages(node: Any) -> str:
    """The function of torch behind a node, if it gives a mean, or the like, of cells; "" for all others."""
    name = node.name()
    if name in _LOSSES:
        return _LOSSES[name] if node._saved_reduction == 1 else ""
    kind = name.rstrip("0123456789")
    return _OF_CELLS.get(kind, "")


def _axes(node: Any, given: Any) -> Optional[List[int]]:
    """Axes of a reduction from the last; None for all."""
    dims = getattr(node, "_saved_dim", None)
    if dims is None or isinstance(dims, (tuple, list)) and not dims:
        return None
    dims = dims if isinstance(dims, (tuple, list)) else [dims]
    axes = [d - (1 << 64) if d >= 1 << 63 else d for d in dims]
    return [a if a < 0 else a - given for a in axes] if given else [a for a in axes if a < 0] or None


def _num_axes(node: Any) -> int:
    """Axes of the tensor that a node reduces; 0 where it is not known."""
    try:
        sizes = getattr(node, "_saved_self_sym_sizes", None) or getattr(getattr(node, "_saved_self", None), "shape", None)
    except RuntimeError:  # freed by an earlier backward, which torch refuses itself
        sizes = None
    return 0 if sizes is None else len(sizes)


def _is_of_cells(node: Any, grid: Tuple[int, int], num_axes: int) -> bool:
    """Whether a mean or the like is taken over rows or columns that are cut."""
    axes = _axes(node, num_axes)
    return axes is None or any(a in axes and n > 1 for a, n in zip((-2, -1), grid))


def refuse_partial_means(roots: Iterable[torch.Tensor], direct: bool = False) -> None:
    """Raises NotSharded where a loss is a mean of one rank's cells. direct: where the loss itself is one, and is to be added over the ranks."""
    left = [(x.grad_fn, ()) for x in roots if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    seen = set()
    while left and len(seen) < _MOST:
        node, means = left.pop()
        if (node, bool(means)) in seen:
            continue
        seen.add((node, bool(means)))
        grid = node.metadata.get(_RESULT)
        if grid is not None:
            for mean, num_axes in means:
                if _is_of_cells(mean, grid, num_axes):
                    name = _averages(mean)
                    raise NotSharded(f"the loss is torch's {name} of a shard, outside of the sharded model: a value of this rank's cells alone, "
                                     f"whose gradients do not add up to those of the globe's {name}. Use a loss of graticule.nn, such as "
                                     "graticule.nn.MSELoss(domain), or sum over cells, divide by the cells of the globe and end with "
                                     "graticule.reduce_loss(partial, domain)")
            continue
        if node.metadata.get(_LOSS):
            continue
        if _averages(node):
            means = (*means, (node, _num_axes(node)))
        elif direct and len(seen) == 1:
            return
        left.extend((after, means) for after, _ in node.next_functions if after is not None)


def guard_backward() -> None:
    """Makes torch's backward refuse losses of one rank's cells. Once."""
    before = torch.autograd.backward
    if getattr(before, "graticule", False):
        return

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        refuse_partial_means([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))
        before(tensors, *args, **kwargs)

    backward.__doc__, backward.__name__, backward.graticule = before.__doc__, "backward", True  # type: ignore[attr-defined]
    torch.autograd.backward = backward
