# SPDX-License-Identifier: BSD-3-Clause
"""What the code of a sharded model does between its layers."""
from __future__ import annotations

import contextlib
import functools
import math
import warnings
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from . import _calls, _core, _functions as known, _random
from ._capture import DERIVED_FUNCTIONS, WITHOUT_VALUES, name_of, no_collection
from ._cuts import Active, Cuts, NotSharded, cuts, extents, is_of_cells, is_whole, mark, mark_whole, tensors
from ._domain import Domain, _balanced
from ._errors import Error
from ._placed import At, Mark, at, axis_of, field_of, in_blocks, mark_of, of_field, place, shape_of


class Joins(TorchFunctionMode):
    """Sees the functions that a model's own code calls on tensors that are cut, and runs each as on the globe.

    A function is planned once for each structure of its arguments by the rules of `shard_program`: cells move where it needs them.
    One that needs none runs as it is. Numbers that it is called with are compared between ranks when it is planned. Sizes are those of the globe. Where fields with the same extents and other cuts meet, they
    are moved to the cuts that these extents had first in this call (`home`), if one of them has these, else to those of the first.
    Random numbers of tensors that are whole are the same on all ranks. What has no rule is refused by its name.
    """

    def __init__(self, domain: Domain, layers: Dict[Any, Any], home: Optional[Dict[Tuple[int, int], Cuts]] = None) -> None:
        super().__init__()
        self.domain, self.layers = domain, layers
        self.home: Dict[Tuple[int, int], Cuts] = {} if home is None else dict(home)
        self.first: Dict[Tuple[int, int], torch.Tensor] = {}  # fields that the model was given
        self.masks: Optional[Tuple[int, int]] = None  # seed and number of the layer whose dropout runs
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
        given = [x for x in tensors((args, kwargs)) if mark_of(x) is not None]
        if not given:
            _refuse_transforms(func, name, (args, kwargs))
            return self._on_whole(func, name, args, kwargs)
        first = given[0]
        if func == torch.Tensor.shape.__get__ or func is torch.Tensor.size:
            shape = torch.Size(shape_of(first, mark_of(first)))
            where = args[1] if len(args) > 1 else kwargs.get("dim")
            return shape if where is None else shape[where]
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
            if name == "data":
                return place(func(*args, **kwargs), mark_of(first))
            if name in known.ATTRIBUTES:
                return func(*args, **kwargs)
        if name in _COUNTS:
            return _COUNTS[name](first, shape_of(first, mark_of(first)))
        if name == "register_hook":
            return _plainly(func, first, self._hook(args[1], mark_of(first)), *args[2:], **kwargs)
        if name in known.PLAIN:
            return func(*args, **kwargs)
        if name in ("type_as", "to") and args and mark_of(args[0]) is None:
            return _plainly(func, *args, **kwargs)  # a tensor that is whole, with the type of one that is cut
        if name == "__iter__":
            return iter(self.__torch_function__(torch.unbind, types, args))
        what = _name(func, name)
        func = WITHOUT_VALUES.get(func, func)
        if func is torch.autograd.grad:
            raise NotSharded("torch.autograd.grad within a sharded model: it sees this rank's operations alone; graticule.shard_program can capture it")
        if name in ("__getitem__", "__setitem__"):
            if name == "__setitem__" and _is_mask(args):
                func, name = torch.Tensor.masked_fill_, "masked_fill_"
            else:
                args = (args[0], _calls.with_indices(args[1], args[0]), *args[2:])
        if name == "masked_select" and (selected := _selected(*args, **kwargs)) is not None:
            return self._on_places(*selected)
        if name in ("narrow", "tensor_split"):  # the same on all ranks, which is compared
            args, kwargs = (args[0], *map(_as_numbers, args[1:])), {key: _as_numbers(value) for key, value in kwargs.items()}
        if len(given) > 1:
            args, kwargs = self._matched(self._leader(given, name), what, (args, kwargs))
        return self._call(func, name, what, args, kwargs)

    def _on_whole(self, func: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """A function of tensors that are whole. What it makes of those that are known to be is, too."""
        given = tensors((args, kwargs))
        self._refuse_nested(name, given)
        if name == "register_hook" and self.domain.num_ranks > 1 and is_whole(given[0]) and not isinstance(given[0], torch.nn.Parameter):
            raise NotSharded("a hook on a tensor that is whole would get this rank's part of its gradient: put it on a shard, or on the loss's side of a sum")
        copies = [x for x in given if hasattr(x, "_graticule_copy")]
        versions = [x._version for x in copies]
        if copies and name not in _KEEPS:
            _calls.refuse_old_copies(_name(func, name), copies)
        if not _random.draws(name, args, kwargs):
            result = func(*args, **kwargs)
        elif name in _MASKED and is_of_cells(args[0] if args else kwargs.get("input")):
            result = self._masked(name, *args, **{"x" if key == "input" else key: value for key, value in kwargs.items()})
        else:
            result = _random.agreed(self.domain, func, args, kwargs)
        for x, version in zip(copies, versions):
            _calls.refuse_old_copies(_name(func, name), [x], (0,) if x._version != version else ())
            for y in tensors(result):
                if y is not x and torch._C._is_alias_of(x, y):
                    _calls.follow_copies(y, 0, [x])
        known_whole = all(is_whole(x) or x.dim() <= 1 for x in given) and (not given or any(map(is_whole, given)))
        if known_whole and isinstance(result, (torch.Tensor, tuple, list)) and name not in _KEEPS:
            for x in tensors(result):
                if mark_of(x) is None and not isinstance(x, torch.nn.Parameter):
                    mark_whole(x, any(map(is_of_cells, given)))
        return result

    def _masked(self, name: str, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, **kwargs: Any) -> torch.Tensor:
        """`dropout` of what was computed from shards and is whole here: by place, as where it is cut on other numbers of ranks."""
        draw, self.domain.num_draws = self.domain.num_draws, self.domain.num_draws + 1
        factor = _core.whole_mask(list(x.shape), p, *(self.masks or _OF_FUNCTIONS), draw) / (1 - p if p < 1 else 1.0)
        factor = factor.to(x.device, x.dtype)
        return x.mul_(factor) if inplace or name.endswith("_") else x * factor

    def _on_places(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`torch.masked_select` with a mask that is whole: the cells of its true places."""
        num_axes = max(x.dim(), mask.dim())
        mask = mask[(None,) * (num_axes - mask.dim())]
        shape = torch.broadcast_shapes(shape_of(x, mark_of(x)), mask.shape)
        leading = next((i for i in range(num_axes, 1, -1) if mask.shape[i - 1] != 1), 1)  # axes behind are taken as a whole
        x = self.__torch_function__(torch.Tensor.expand, (), (x, shape))
        places = mask[(...,) + (0,) * (num_axes - leading)].expand(shape[:leading])
        x = self.__torch_function__(torch.Tensor.__getitem__, (), (x, places))
        return self.__torch_function__(torch.Tensor.reshape, (), (x, (-1,)))

    def _hook(self, hook: Any, of: Mark) -> Any:
        """A hook on a tensor that is cut: the gradient that it gets is cut likewise, and its code is that of the model."""
        def call(gradient: torch.Tensor) -> Any:
            with torch.no_grad() if not torch.is_grad_enabled() else contextlib.nullcontext(), self.again() as mode:
                found = hook(place(gradient.view_as(gradient), of))
                if found is None or mark_of(found) == of:
                    return found
                if mark_of(found) is None:
                    raise NotSharded("a hook on a tensor that is a shard returns a tensor that is none: it has to return the gradient of its cells")
                return mode._moved_to(found, of) if not isinstance(of, At) else mode._call(torch.clone, "clone", "clone", (found,), {}, (of,))
        return call

    @staticmethod
    def _refuse_nested(name: str, given: Sequence[torch.Tensor]) -> None:
        if any(x.is_nested for x in given):
            raise NotSharded(f"{name} of a nested tensor: whether its parts are shards cannot be seen; pad them to one size")

    # --- One function ---

    def _call(self, func: Any, name: str, what: str, args: Any, kwargs: Dict[str, Any], wanted: Sequence[Optional[At]] = ()) -> Any:
        """Runs a function on the globe. wanted: where the tensors that it makes go; empty: where they are. Collective where cells move."""
        given = _calls.signature(args, kwargs)
        leaves = given.leaves
        kind = (func, given.key, tuple((tuple(x.shape), x.dtype, x.device, mark_of(x)) for x in leaves), tuple(wanted),
                _autocast(leaves[0].device.type), self.masks)
        planned = self.layers.get(kind)
        if planned is None:
            full = (kind, given.floats)
            planned = self.layers.get(full)
            if planned is None:
                planned = self._plan(func, name, what, args, kwargs, leaves, wanted)
                _calls.remember(self.layers, kind if planned.program is not None and planned.program.elementwise else full, planned)
        _calls.refuse_old_copies(what, leaves, planned.traced.written)
        if not planned.direct:
            inputs = [] if planned.program is None else [self._in_bands(x) for x in leaves]
            return planned.run(leaves, inputs, self._marked, self._cut_as)
        copied = False
        try:
            result = _plainly(func, *args, **kwargs)
        except Error:
            raise
        except Exception as error:
            result, copied = _densely(func, what, args, kwargs, leaves, planned, error), True
        return self._with_marks(planned, leaves, result, copied)

    def _with_marks(self, planned: "_calls.Planned", leaves: Sequence[torch.Tensor], result: Any, copied: bool) -> Any:
        if isinstance(result, torch.Tensor):
            made = [result]
        else:
            made = [y for y in _calls.leaves_of(result) if isinstance(y, torch.Tensor)]
        k = 0
        for y, (kind, _) in zip(made, (one for one in planned.traced.results if one[0] != "value")):
            if kind == "output":
                self._marked(y, planned.marks[k])
                source = planned.traced.sources[k]
                if copied and source is not None:
                    _calls.note_copy(y, leaves[source])
                else:
                    _calls.follow_copies(y, source, leaves)
                k += 1
        return result

    def _plan(self, func: Any, name: str, what: str, args: Any, kwargs: Dict[str, Any], leaves: Sequence[torch.Tensor],
              wanted: Sequence[Optional[At]]) -> "_calls.Planned":
        if "out" in kwargs and kwargs["out"] is not None:
            raise NotSharded(f"{what} of a shard with out=: take the result, or write y.copy_(result)")
        if _random.draws(name, args, kwargs) and name in known.RANDOM and not (name in known.RECURRENT and not _drops(args)):
            raise NotSharded(f"{what} of a shard draws random numbers by the shards of the ranks, not by the cells of the globe: use the "
                             "dropouts of torch.nn or graticule.nn, or graticule.shard_of(noise, domain) with noise of the globe")
        if self.domain._checks and self.domain.num_ranks > 1:
            self.domain._object.require_same("NotSharded", f"{what} with the numbers {_calls.numbers_of(args, kwargs)} (random numbers of Python and "
                                             "numpy, time and the rank differ between ranks: seed them alike, or draw by torch.rand)")
        masks = self.masks or (_OF_FUNCTIONS if name in _MASKED else None)
        marks = [mark_of(x) for x in leaves]
        shapes = [tuple(x.shape) if of is None else shape_of(x, of) for x, of in zip(leaves, marks)]
        try:
            with no_collection():
                traced = _calls.trace(func, name, args, kwargs, leaves, shapes)
            if not traced.shapes:
                return _calls.Planned(traced, None, False, ())
            places = [None if of is None else self._band(x, of) for x, of in zip(leaves, marks)]
            ends: List[Tuple[bool, Any]] = [(i < len(wanted), None if i >= len(wanted) or wanted[i] is None else wanted[i].place)
                                            for i in range(len(traced.sources))]
            ends += [(True, None if places[i] is None else places[i].place) for i in traced.written]

            def placed() -> Any:
                return _core.PlacedCall(traced.json, self.domain._object, what, [None if p is None else p.place for p in places], ends,
                                        str(leaves[0].device), masks)

            try:
                program = placed()
            except Error as error:
                # What draws numbers would draw them by the shards of the ranks.
                if error.rule != "RefusedProgram" or _random.draws(name, args, kwargs):
                    raise
                with no_collection():
                    apart = _calls.trace(func, name, args, kwargs, leaves, shapes, taken_apart=True)
                if apart.json == traced.json or (apart.shapes, apart.dtypes) != (traced.shapes, traced.dtypes):
                    raise
                first, traced = error, apart
                try:
                    program = placed()
                except Error:
                    raise first from None
        except Exception as error:
            if isinstance(error, Error) and error.rule not in ("RefusedProgram", "BrokenFile", "BadArgument"):
                raise
            raise NotSharded(_refusal(what, leaves, marks, shapes, error)) from None
        outputs = tuple(None if p is None else At(shape, p[0], p[1], tuple(p[2])) for p, shape in zip(program.outputs, traced.shapes))
        if not in_blocks(self.domain):
            return _calls.Planned(traced, program, program.direct, outputs)
        blocks = self._blocks(what, leaves, traced, program, outputs)
        return _calls.Planned(traced, program, blocks is not None, outputs if blocks is None else (blocks,) * len(outputs))

    # --- Fields, and what else is cut ---

    def _blocks(self, what: str, leaves: Sequence[torch.Tensor], traced: "_calls.Traced", in_rows: Any, outputs: Sequence[Any]) -> Optional[Cuts]:
        """The blocks of all results of a function that needs no message on blocks: that runs as it is where rows are cut, and where columns are."""
        fields = [x for x in leaves if cuts(x) is not None]
        of = cuts(fields[0]) if fields else None
        if of is None or not in_rows.direct or any(cuts(x) != of for x in fields) or any(at(x) is not None for x in leaves) or any(
                where is None or field_of(where, -2) is None or where.shape[-2:] != extents(of) for where in outputs):
            return None
        parts = ((extents(of)[0],), _balanced(extents(of)[1], self.domain.num_ranks))
        places = [None if cuts(x) is None else of_field(shape_of(x, of), parts, -1).place for x in leaves]
        try:
            in_columns = _core.PlacedCall(traced.json, self.domain._object, what, places, [(False, None)] * len(outputs), str(leaves[0].device),
                                         self.masks)
        except RuntimeError:
            return None
        right = in_columns.direct and all(p is not None and p[0] == len(where.shape) - 1 for p, where in zip(in_columns.outputs, outputs))
        return of if right else None

    def _band(self, x: torch.Tensor, of: Mark) -> At:
        """Where the planner has a tensor: blocks are bands of rows there."""
        if isinstance(of, At):
            return of
        shape = shape_of(x, of)
        if in_blocks(self.domain):
            return of_field(shape, (_balanced(shape[-2], self.domain.num_ranks), (shape[-1],)), -2)
        return of_field(shape, of, axis_of(self.domain))

    def _in_bands(self, x: torch.Tensor) -> torch.Tensor:
        of = cuts(x)
        if of is None or not in_blocks(self.domain):
            return x
        grid, ranks = list(self.domain.grid), self.domain.num_ranks
        return self._repartition(("bands", of), x, grid, [ranks, 1], None)

    def _in_blocks(self, x: torch.Tensor, of: Cuts) -> torch.Tensor:
        grid, ranks = list(self.domain.grid), self.domain.num_ranks
        return mark(self._repartition(("blocks", of, x.shape[-1]), x, [ranks, 1], grid, [list(of[0]), list(of[1])]), of)

    def _cut_as(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return y if cuts(x) is None or not in_blocks(self.domain) else self._in_blocks(y, cuts(x))

    def _repartition(self, key: Any, x: torch.Tensor, from_grid: List[int], to_grid: List[int], parts: Any) -> torch.Tensor:
        if key not in self.layers:
            options = {"from_axes": [-2, -1], "from_grid": from_grid, "to_axes": [-2, -1], "to_grid": to_grid}
            self.layers[key] = _core.Layer.native("Repartition", options if parts is None else {**options, "cuts": parts}, self.domain._object)
        with torch._C.DisableTorchFunction():
            return self.layers[key].call("", "forward", [x], [None] * 5, True)[0]

    def _marked(self, y: torch.Tensor, where: Optional[Mark]) -> torch.Tensor:
        """What a function has made, with its place; fields as fields."""
        if where is None:
            return y if isinstance(y, torch.nn.Parameter) else mark_whole(y, of_cells=True)
        if not isinstance(where, At):
            self.home.setdefault(extents(where), where)
            return mark(y, where)
        of = field_of(where, axis_of(self.domain))
        if of is None or len(where.shape) < 3 and extents(of) not in self.home:
            return place(y, where)
        if in_blocks(self.domain):
            blocks = self.home.get(extents(of))
            return place(y, where) if blocks is None else self._in_blocks(y, blocks)
        self.home.setdefault(extents(of), of)
        return mark(y, of)

    def as_field(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor that is cut, as the field that its last two axes are, where fields of these extents are known. Collective where it moves."""
        where = at(x)
        of = None if where is None or len(where.shape) < 2 else self.home.get(where.shape[-2:])
        return x if of is None else self._moved_to(x, of)

    def _moved_to(self, x: torch.Tensor, of: Cuts) -> torch.Tensor:
        shape = shape_of(x, mark_of(x))
        band = of if not in_blocks(self.domain) else (_balanced(shape[-2], self.domain.num_ranks), (shape[-1],))
        y = self._call(torch.clone, "clone", "clone", (x,), {}, (of_field(shape, band, axis_of(self.domain)),))
        return y if cuts(y) == of else self._in_blocks(y, of) if in_blocks(self.domain) else mark(y, of)

    def returned(self, x: torch.Tensor) -> torch.Tensor:
        """What a model returns: fields of the extents of an input in the cuts of that input, other fields as they are, all else whole. Collective."""
        of = mark_of(x)
        self._refuse_nested("the result", [x])
        if of is None:
            return x
        shape = shape_of(x, of)
        like = self.first.get(shape[-2:])
        if like is not None and (len(shape) > 2 or cuts(x) is not None):
            return x if of == cuts(like) else self.moved(x, like) if cuts(x) is not None else self._moved_to(x, cuts(like))
        return x if cuts(x) is not None else self._call(torch.clone, "clone", "clone", (x,), {}, (None,))

    def _leader(self, given: Sequence[torch.Tensor], name: str) -> Optional[torch.Tensor]:
        """The field whose cuts a join has: of those with the extents of the first that is more than one cell, the first at home."""
        if name.endswith("_") and not name.endswith("__") or name in _IN_PLACE:
            return given[0] if cuts(given[0]) is not None else None
        wide = [x for x in given if cuts(x) is not None and math.prod(extents(cuts(x))) != 1]
        if not wide:
            return None
        home = self.home.get(extents(cuts(wide[0])))
        return next((x for x in wide if cuts(x) == home), wide[0])

    def _matched(self, first: Optional[torch.Tensor], name: str, value: Any) -> Any:
        """The arguments, with fields of the extents of `first` in its cuts."""
        if first is None:
            return value
        if isinstance(value, (tuple, list)):
            return type(value)(self._matched(first, name, v) for v in value) if type(value) in (tuple, list) else value
        if isinstance(value, dict):
            return {key: self._matched(first, name, v) for key, v in value.items()}
        here, there = cuts(value), cuts(first)
        if here is None or here == there or extents(here) != extents(there):
            return value
        return self.moved(value, first)

    def moved(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """A field in the cuts of another with its extents. Collective."""
        here, there = cuts(x), cuts(like)
        key = ("match", here, there)
        if key not in self.layers:
            self.layers[key] = _core.Layer.native("MatchCuts", {}, self.domain._object)
        with torch._C.DisableTorchFunction():
            return mark(self.layers[key].call("", "forward", [x, like], [None] * 5, True)[0], there)


_MASKED = ("dropout", "dropout_")
_OF_FUNCTIONS = (0, 0)  # seed and layer of the masks of functions
_KEEPS = {"__get__", "__set__", "__repr__", "__format__", "tolist"}
_IN_PLACE = {f"__i{name}__" for name in ("add", "and", "div", "floordiv", "lshift", "mod", "mul", "or", "rshift", "sub", "xor", "pow",
                                          "truediv")} | {"__setitem__"}
# The globe's, from a shard and the shape on the globe.
_COUNTS = {"numel": lambda x, shape: math.prod(shape), "nelement": lambda x, shape: math.prod(shape), "__len__": lambda x, shape: shape[0],
           "nbytes": lambda x, shape: math.prod(shape) * x.element_size()}


def _as_numbers(value: Any) -> Any:
    """The numbers of a whole tensor of indices."""
    is_index = isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex()) and mark_of(value) is None
    return value.tolist() if is_index else value


def _selected(input: Any, mask: Any, *, out: Any = None) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
    """The arguments of `torch.masked_select` where the mask has its values on every rank."""
    return (input, mask) if mark_of(mask) is None and mark_of(input) is not None and out is None and mask.dtype == torch.bool else None


def _drops(args: tuple) -> bool:
    """Whether a recurrent layer drops values: the sixth argument in training."""
    return len(args) <= 6 or bool(args[5]) and bool(args[6])


def _is_mask(args: tuple) -> bool:
    """Whether numbers are written by a mask of the same cells."""
    x, mask, value = args
    return (isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and isinstance(x, torch.Tensor) and mask.dim() == x.dim()
            and (not isinstance(value, torch.Tensor) or value.dim() == 0))


def _autocast(device: str) -> Any:
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def _refusal(what: str, leaves: Sequence[torch.Tensor], marks: Sequence[Optional[Mark]], shapes: Sequence[Tuple[int, ...]],
             error: BaseException) -> str:
    """Why a function is refused."""
    given = ", ".join(f"{list(shape)}{' (whole)' if of is None else ''}" for shape, of in zip(shapes, marks))
    text = f"{what} of a shard ({given} on the globe): {_calls.first_line(error)}"
    local = [x for x, of in zip(leaves, marks) if of is None and any(x.shape[-2:] == y.shape[-2:] != shape[-2:] and x.dim() > 1 for y, m, shape
                                                                     in zip(leaves, marks, shapes) if m is not None)]
    if local:
        text += f"; a tensor of {list(local[0].shape)} has the sizes of a shard and is none: graticule.field(tensor) says that it is one"
    return text


def _densely(func: Any, what: str, args: Any, kwargs: Dict[str, Any], leaves: Sequence[torch.Tensor], planned: "_calls.Planned",
             error: Exception) -> Any:
    """The result of a function that has raised an error, from dense copies: a part of few cells may have strides that torch does not take."""
    if not planned.traced.written:
        dense = {id(x): x.clone(memory_format=torch.contiguous_format) for x in leaves}
        try:
            return _plainly(func, *_calls.rebuilt(args, dense), **_calls.rebuilt(kwargs, dense))
        except Exception:
            pass  # the first error is the one to see
    raise Error("OutOfMemory" if isinstance(error, torch.OutOfMemoryError) else "FailedNode",
                f"{what}: {type(error).__name__}: {_calls.first_line(error)}") from error


def _plainly(func: Any, *args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunction():
        return func(*args, **kwargs)


def _refuse_transforms(func: Any, name: str, value: Any) -> None:
    """Raises where a tensor is a shard within `torch.vmap` or another transform of torch.func."""
    functorch = torch._C._functorch
    if functorch.peek_interpreter_stack() is None:
        return
    for x in tensors(value):
        while functorch.is_functorch_wrapped_tensor(x):
            x = functorch.get_unwrapped(x)
            if mark_of(x) is not None:
                raise NotSharded(f"{_name(func, name)} within torch.vmap or another transform of torch.func: in it a shard is taken for a "
                                 "whole field")


def guard_scripts() -> None:
    """Makes functions of `torch.jit.script`, which torch hides from modes, refuse shards. Once."""
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        before = kind.__call__
        if not getattr(before, "graticule", False):
            kind.__call__ = _guarded(before)


def guard_functions() -> None:
    """Makes a torch.autograd.Function that runs on shards warn, once per class: its backward is not seen. Once."""
    before = vars(torch.autograd.Function)["apply"]
    if getattr(before.__func__, "graticule", False):
        return

    def apply(function: Any, *arguments: Any, **named: Any) -> Any:
        if Active.mode is not None and function not in warned and not function.__module__.startswith(("torch.", "graticule.")) and any(
                mark_of(x) is not None for x in arguments) and name_of(function) not in DERIVED_FUNCTIONS:
            warned.add(function)
            warnings.warn(f"{name_of(function)} runs on shards: its backward sees this rank's cells alone, and is right where "
                          "it needs no others (docs/shard_pytorch.md)", RuntimeWarning, stacklevel=2)
        return before.__get__(None, function)(*arguments, **named)

    warned: "weakref.WeakSet[type]" = weakref.WeakSet()
    apply.graticule = True  # type: ignore[attr-defined]
    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[assignment]


def _guarded(before: Any) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if Active.mode is not None and any(mark_of(x) is not None for x in tensors((args, kwargs))):
            raise NotSharded(f"{getattr(self, 'name', 'a function')} of torch.jit.script: what it does with a shard cannot be seen")
        return before(self, *args, **kwargs)

    call.graticule = True  # type: ignore[attr-defined]
    return call


@functools.lru_cache(maxsize=4096)
def _name(func: Any, name: str) -> str:
    return resolve_name(func) or name
