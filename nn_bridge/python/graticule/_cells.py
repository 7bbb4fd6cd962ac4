# SPDX-License-Identifier: BSD-3-Clause
"""Shards whose cells do not lie in the last two axes: tokens for attention, and channels last.

While the code of a sharded model runs, `x.flatten(2).transpose(1, 2)` is a tensor whose second axis holds the cells of the shard.
It carries the place of its cells, shows the sizes of the globe, and becomes a field again by the reverse functions.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F

from . import _core, _functions as known
from ._cuts import Cuts, NotSharded, cuts, extents, mark, tensors
from ._domain import Domain
from ._library import uncompiled


@dataclasses.dataclass(frozen=True)
class Cells:
    """Where the cells of a shard are: in one axis, row by row, or in two, rows and columns."""
    axis: int
    folded: bool
    cuts: Cuts

    @property
    def axes(self) -> Tuple[int, ...]:
        return (self.axis,) if self.folded else (self.axis, self.axis + 1)

    @property
    def globe(self) -> Tuple[int, ...]:
        """Sizes of these axes on the globe."""
        rows, columns = extents(self.cuts)
        return (rows * columns,) if self.folded else (rows, columns)


def cells(x: Any) -> Optional[Cells]:
    """The place of the cells of a tensor that is no field."""
    return getattr(x, "_graticule_cells", None) if isinstance(x, torch.Tensor) else None


def placed(x: Any) -> Optional[Cells]:
    """The place of the cells, also of a field."""
    of = cuts(x)
    return cells(x) if of is None else Cells(x.dim() - 2, False, of)


def place(x: torch.Tensor, at: Cells) -> torch.Tensor:
    """Makes a tensor carry the place of its cells."""
    if not at.folded and at.axis == x.dim() - 2:
        return mark(x, at.cuts)
    x._graticule_cells = at  # type: ignore[attr-defined]
    return x


def shape_of(x: torch.Tensor, at: Cells) -> List[int]:
    """The shape with the sizes of the globe."""
    shape = list(x.shape)
    shape[at.axis:at.axis + len(at.axes)] = at.globe
    return shape


REGROUPS = {"reshape", "view", "flatten", "unflatten"}
MOVES = {"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "T", "mT"}
_LAST = {"layer_norm", "rms_norm"}
_PRIMES = (1009, 1013)  # sizes that mark the axes of cells in a trial without data


def local_sizes(of: Cuts, domain: Domain) -> Tuple[int, int]:
    """Rows and columns of this rank."""
    return of[0][domain.part[0]], of[1][domain.part[1]]


def regroup(name: str, x: torch.Tensor, domain: Domain, args: tuple, kwargs: dict) -> torch.Tensor:
    """`reshape`, `view`, `flatten` and `unflatten`, where all cells become one axis, or again rows and columns, or stay."""
    at = placed(x)
    shape = shape_of(x, at)
    wanted = _wanted(name, shape, args, kwargs)
    known = -math.prod(wanted) if wanted.count(-1) == 1 else 0
    if known > 0:
        wanted[wanted.index(-1)] = math.prod(shape) // known
    if math.prod(wanted) == math.prod(shape):
        own, globe = local_sizes(at.cuts, domain), extents(at.cuts)
        for j in range(len(wanted)):
            if math.prod(wanted[:j]) != math.prod(shape[:at.axis]):
                continue
            if wanted[j:j + 2] == list(globe) or wanted[j] == math.prod(globe):
                folded = wanted[j:j + 2] != list(globe)
                wanted[j:j + 2 - folded] = [math.prod(own)] if folded else own
                with torch._C.DisableTorchFunction():
                    y = x.view(wanted) if name == "view" else x.reshape(wanted)
                return place(y, Cells(j, folded, at.cuts))
    raise NotSharded(f"torch.Tensor.{name} of a shard, {tuple(shape)} on the globe, to {tuple(wanted)}: all cells can become one axis, "
                     "and rows and columns again; joined or split otherwise they would be mixed, since they are cut")


def _wanted(name: str, shape: List[int], args: tuple, kwargs: dict) -> List[int]:
    """The shape on the globe that a call asks for."""
    if name in ("reshape", "view"):
        sizes = kwargs.get("shape", kwargs.get("size", args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args))
        if not all(isinstance(s, int) for s in sizes):
            raise NotSharded(f"torch.Tensor.{name} of a shard by {sizes}: sizes are possible")
        return list(sizes)
    if name == "flatten":
        start, end = (kwargs.get(key, args[i] if len(args) > i else default) % len(shape)
                      for i, (key, default) in enumerate((("start_dim", 0), ("end_dim", -1))))
        return shape[:start] + [math.prod(shape[start:end + 1])] + shape[end + 1:]
    axis = kwargs.get("dim", args[0] if args else 0) % len(shape)
    sizes = list(kwargs.get("sizes", args[1] if len(args) > 1 else ()))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] // -math.prod(sizes)
    return shape[:axis] + sizes + shape[axis + 1:]


def place_by_trial(func: Any, what: str, x: torch.Tensor, result: Any, args: tuple, kwargs: dict) -> Any:
    """Places the results of a function that moves, removes or selects axes, by a call with conspicuous sizes and no data."""
    at = placed(x)
    shape = [s + (s in _PRIMES) for s in x.shape]
    for axis, prime in zip(at.axes, _PRIMES):
        shape[axis] = prime
    twin = torch.empty(shape, device="meta")
    with torch._C.DisableTorchFunction():
        trial = func(*[twin if a is x else a for a in args], **{k: twin if a is x else a for k, a in kwargs.items()})
    for y, t in zip(tensors(result), tensors(trial)):
        found = [[i for i, s in enumerate(t.shape) if s == prime] for prime, _ in zip(_PRIMES, at.axes)]
        if any(len(f) != 1 for f in found) or [f[0] - found[0][0] for f in found] != list(range(len(found))):
            raise NotSharded(f"{what} of a shard, {tuple(shape_of(x, at))} on the globe: it selects, splits or exchanges rows or columns, "
                             "which are cut")
        place(y, Cells(found[0][0], at.folded, at.cuts))
    return result


def call(joins: Any, func: Any, name: str, what: str, given: Sequence[torch.Tensor], args: tuple, kwargs: dict) -> Any:
    """A function of tensors with cells, of which one at least is no field."""
    first = given[0]
    at = placed(first)
    if name in REGROUPS:
        return regroup(name, first, joins.domain, args[1:], kwargs)
    if name == "scaled_dot_product_attention":
        return attention(joins.domain, func, *args, **kwargs)
    check_together(what, given)
    if not _is_right(joins, name, first, at, args, kwargs):
        raise NotSharded(f"{what} of a shard, {tuple(shape_of(first, at))} on the globe, would mix its cells, which are in axes {at.axes}, "
                         "or is not known to act on each by itself")
    if name not in known.WITH_PARAMETERS:
        check_operands(what, first, tensors((args, kwargs)))
    with torch._C.DisableTorchFunction():
        result = func(*args, **kwargs)
    if len(given) == 1 and (name in MOVES or name in known.OF_AXES):
        return place_by_trial(func, what, first, result, args, kwargs)
    behind = first.dim() - at.axis
    for y in tensors(result):
        start = y.dim() - behind + (name == "stack" and _dim(args, kwargs, 0, y.dim()) > at.axis) * -1
        if start < 0 or [y.shape[start + i] for i in range(len(at.axes))] != [first.shape[a] for a in at.axes]:
            raise NotSharded(f"{what} of shards gives {tuple(y.shape)}: the cells, {tuple(first.shape)} here, are no longer complete")
        place(y, Cells(start, at.folded, at.cuts))
    return result


def check_together(what: str, given: Sequence[torch.Tensor]) -> None:
    at = [placed(x) for x in given]
    if any((c.cuts, c.folded, x.dim() - c.axis) != (at[0].cuts, at[0].folded, given[0].dim() - at[0].axis) for c, x in zip(at, given)):
        shapes = ", ".join(str(tuple(shape_of(x, c))) for x, c in zip(given, at))
        raise NotSharded(f"{what} of shards with cells in other places, or cut otherwise: {shapes} on the globe")


def check_operands(what: str, first: torch.Tensor, others: Sequence[torch.Tensor]) -> None:
    """Raises NotSharded where a tensor that is no shard has the size of the globe along cut axes: the same on all ranks."""
    at = placed(first)
    sizes = [(at.cuts[0], at.cuts[1])] if at.folded else [(at.cuts[0],), (at.cuts[1],)]
    for x in others:
        if placed(x) is not None:
            continue
        for axis, globe, parts in zip(at.axes, at.globe, sizes):
            i = x.dim() - (first.dim() - axis)
            if i < 0 or x.shape[i] == 1 or all(len(p) == 1 for p in parts):
                continue
            if x.shape[i] == globe or x.shape[i] != first.shape[axis]:
                raise NotSharded(f"{what} of a shard, {tuple(shape_of(first, at))} on the globe, and a tensor of {tuple(x.shape)}: rows and "
                                 "columns are cut, and this tensor is not; graticule.shard_of(tensor, domain) is its part for this rank, "
                                 "graticule.nn.PositionEmbedding a parameter of this kind")


def join_axis(name: str, x: torch.Tensor, args: tuple, kwargs: dict) -> int:
    """The axis of `cat`, or the new one of `stack`."""
    return _dim(args, kwargs, known.JOINS[name], x.dim() + (name == "stack"), 1 if name in ("cat", "concat", "concatenate", "stack") else 99)


def _dim(args: tuple, kwargs: dict, default: int, dims: int, at: int = 1) -> int:
    return kwargs.get("dim", kwargs.get("axis", args[at] if len(args) > at else default)) % dims


def _is_right(joins: Any, name: str, x: torch.Tensor, at: Cells, args: tuple, kwargs: dict) -> bool:
    """Whether a function acts on each cell by itself."""
    last = at.axes[-1]
    if name in known.OF_AXES:
        return joins.along_whole_axes(name, x, args, kwargs, at.axes)
    if name in known.JOINS:
        return join_axis(name, x, args, kwargs) not in at.axes
    if name in _LAST:
        sizes = kwargs.get("normalized_shape", args[1] if len(args) > 1 else ())
        return last < x.dim() - len(sizes)
    if name == "linear":
        return last < x.dim() - 1 and args[0] is x
    if name in ("matmul", "__matmul__"):
        return args[0] is x and last < x.dim() - 1 and placed(args[1]) is None and args[1].dim() <= 2
    if name == "where":
        return len(args) + len(kwargs) > 1
    return name in MOVES or known.is_cellwise(name) and name != "prelu"


def attention(domain: Domain, func: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any,
              **kwargs: Any) -> torch.Tensor:
    """`scaled_dot_product_attention` of cells to all cells of the globe. Collective."""
    at = [cells(x) for x in (query, key, value)]
    what = "torch.nn.functional.scaled_dot_product_attention"
    if any(cuts(x) is not None for x in (query, key, value)):
        raise NotSharded(f"{what} of fields: make their cells one axis, x.flatten(2).transpose(1, 2)")
    if all(c is None or c.axes[-1] < x.dim() - 2 for c, x in zip(at, (query, key, value))):
        check_together(what, [x for x, c in zip((query, key, value), at) if c is not None])
    elif any(c is not None and (not c.folded or c.axis != x.dim() - 2) for c, x in zip(at, (query, key, value))) or (
            (at[1] is None) != (at[2] is None) or at[1] is not None and at[1].cuts != at[2].cuts):
        raise NotSharded(f"{what} of shards with the cells in other axes than the last but one")
    elif at[1] is not None:
        given = dict(zip(("attn_mask", "dropout_p", "is_causal"), args), **kwargs)
        for name in ("attn_mask", "dropout_p", "is_causal"):
            if given.get(name) not in (None, 0, False):
                raise NotSharded(f"{what} of shards with {name}: it refers to pairs of cells, in the order of one process")
        key, value = of_globe(domain, key, value)
    with torch._C.DisableTorchFunction():
        y = func(query, key, value, *args, **kwargs)
    where = next((c for c in at if c is not None))
    return y if at[0] is None else place(y, Cells(where.axis + y.dim() - query.dim(), where.folded, at[0].cuts))


def of_globe(domain: Domain, key: torch.Tensor, value: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of all ranks along the last axis but one, in one message; the adjoint adds the ranks' cotangents."""
    with torch._C.DisableTorchFunction():
        both = torch.cat([key, value.expand(*key.shape[:-2], *value.shape[-2:])], -1)
        both = _core.gather(both.contiguous(), both.dim() - 2, domain._object, "distinct")
        return both[..., :key.shape[-1]], both[..., key.shape[-1]:]


class Attends:
    """The forward of `torch.nn.MultiheadAttention` on cells, for its class."""

    @uncompiled
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, key_padding_mask: Any = None,
                need_weights: bool = True, attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False) -> Any:
        path, domain = self.__dict__["_graticule_attention"]
        what = f"{path} (MultiheadAttention)"
        if all(placed(x) is None for x in (query, key, value)):
            return super().forward(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        axis = 1 if self.batch_first and query.dim() == 3 else 0
        for x in (query, key, value):
            if placed(x) is not None and (cells(x) is None or not cells(x).folded or cells(x).axis != axis):
                raise NotSharded(f"{what}: {tuple(shape_of(x, placed(x)))} has its cells in axes {placed(x).axes}, not in axis {axis} alone: "
                                 f"x.flatten(2){'.transpose(1, 2)' if axis else '.permute(2, 0, 1)'} makes one axis of them")
        if key_padding_mask is not None or attn_mask is not None or is_causal:
            raise NotSharded(f"{what} with a mask: it refers to pairs of cells, in the order of one process")
        with torch._C.DisableTorchFunction():
            q, k, v = (self._heads(x, i, axis) for i, x in enumerate((query, key, value)))
            if cells(key) is not None or cells(value) is not None:
                if cells(key) != cells(value):
                    raise NotSharded(f"{what} of keys and values that are cut otherwise")
                k, v = of_globe(domain, k, v)
            y = F.scaled_dot_product_attention(q, k, v).transpose(-3, -2).flatten(-2)
            y = self.out_proj(y if axis or y.dim() == 2 else y.transpose(0, 1))
        return (y if cells(query) is None else place(y, cells(query))), None

    def _heads(self, x: torch.Tensor, i: int, axis: int) -> torch.Tensor:
        """Query, key or value: [batch, heads, cells, features of a head]."""
        weight = self.in_proj_weight.chunk(3)[i] if self._qkv_same_embed_dim else (
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[i]
        y = F.linear(x, weight, None if self.in_proj_bias is None else self.in_proj_bias.chunk(3)[i])
        if axis == 0 and y.dim() == 3:
            y = y.transpose(0, 1)
        return y.unflatten(-1, (self.num_heads, self.head_dim)).transpose(-3, -2)


def judge_attention(module: torch.nn.MultiheadAttention) -> Optional[str]:
    """Why an attention cannot be sharded."""
    if module.dropout > 0:
        return "dropout of weights: pairs of cells have no random numbers of their own; set dropout to 0"
    if module.bias_k is not None or module.add_zero_attn:
        return "add_bias_kv or add_zero_attn: a key that belongs to no cell"
    return None
