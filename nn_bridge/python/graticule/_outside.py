# SPDX-License-Identifier: BSD-3-Clause
"""What code outside of a sharded model makes of its results: a loss that is a mean of one rank's cells, and the like, is refused when it
is differentiated, and a backward that fails on one rank ends on all."""
from __future__ import annotations

import contextlib
import math
import re
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import _core
from ._cuts import NotSharded
from ._domain import Domain
from ._errors import Error
from ._failures import Together

_RESULT, _LOSS, _GRADIENT = "graticule_result", "graticule_loss", "graticule_gradient"
_MOST = 2000  # nodes of a graph that are looked at
_LOSSES = {"MseLossBackward0": "mse_loss", "SmoothL1LossBackward0": "smooth_l1_loss", "HuberLossBackward0": "huber_loss",
           "BinaryCrossEntropyBackward0": "binary_cross_entropy", "BinaryCrossEntropyWithLogitsBackward0": "binary_cross_entropy_with_logits",
           "NllLossBackward0": "nll_loss", "NllLoss2DBackward0": "nll_loss", "SoftMarginLossBackward0": "soft_margin_loss"}
# What is no sum over cells, and needs those of all ranks.
_OF_CELLS = {"MeanBackward": "mean", "VarBackward": "var", "StdBackward": "std", "LinalgVectorNormBackward": "norm", "NormBackward": "norm",
             "NanmedianBackward": "nanmedian", "MedianBackward": "median", "MaxBackward": "max", "MinBackward": "min", "AmaxBackward": "amax",
             "AminBackward": "amin", "LogsumexpBackward": "logsumexp", "ProdBackward": "prod", "SoftmaxBackward": "softmax",
             "LogSoftmaxBackward": "log_softmax", "CumsumBackward": "cumsum", "FftR2CBackward": "fft", "FftC2CBackward": "fft", "FftC2RBackward": "fft"}
_SUMS = ("SumBackward", "NansumBackward", "DotBackward", "VdotBackward")
_NONLINEAR = {f"{name.capitalize()}Backward": name for name in (
    "sqrt", "rsqrt", "pow", "log", "log1p", "log2", "log10", "exp", "expm1", "reciprocal", "sigmoid", "tanh", "atan", "softplus", "abs", "relu")}
_RESHAPES = ("ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward", "SqueezeBackward")


class Taken(NamedTuple):
    """A function that takes cells together, and the axes of the tensor at hand over which it does, from the last."""
    name: str
    axes: Tuple[int, ...]


def note_result(x: Any, domain: Domain, grid: Tuple[int, int] = (1, 1)) -> None:
    """Notes that a sharded model has returned a tensor: [..., rows, columns] cut over a grid of ranks; by default a whole one."""
    if isinstance(x, torch.Tensor) and x.grad_fn is not None and domain.num_ranks > 1:
        x.grad_fn.metadata[_RESULT] = grid, domain


def note_loss(loss: torch.Tensor, domain: Optional[Domain]) -> torch.Tensor:
    """Notes that a loss is one of all ranks."""
    if loss.grad_fn is not None and domain is not None:
        loss.grad_fn.metadata[_LOSS] = domain
    return loss


def _sizes(node: Any, number: int = 0) -> Optional[Tuple[int, ...]]:
    """Of an output of the function of a node."""
    given = getattr(node, "_input_metadata", ())
    return tuple(given[number].shape) if number < len(given) else None


def _axis(dim: int, num_axes: int) -> int:
    """An axis that a node has saved, which may count from the last as an unsigned number, from the last."""
    dim = dim - (1 << 64) if dim >= 1 << 63 else dim
    return dim if dim < 0 else dim - num_axes


def _num_axes(node: Any) -> Optional[int]:
    """Axes of the tensor that a node was made of."""
    try:
        sizes = getattr(node, "_saved_self_sym_sizes", None)
        sizes = getattr(getattr(node, "_saved_self", None), "shape", None) if sizes is None else sizes
    except RuntimeError:  # freed by an earlier backward, which torch refuses itself
        sizes = None
    if sizes is None and node.next_functions and node.next_functions[0][0] is not None:
        sizes = _sizes(*node.next_functions[0])
    return None if sizes is None else len(sizes)


def _reduced(node: Any) -> Tuple[int, ...]:
    """The axes that a function takes together, from the last."""
    num_axes, dims = _num_axes(node), getattr(node, "_saved_dim", None)
    num_axes = 8 if num_axes is None else num_axes
    if dims is None or isinstance(dims, (tuple, list)) and not dims:
        return tuple(range(-num_axes, 0))
    return tuple(_axis(d, num_axes) for d in (dims if isinstance(dims, (tuple, list)) else [dims]))


def _groups(new: Sequence[int], old: Sequence[int]) -> List[Tuple[List[int], List[int]]]:
    """Axes of two shapes of the same cells that belong together."""
    groups, i, j = [], 0, 0
    while i < len(new) or j < len(old):
        a, b, first = 1, 1, (i, j)
        while i == first[0] or j == first[1] or a != b:
            if j >= len(old) and i >= len(new):
                break
            if i < len(new) and (a <= b or j >= len(old)):
                a, i = a * new[i], i + 1
            else:
                b, j = b * old[j], j + 1
        groups.append((list(range(first[0], i)), list(range(first[1], j))))
    return groups


def _before(node: Any, kind: str, number: int, axes: Tuple[int, ...]) -> Tuple[int, ...]:
    """Axes of the result of a node, from the last, as axes of the tensor that it was made of."""
    sizes, old = _sizes(node, number), _num_axes(node)
    if sizes is None or old is None:
        return axes
    new = len(sizes)
    found = [a + new for a in axes if 0 <= a + new]  # from the first
    if kind in _RESHAPES:
        return tuple(j - old for given, made_of in _groups(sizes, node._saved_self_sym_sizes) if set(given) & set(found) for j in made_of)
    if kind == "PermuteBackward":
        return tuple(_axis(node._saved_dims[a], old) for a in found)
    if kind == "TransposeBackward":
        swapped = [_axis(d, old) for d in (node._saved_dim0, node._saved_dim1)]
        return tuple(swapped[1 - swapped.index(a)] if a in swapped else a for a in axes)
    if kind in ("UnsqueezeBackward", "StackBackward"):
        at = _axis(node._saved_dim, new) + new
        return tuple(a - (a > at) - old for a in found if a != at)
    if kind == "SelectBackward" or new < old and (kind in _OF_CELLS or kind in _SUMS):
        gone = sorted(a + old for a in _reduced(node))
        left = [a for a in range(old) if a not in gone]
        return tuple(left[a] - old for a in found if a < len(left))
    return axes


def _divisor(node: Any) -> Optional[float]:
    """The number that the function of a node divides by."""
    try:
        other = node._saved_other
    except RuntimeError:
        return None
    is_number = isinstance(other, torch.Tensor) and other.dim() == 0 and not (other.requires_grad or other.is_complex()) and other.device.type == "cpu"
    return float(other) if is_number else None


def _averages(node: Any, kind: str) -> str:
    """The function of torch behind a node, if it needs the cells of all ranks; "" for all others."""
    if node.name() in _LOSSES:
        return _LOSSES[node.name()] if node._saved_reduction == 1 else ""
    return _OF_CELLS.get(kind, "")


def refuse_partial_means(roots: Iterable[torch.Tensor], direct: bool = False, gradients_of: Optional[List[Domain]] = None) -> List[Domain]:
    """Raises NotSharded where a loss takes the cells of one rank together as it would those of the globe.

    direct: for a loss that is to be added over the ranks: one that is a mean itself, or anything but linear in sums.
    Returns the domains of the results and of the losses that it is made of; gradients_of gets those of whose gradients it is made.
    """
    gradients_of = [] if gradients_of is None else gradients_of
    domains: List[Domain] = []
    left: List[Tuple[Any, int, Tuple[Taken, ...], str, Optional[float]]] = [
        (x.grad_fn, x.output_nr, (), "", None) for x in roots if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    first = {one[0] for one in left}
    seen = set()
    while left and len(seen) < _MOST:
        node, number, taken, above, divisor = left.pop()
        if (node, taken, above, divisor) in seen:
            continue
        seen.add((node, taken, above, divisor))
        if _GRADIENT in node.metadata:
            domains += [one for one in node.metadata[_GRADIENT] if one not in domains]
            gradients_of += [one for one in node.metadata[_GRADIENT] if one not in gradients_of]
            continue
        grid, domain = node.metadata.get(_RESULT, (None, node.metadata.get(_LOSS)))
        if domain is not None and domain not in domains:
            domains.append(domain)
        if grid is not None:
            for name, axes in taken:
                if any(a in axes and n > 1 for a, n in zip((-2, -1), grid)):
                    _refuse(name)
            continue
        if domain is not None:
            continue
        kind = node.name().rstrip("0123456789")
        if kind.endswith("BackwardBackward") or "CppNode" in kind:  # behind a derivative or a message, cells are no longer one rank's
            taken, above, divisor = (), "", None
        taken = tuple(Taken(name, axes) for name, axes in ((name, _before(node, kind, number, axes)) for name, axes in taken) if axes)
        if kind in _SUMS:
            if above:
                taken = (*taken, Taken(f"{above} of a sum", _reduced(node)))
            elif divisor is not None and not direct and divisor == math.prod(getattr(node, "_saved_self_sym_sizes", ())):
                taken = (*taken, Taken("sum, divided by the number of these cells,", _reduced(node)))
        elif _averages(node, kind) and (not direct or node in first or above):
            taken = (*taken, Taken(_averages(node, kind), _reduced(node)))
        above = _NONLINEAR.get(kind, above)
        divisor = _divisor(node) if kind == "DivBackward" else divisor if kind in _SUMS else None
        for i, (after, after_number) in enumerate(node.next_functions):
            if after is not None:
                left.append((after, after_number, taken, "division" if kind == "DivBackward" and i == 1 else above, divisor))
    return domains


def _note_gradients(found: Any, domains: List[Domain]) -> None:
    """Notes that tensors are gradients of a result: what is differentiated again reaches messages on some ranks that it does not on others."""
    for x in found if isinstance(found, (tuple, list)) else ():
        if isinstance(x, torch.Tensor) and x.grad_fn is not None:
            x.grad_fn.metadata[_GRADIENT] = tuple(domains)


def _with_unreached(roots: Sequence[torch.Tensor], args: Tuple[Any, ...], kwargs: Any,
                    domains: Sequence[Domain]) -> Tuple[List[torch.Tensor], Tuple[Any, ...], Any]:
    """The arguments of a backward that starts from the messages of other ranks, too, which this rank would not reach. Collective.

    A rank without cells does not need all of those that others need for derivatives of gradients.
    """
    more = [x for domain in domains for x in _core.unreached_calls(domain._object, [x for x in roots if isinstance(x, torch.Tensor)])]
    if not more:
        return list(roots), args, kwargs
    weights = args[0] if args else kwargs.get("grad_tensors")
    given = [None] * len(roots) if weights is None else [weights] if isinstance(weights, torch.Tensor) else list(weights)
    kwargs = {key: value for key, value in kwargs.items() if key != "grad_tensors"}
    return [*roots, *more], ([*given, *map(torch.zeros_like, more)], *args[1:]), kwargs


def _refuse(name: str) -> None:
    raise NotSharded(f"the loss is torch's {name} of a shard, outside of the sharded model: a value of this rank's cells alone, whose gradients do "
                     f"not add up to those of the globe's. Use a loss of graticule.nn, such as graticule.nn.MSELoss(domain), or sum over cells, "
                     "divide by the cells of the globe and end with graticule.reduce_loss(partial, domain); what is not linear in sums comes after it")


def guard_backward() -> None:
    """Makes torch's backward, and torch.autograd.grad, refuse losses of one rank's cells, and end on all ranks where one fails. Once."""
    for name in ("backward", "grad"):
        before = getattr(torch.autograd, name)
        if not getattr(before, "graticule", False):
            setattr(torch.autograd, name, _guarded(before))


def _guarded(before: Any) -> Any:
    def differentiate(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        domains: List[Domain] = []
        gradients_of: List[Domain] = []
        roots = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        if isinstance(roots, (tuple, list)):
            domains = refuse_partial_means(roots, gradients_of=gradients_of)
        # Gradients of some tensors alone may need no other rank, and are then wanted on some ranks alone.
        agrees = before.__name__ == "backward" and len(args) < 5 and kwargs.get("inputs") is None
        with contextlib.ExitStack() as calls:
            for domain in domains:
                calls.enter_context(Together(domain, agrees=agrees))
            try:
                if agrees and gradients_of:
                    tensors, args, kwargs = _with_unreached(roots, args, kwargs, gradients_of)
                found = before(tensors, *args, **kwargs)
                if before.__name__ == "grad" and domains:
                    _note_gradients(found, domains)
                return found
            except RuntimeError as error:
                known = _known(error)
                if known is None:
                    raise
                raise known from error

    differentiate.__doc__, differentiate.__name__, differentiate.graticule = before.__doc__, before.__name__, True  # type: ignore[attr-defined]
    return differentiate


def _known(error: RuntimeError) -> Optional[Error]:
    """The error of the library that torch has made a RuntimeError of its text in a backward."""
    found = re.fullmatch(r"((?:[A-Z][a-z]+){2,}): (.*)", str(error), re.DOTALL) if type(error) is RuntimeError else None
    return None if found is None else Error(found[1], found[2])
