# SPDX-License-Identifier: BSD-3-Clause
"""What the code of a sharded model does between its layers."""
from __future__ import annotations

import math
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from . import _core, _cells, _functions as known, _indexing, _random
from ._cuts import Active, Cuts, NotSharded, cuts, extents, is_whole, mark, mark_whole, tensors
from ._domain import Domain
from ._errors import Error
from ._layer import TorchLayer

_PAD_MODES = {"constant", "reflect", "replicate", "circular"}


class Joins(TorchFunctionMode):
    """Sees the functions that a model's own code calls on shards.

    Shards carry the cuts of their rows and columns. Where a function joins shards with the same extents and other cuts, they are
    moved to the cuts that these extents had first in this call (`home`), if one of them has these, else to those of the first.
    Random numbers of tensors that are no shards are the same on all ranks. Sizes are those of the globe. `interpolate`, `pad`, `max_pool2d` and
    `avg_pool2d` are those of the whole field. A function that would mix rows or columns within a shard is refused by its name.
    """

    def __init__(self, domain: Domain, layers: Dict[Any, Any], home: Optional[Dict[Tuple[int, int], Cuts]] = None) -> None:
        super().__init__()
        self.domain, self.layers = domain, layers
        self.home: Dict[Tuple[int, int], Cuts] = {} if home is None else dict(home)
        self.first: Dict[Tuple[int, int], torch.Tensor] = {}  # fields that the model was given
        self._outer: Optional[Joins] = None

    def again(self) -> "Joins":
        """For a second run of code that begins now."""
        return Joins(self.domain, self.layers, self.home)

    def made(self, x: torch.Tensor) -> None:
        """Notes the cuts of a field that a layer has made."""
        of = cuts(x)
        if of is not None:
            self.home.setdefault(extents(of), of)

    def __enter__(self) -> "Joins":
        self._outer, Active.mode = Active.mode, self
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        Active.mode = self._outer
        super().__exit__(*error)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        given = [x for x in tensors((args, kwargs)) if _cells.placed(x) is not None]
        if not given:
            _refuse_transforms(func, name, (args, kwargs))
            return self._on_whole(func, name, args, kwargs)
        first = given[0]
        if func == torch.Tensor.shape.__get__ or func is torch.Tensor.size:
            shape = torch.Size(_cells.shape_of(first, _cells.placed(first)))
            where = args[1] if len(args) > 1 else kwargs.get("dim")
            return shape if where is None else shape[where]
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
            if name in known.VIEWS:
                return _cells.place(func(*args, **kwargs), _cells.placed(first))
            if name in known.ATTRIBUTES:
                return func(*args, **kwargs)
        if name in _COUNTS:
            return _COUNTS[name](first, _cells.shape_of(first, _cells.placed(first)))
        if name in known.PLAIN:
            return func(*args, **kwargs)
        special = self._special(func, name, given, args, kwargs)
        if special is not None:
            return special
        if name in _cells.MOVES or name in _cells.REGROUPS or any(_cells.cells(x) is not None for x in given):
            return _cells.call(self, func, name, _name(func, name), given, args, kwargs)
        if name in _FIELDS:
            return _FIELDS[name](self, *args, **kwargs)
        return self._on_fields(func, name, given, args, kwargs)

    def _on_whole(self, func: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """A function of tensors that are no shards. What it makes of whole ones alone, or of none, is whole."""
        result = _random.agreed(self.domain, func, args, kwargs) if _random.draws(name, args, kwargs) else func(*args, **kwargs)
        given = tensors((args, kwargs))
        known_whole = all(is_whole(x) or x.dim() <= 1 for x in given) and (not given or any(map(is_whole, given)))
        if known_whole and isinstance(result, (torch.Tensor, tuple, list)) and name not in _KEEPS:
            for x in tensors(result):
                if _cells.placed(x) is None and not isinstance(x, torch.nn.Parameter):
                    mark_whole(x)
        return result

    def _special(self, func: Any, name: str, given: Sequence[torch.Tensor], args: tuple, kwargs: dict) -> Any:
        """Functions whose arguments are judged by themselves, for fields and for cells in other axes; None for all others."""
        what, first = _name(func, name), args[0] if args and isinstance(args[0], torch.Tensor) else given[0]
        if name == "__getitem__" and _cells.placed(first) is not None:
            index, at = _indexing.resolve(what, first, args[1])
            return _cells.place(_plainly(func, first, index), at)
        if name == "__setitem__":
            return self._set_item(func, what, *args)
        if name in ("type_as", "to") and args and _cells.placed(args[0]) is None:
            return _plainly(func, *args, **kwargs)  # a tensor that is none, with the type of a shard
        if _cells.placed(first) is None:
            return None
        if name in ("as_tensor", "asarray"):
            return _cells.place(_plainly(func, *args, **kwargs), _cells.placed(first))
        if name == "pad":
            return self._pad_features(func, first, *args[1:], **{k: v for k, v in kwargs.items() if v is not first})
        if name in known.DROPOUTS:
            values = dict(zip(("p", "training"), args[1:]), **kwargs)
            if values.get("p", 0.5) == 0 or not values.get("training", values.get("train", True)):
                return first
        if _random.draws(name, args, kwargs):
            raise NotSharded(f"{what} of a shard draws random numbers by the shards of the ranks, not by the cells of the globe: use the "
                             "dropouts of torch.nn or graticule.nn, or graticule.shard_of(noise, domain) with noise of the globe")
        if name in ("squeeze", "squeeze_"):
            return self._squeeze(what, first, args, kwargs)
        if name in ("view_as", "reshape_as"):
            like = kwargs.get("other", args[-1])
            shape = like.shape if _cells.placed(like) is None else _cells.shape_of(like, _cells.placed(like))
            return _cells.regroup(name.removesuffix("_as"), first, self.domain, (list(shape),), {})
        classes = kwargs.get("num_classes", args[1] if len(args) > 1 else -1)
        if (name == "embedding" or name == "one_hot" and classes > 0) and cuts(first) is not None:
            return _cells.place(_plainly(func, *args, **kwargs), _cells.Cells(first.dim() - 2, False, cuts(first)))
        if name in known.PARTS:
            args, kwargs = _local_sizes(name, first, args, kwargs)
            return _cells.place_by_trial(func, what, first, _plainly(func, *args, **kwargs), args, kwargs)
        return None

    def _set_item(self, func: Any, what: str, x: torch.Tensor, index: Any, value: Any) -> Any:
        if _cells.placed(x) is None:
            raise NotSharded(f"{what}: a shard into a tensor of {tuple(x.shape)}, which is none")
        is_number = not isinstance(value, torch.Tensor) or value.numel() == 1 and _cells.placed(value) is None
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool and _cells.placed(index) == _cells.placed(x) and is_number:
            return _plainly(func, x, index, value) or True  # by a mask of the same cells
        index, at = _indexing.resolve(what, x, index)
        if isinstance(value, torch.Tensor):
            target = _cells.place(_plainly(torch.Tensor.__getitem__, x, index), at)
            if cuts(value) is not None and cuts(target) is not None:
                value = self._matched(target, what, value)
            if _cells.placed(value) is not None:
                _cells.check_together(what, [target, value])
            _cells.check_operands(what, target, [value])
        return _plainly(func, x, index, value) or True

    def _pad_features(self, func: Any, x: torch.Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Any:
        """`pad` along axes that are not cut; None where rows or columns alone are padded."""
        at, widths = _cells.placed(x), [int(p) for p in pad]
        behind = [2 * (x.dim() - 1 - axis) for axis in at.axes]
        along = [w for i in behind for w in widths[i:i + 2]]
        features = [0 if i - i % 2 in behind else w for i, w in enumerate(widths)]
        if not any(features) or any(along) and (mode != "constant" or cuts(x) is None):
            return None
        y = _cells.place(_plainly(func, x, features, mode, value), at)
        return y if not any(along) else _pad(self, y, widths[:4], mode, value)

    def _squeeze(self, what: str, x: torch.Tensor, args: tuple, kwargs: dict) -> torch.Tensor:
        at = _cells.placed(x)
        shape = _cells.shape_of(x, at)
        given = kwargs.get("dim", args[1] if len(args) > 1 else tuple(range(x.dim())))
        axes = [a % x.dim() for a in (given if isinstance(given, (tuple, list)) else [given])]
        axes = [a for a in axes if shape[a] == 1]
        if set(axes) & set(at.axes):
            raise NotSharded(f"{what} of a shard, {tuple(shape)} on the globe, would remove its rows or columns, which are cut")
        y = _plainly(torch.squeeze, x, axes)
        return _cells.place(y, _cells.Cells(at.axis - sum(a < at.axis for a in axes), at.folded, at.cuts))

    def _on_fields(self, func: Any, name: str, given: Sequence[torch.Tensor], args: tuple, kwargs: dict) -> Any:
        what = _name(func, name)
        first = self._leader(given) if not (name.endswith("_") and not name.endswith("__") or name in _IN_PLACE) else given[0]
        if not self._is_right(name, first, args, kwargs):
            raise NotSharded(refusal(what))
        args, kwargs = self._matched(first, name, (args, kwargs))
        if name not in known.WITH_PARAMETERS:
            _cells.check_operands(what, first, tensors((args, kwargs)))
        local, of = tuple(first.shape[-2:]), cuts(first)
        result = func(*args, **kwargs)
        for y in tensors(result):
            if y.dim() < 2 or tuple(y.shape[-2:]) != local:
                raise NotSharded(f"{what} of a shard, {tuple(_cells.shape_of(first, _cells.placed(first)))} on the globe, gives a tensor "
                                 f"of {y.dim()} axes: it reduces or selects rows or columns, which are cut")
            mark(y, of)
        return result

    def _leader(self, given: Sequence[torch.Tensor]) -> torch.Tensor:
        """The field whose cuts a join has: of those with the extents of the first that is more than one cell, the first at home."""
        wide = [x for x in given if cuts(x) is not None and math.prod(extents(cuts(x))) != 1] or list(given)
        home = self.home.get(extents(cuts(wide[0])))
        return next((x for x in wide if cuts(x) == home), wide[0])

    def _is_right(self, name: str, x: torch.Tensor, args: tuple, kwargs: dict) -> bool:
        """Whether a function of fields acts on each cell by itself."""
        if name in known.OF_AXES:
            return self.along_whole_axes(name, x, args, kwargs, (-2, -1))
        if name in known.JOINS:
            return _cells.join_axis(name, x, args, kwargs) < x.dim() - 2 + (name == "stack")
        if name == "linear":
            return len(cuts(x)[1]) == 1  # along columns, which are whole
        if name == "where":
            return len(args) + len(kwargs) > 1
        return known.is_cellwise(name)

    @staticmethod
    def along_whole_axes(name: str, x: torch.Tensor, args: tuple, kwargs: dict, cut: Tuple[int, ...]) -> bool:
        """Whether the axes that a function of `OF_AXES` works along are none of those that are cut."""
        if name in ("max", "min") and (len(args) > 1 and isinstance(args[1], torch.Tensor) or "other" in kwargs):
            return True
        at = known.DIM_AT.get(name, 1)
        given = kwargs.get("dim", kwargs.get("dims", kwargs.get("axis", args[at] if len(args) > at else known.DIM_DEFAULT.get(name))))
        if name == "flip" and len(args) > 2:
            given = args[1:]
        axes = given if isinstance(given, (tuple, list)) else [given]
        whole = [a % x.dim() for a in axes if isinstance(a, int) and not isinstance(a, bool)]
        return bool(axes) and len(whole) == len(axes) and not {c % x.dim() for c in cut} & set(whole)

    def _matched(self, first: torch.Tensor, name: str, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(self._matched(first, name, v) for v in value) if type(value) in (tuple, list) else value
        if isinstance(value, dict):
            return {key: self._matched(first, name, v) for key, v in value.items()}
        here, there = cuts(value), cuts(first)
        if here is None or here == there:
            return value
        if extents(here) == (1, 1) and value.dim() >= 2:
            return self._on_all_ranks(value)
        if all(h == t or sum(h) == 1 and len(h) == 1 for h, t in zip(here, there)):
            return value  # one row or column for all, which each rank has
        if extents(here) != extents(there):
            (a, b), (c, d) = extents(there), extents(here)
            raise Error("ShapeMismatch", f"{name} of fields of {a} x {b} and {c} x {d} cells", "argument")
        return self.moved(value, first)

    def moved(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """A field in the cuts of another with its extents. Collective."""
        here, there = cuts(x), cuts(like)
        key = ("match", here, there)
        if key not in self.layers:
            self.layers[key] = _core.Layer.native("MatchCuts", {}, self.domain._object)
        with torch._C.DisableTorchFunction():
            return mark(self.layers[key].call("", "forward", [x, like], [None] * 5, True)[0], there)

    def _on_all_ranks(self, x: torch.Tensor) -> torch.Tensor:
        """A field of one cell, such as a mean of the globe, on every rank, without a mark. The adjoint adds. Collective."""
        with torch._C.DisableTorchFunction():
            one = _core.gather(x.flatten(-2).contiguous(), x.dim() - 2, self.domain._object, "distinct")
            return one.unsqueeze(-1)

    def layer(self, type_name: str, x: torch.Tensor, **options: Any) -> torch.Tensor:
        """A layer without parameters on a marked field. Collective."""
        key = (type_name, tuple(sorted((n, tuple(v) if isinstance(v, (list, torch.Size)) else v) for n, v in options.items())))
        if key not in self.layers:
            self.layers[key] = TorchLayer(type_name, type_name, self.domain, options, ())
        return self.layers[key].call(_NOTHING, "forward", x)


_NOTHING = torch.nn.Module()
_KEEPS = {"__get__", "__set__", "__repr__", "__format__", "tolist"}
_IN_PLACE = {f"__{name}__" for name in known.OPERATORS if name.startswith("i") and name != "invert"}
# The globe's, from a shard and the shape on the globe.
_COUNTS = {"numel": lambda x, shape: math.prod(shape), "nelement": lambda x, shape: math.prod(shape), "__len__": lambda x, shape: shape[0],
           "nbytes": lambda x, shape: math.prod(shape) * x.element_size()}


def refusal(what: str) -> str:
    """Why a function is refused."""
    return (f"{what} of a shard would mix its rows and columns, or take them for a whole field, or is not known to act on each cell by "
            "itself: use the layer of torch.nn or graticule.nn")


def _plainly(func: Any, *args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunction():
        return func(*args, **kwargs)


def _local_sizes(name: str, x: torch.Tensor, args: tuple, kwargs: dict) -> Tuple[tuple, dict]:
    """The arguments of `expand` with -1 where they name the cells of the globe."""
    if name not in ("expand", "broadcast_to"):
        return args, kwargs
    at = _cells.placed(x)
    given = kwargs.get("size", kwargs.get("shape", args[1] if len(args) == 2 and isinstance(args[1], (tuple, list)) else args[1:]))
    sizes, shape = list(given), _cells.shape_of(x, at)
    for axis in at.axes:
        i = len(sizes) - x.dim() + axis
        if 0 <= i < len(sizes) and sizes[i] == shape[axis]:
            sizes[i] = -1
    return (x, sizes), {}


def _refuse_transforms(func: Any, name: str, value: Any) -> None:
    """Raises where a tensor is a shard within `torch.vmap` or another transform of torch.func."""
    functorch = torch._C._functorch
    if functorch.peek_interpreter_stack() is None:
        return
    for x in tensors(value):
        while functorch.is_functorch_wrapped_tensor(x):
            x = functorch.get_unwrapped(x)
            if _cells.placed(x) is not None:
                raise NotSharded(f"{_name(func, name)} within torch.vmap or another transform of torch.func: in it a shard is taken for a "
                                 "whole field")


def guard_scripts() -> None:
    """Makes functions of `torch.jit.script`, which torch hides from modes, refuse shards. Once."""
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        before = kind.__call__
        if not getattr(before, "graticule", False):
            kind.__call__ = _guarded(before)


def _guarded(before: Any) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if Active.mode is not None and any(_cells.placed(x) is not None for x in tensors((args, kwargs))):
            raise NotSharded(f"{getattr(self, 'name', 'a function')} of torch.jit.script: what it does with a shard cannot be seen")
        return before(self, *args, **kwargs)

    call.graticule = True  # type: ignore[attr-defined]
    return call


def _name(func: Any, name: str) -> str:
    return resolve_name(func) or name


def _pair(value: Any) -> Tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _interpolate(joins: Joins, input: torch.Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                 align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False) -> torch.Tensor:
    options = {"size": size, "scale_factor": scale_factor, "mode": mode, "align_corners": align_corners,
               "recompute_scale_factor": recompute_scale_factor, "antialias": antialias or None}
    return joins.layer("Resize", input, **options)


def _pad(joins: Joins, input: torch.Tensor, pad: Any, mode: str = "constant", value: Any = None) -> torch.Tensor:
    pad = [int(p) for p in pad]
    if mode not in _PAD_MODES or len(pad) not in (2, 4) or input.dim() not in (3, 4):
        raise NotSharded(f"torch.nn.functional.pad of a shard by {pad} in mode {mode!r}: 2 or 4 widths of a field with 3 or 4 axes")
    if not any(pad):
        return mark(input.view_as(input), cuts(input))
    return joins.layer("Pad2d", input, padding=pad + [0] * (4 - len(pad)), mode=mode, value=0.0 if value is None else float(value))


def _max_pool2d(joins: Joins, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                ceil_mode: bool = False, return_indices: bool = False) -> torch.Tensor:
    if return_indices:
        raise NotSharded("torch.nn.functional.max_pool2d with return_indices: indices of a shard")
    return joins.layer("MaxPool2d", input, kernel_size=_pair(kernel_size), stride=_pair(stride or kernel_size),
                      padding=_pair(padding), dilation=_pair(dilation), ceil_mode=ceil_mode)


def _avg_pool2d(joins: Joins, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
                ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None) -> torch.Tensor:
    return joins.layer("AvgPool2d", input, kernel_size=_pair(kernel_size), stride=_pair(stride or kernel_size),
                      padding=_pair(padding), ceil_mode=ceil_mode, count_include_pad=count_include_pad,
                      divisor_override=divisor_override)


_FIELDS = {"interpolate": _interpolate, "upsample": _interpolate, "pad": _pad, "max_pool2d": _max_pool2d,
           "_max_pool2d": _max_pool2d, "boolean_dispatch": _max_pool2d, "avg_pool2d": _avg_pool2d}
