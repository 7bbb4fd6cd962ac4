# SPDX-License-Identifier: BSD-3-Clause
"""Which of the tensors that a sharded model is called with are shards: found in any container, decided alike on all ranks."""
from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import inspect
import types
import zlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import nn

from . import _core
from ._cuts import Cuts, NotSharded, cuts, extents, is_whole, mark, mark_whole
from ._domain import Domain, part_of
from ._errors import Error

FIELD, WHOLE = 1, 2  # what a caller has said of a tensor; 0: nothing
_SMALL = 1 << 16  # bytes of a tensor whose values are compared in every call
_DEEPEST = 8
_OPAQUE = (nn.Module, torch.optim.Optimizer, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, type,
           enum.Enum, Domain)
_FOREIGN = {"torch", "numpy", "mpi4py", "graticule", "builtins", "functools", "logging", "threading", "pathlib", "datetime"}


def _attributes(value: Any) -> List[str]:
    """The names of what an object holds, where it is a mere holder of values."""
    if isinstance(value, _OPAQUE):
        return []
    if dataclasses.is_dataclass(value):
        return [f.name for f in dataclasses.fields(value) if hasattr(value, f.name)]
    if type(value).__module__.partition(".")[0] in _FOREIGN:
        return []
    slots = [name for kind in type(value).__mro__ for name in (lambda s: [s] if isinstance(s, str) else s)(kind.__dict__.get("__slots__", ()))]
    return [name for name in [*getattr(value, "__dict__", ()), *slots] if name not in ("__dict__", "__weakref__") and hasattr(value, name)]


def _parts(value: Any) -> Iterator[Tuple[str, Any, Optional[Callable[[Any], None]]]]:
    """The values of a container, with their names, and how each is replaced; None in those that cannot change."""
    if isinstance(value, (collections.abc.MutableMapping, collections.UserDict)):
        for key in list(value):
            yield str(key), value[key], lambda new, key=key: value.__setitem__(key, new)
    elif isinstance(value, (list, collections.deque, collections.UserList)):
        for i, item in enumerate(list(value)):
            yield str(i), item, lambda new, i=i: value.__setitem__(i, new)
    elif isinstance(value, (tuple, frozenset, set, collections.abc.Mapping)):
        pairs = value.items() if isinstance(value, collections.abc.Mapping) else zip(getattr(value, "_fields", range(len(value))), value)
        for name, item in pairs:
            yield str(name), item, None
    else:
        for name in _attributes(value):
            yield name, getattr(value, name), lambda new, name=name: object.__setattr__(value, name, new)


def _is_leaf(value: Any) -> bool:
    return value is None or isinstance(value, (str, bytes, bytearray, int, float, complex, torch.Size, torch.dtype, torch.device))


def walk(value: Any, path: str = "", depth: int = 0, above: Tuple[int, ...] = ()) -> Iterator[Tuple[str, torch.Tensor]]:
    """All tensors in nested containers and objects that hold values, with their paths."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif not _is_leaf(value) and depth < _DEEPEST and id(value) not in above:
        for name, part, _ in _parts(value):
            yield from walk(part, f"{path}.{name}" if path else name, depth + 1, (*above, id(value)))


def replaced(value: Any, new: Dict[int, torch.Tensor], undo: List[Callable[[], None]], depth: int = 0, above: Tuple[int, ...] = ()) -> Any:
    """The value with other tensors, by their ids. What can change is changed in place, until `undo`; the rest is made anew."""
    if isinstance(value, torch.Tensor):
        return new.get(id(value), value)
    if _is_leaf(value) or depth >= _DEEPEST or id(value) in above:
        return value
    fixed: Dict[str, Any] = {}
    for name, part, change in _parts(value):
        other = replaced(part, new, undo, depth + 1, (*above, id(value)))
        if other is part:
            continue
        if change is None:
            fixed[name] = other
        else:
            undo.append(_restore(value, name, part, other, change))
            change(other)
    return value if not fixed else _rebuilt(value, fixed)


def _restore(value: Any, name: str, part: Any, other: Any, change: Callable[[Any], None]) -> Callable[[], None]:
    def back() -> None:
        if any(n == name and now is other for n, now, _ in _parts(value)):
            change(part)
    return back


def _rebuilt(value: Any, fixed: Dict[str, Any]) -> Any:
    items = [fixed.get(name, part) for name, part, _ in _parts(value)]
    if isinstance(value, collections.abc.Mapping):
        return dict(zip(value, items))
    if hasattr(value, "_make"):
        return value._make(items)
    return type(value)(items)


class Given(NamedTuple):
    """A tensor that a model is called with."""
    path: str
    tensor: torch.Tensor
    said: int


def _kind(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        if x.dim() >= 3:
            return f"a field [{', '.join(map(str, x.shape[:-2]))}, rows, columns] of {x.dtype}"
        return f"a tensor of {x.dim()} axes of {x.dtype}"
    return type(x).__name__


def _checksum(x: torch.Tensor) -> int:
    """Of the bits of a tensor."""
    x = x.detach()
    if x.numel() == 0 or x.is_meta:
        return 0
    x = x.resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)
    return zlib.crc32(memoryview(x.numpy()))


def _is_constant(x: torch.Tensor, grid: Tuple[int, int]) -> bool:
    """Whether a tensor has one value along each of the last two axes that is cut: its parts may then be equal."""
    x = x.detach()
    return x.numel() == 0 or all(n == 1 or bool((x == x.narrow(axis, 0, 1)).all()) for n, axis in zip(grid, (-2, -1)))


def gathered(domain: Domain, numbers: Sequence[Sequence[int]]) -> List[List[List[int]]]:
    """The numbers of all ranks: as many on each. Collective."""
    if not numbers:
        return [[] for _ in range(domain.num_ranks)]
    own = torch.tensor([list(n) for n in numbers], dtype=torch.int64)
    if domain.num_ranks == 1:
        return [own.tolist()]
    return _core.gather(own[None], 0, domain._object, "replicated").tolist()


class Inputs:
    """What is known of the tensors that a model is called with. Equal on all ranks."""

    def __init__(self, domain: Domain, whole: Sequence[str]) -> None:
        self.domain, self.whole = domain, tuple(whole)
        self.known: Dict[Any, Tuple[int, Optional[Cuts]]] = {}
        self.parts: List[Tuple[int, int]] = []

    def reset(self) -> None:
        """For fields cut otherwise."""
        self.known.clear()

    def mark(self, what: str, names: Sequence[str], args: Sequence[Any]) -> Tuple[List[Any], Callable[[], None]]:
        """The arguments, with shards and whole tensors that carry what they are: views, so that the caller's have no mark. Collective."""
        with torch._C.DisableTorchFunction():
            given: List[Given] = []
            seen: Dict[int, int] = {}
            for name, value in zip(names, args):
                if isinstance(value, (types.GeneratorType, map, filter, zip)):
                    raise NotSharded(f"{what}: {name} is a {type(value).__name__}: what it will give cannot be seen; pass a list")
                for path, x in walk(value, name):
                    if id(x) not in seen and x.layout is torch.strided and not x.is_nested:
                        seen[id(x)] = len(given)
                        given.append(Given(path, x, self._said(path, x)))
            if self.domain._checks:
                kinds = [f"{name}: {_kind(x)}" for name, x in zip(names, args)] + [
                    f"{g.path}: {_kind(g.tensor)}" for g in given if g.path not in names]
                self.domain._object.require_same("StructureDisagreement", f"{what} with ({', '.join(kinds)})")
            verdicts = self._decide(what, given)
            new = {}
            for g, (verdict, of, needs) in zip(given, verdicts):
                view = g.tensor.view_as(g.tensor) if verdict and not isinstance(g.tensor, nn.Parameter) else g.tensor
                if needs and not g.tensor.requires_grad:  # as on some other rank, so that all have the same graph
                    view = g.tensor.detach().requires_grad_()
                new[id(g.tensor)] = mark(view, of) if verdict == FIELD else mark_whole(view) if verdict == WHOLE and view is not g.tensor else view
            undo: List[Callable[[], None]] = []
            result = [replaced(value, new, undo) for value in args]
        return result, lambda: [back() for back in reversed(undo)] and None

    def _said(self, path: str, x: torch.Tensor) -> int:
        if isinstance(x, nn.Parameter) or is_whole(x) or any(path == name or path.startswith(name + ".") for name in self.whole):
            return WHOLE
        return FIELD if cuts(x) is not None or getattr(x, "_graticule_field", False) else 0

    def _decide(self, what: str, given: Sequence[Given]) -> List[Tuple[int, Optional[Cuts], bool]]:
        """For each tensor, what it is; shards with their cuts; whether it needs a gradient on some rank. Collective."""
        result: List[Tuple[int, Optional[Cuts], bool]] = [(WHOLE, None, False)] * len(given)
        open_ = [i for i, g in enumerate(given) if g.tensor.dim() >= 2]
        if not self.parts:
            self.parts = [(p[0][0], p[0][1]) for p in gathered(self.domain, [self.domain.part])]
        every = gathered(self.domain, [self._numbers(given[i]) for i in open_])
        sizes = [tuple((rank[n][0], rank[n][1]) for rank in every) for n in range(len(open_))]
        keys = [(what, given[i].path, _kind(given[i].tensor), tuple(rank[n][2] for rank in every), sizes[n]) for n, i in enumerate(open_)]
        if any(key not in self.known for key in keys):
            values = self._values([given[i] for i in open_])
            decided = _Decision(self, what, [given[i] for i in open_], sizes, [key[3] for key in keys], values).all()
            self.known.update(zip(keys, decided))
        for n, i in enumerate(open_):
            result[i] = (*self.known[keys[n]], any(rank[n][4] for rank in every))
            sums = [rank[n][3] for rank in every]
            if result[i][0] == WHOLE and min(sums) >= 0 and min(sums) != max(sums):
                raise Error("ArgumentDisagreement", f"{what}: {given[i].path}, {tuple(given[i].tensor.shape)}, is no field, and its values are "
                            "not the same on all ranks of the domain; graticule.field(tensor) says of a parameter, or another tensor, that it is a shard", "argument")
        return result

    @staticmethod
    def _numbers(g: Given) -> List[int]:
        x = g.tensor
        small = x.device.type == "cpu" and x.numel() * x.element_size() <= _SMALL
        needs = x.requires_grad and torch.is_grad_enabled() and not isinstance(x, nn.Parameter)
        return [x.shape[-2], x.shape[-1], g.said, _checksum(x) if small else -1, int(needs)]

    def _values(self, given: Sequence[Given]) -> List[Tuple[bool, bool]]:
        """For each tensor, whether it has the same values on all ranks, and one value along each axis that is cut. Collective."""
        own = [(_checksum(g.tensor), _is_constant(g.tensor, self.domain.grid)) for g in given]
        every = gathered(self.domain, own)
        return [(len({rank[n][0] for rank in every}) == 1, all(rank[n][1] for rank in every)) for n in range(len(given))]

    def cuts_of(self, x: torch.Tensor, sizes: Sequence[Tuple[int, int]]) -> Optional[Cuts]:
        """The cuts of a shard whose sizes on all ranks are known; None where they do not fit together."""
        rows, columns = (dict[int, int]() for _ in range(2))
        for (row, column), (height, width) in zip(self.parts, sizes):
            if rows.setdefault(row, height) != height or columns.setdefault(column, width) != width:
                return None
        return tuple(rows[i] for i in range(len(rows))), tuple(columns[i] for i in range(len(columns)))


class _Decision:
    """Of one call with tensors that are new."""

    def __init__(self, inputs: Inputs, what: str, given: Sequence[Given], sizes: Sequence[Tuple[Tuple[int, int], ...]],
                 said: Sequence[Tuple[int, ...]], values: Sequence[Tuple[bool, bool]]) -> None:
        self.inputs, self.domain, self.what, self.given, self.sizes, self.said, self.values = (
            inputs, inputs.domain, what, given, sizes, said, values)
        self.fits = [inputs.cuts_of(g.tensor, s) for g, s in zip(given, sizes)]
        self.verdicts: List[int] = [0] * len(given)

    def all(self) -> List[Tuple[int, Optional[Cuts]]]:
        self._said_so()
        if self.domain.num_ranks == 1:
            self._on_one_rank()
        else:
            self._by_values()
            self._by_sizes()
        self._check_globe()
        return [(v, self.fits[i] if v == FIELD else None) for i, v in enumerate(self.verdicts)]

    def _said_so(self) -> None:
        for i, (g, said) in enumerate(zip(self.given, self.said)):
            if len({s for s in said if s}) > 1:
                raise Error("StructureDisagreement", f"{self.what}: {g.path} is said to be a shard on some ranks, and whole on others", "argument")
            self.verdicts[i] = max(said)
            if self.verdicts[i] == FIELD:
                self._require_fit(i)

    def _require_fit(self, i: int) -> None:
        if self.fits[i] is None:
            part_of(self.given[i].tensor, self.domain)  # raises on all ranks, with what it found
            raise NotSharded(f"{self.what}: {self._name(i)}: the shards of the ranks do not fit together")

    def _name(self, i: int) -> str:
        return f"{self.given[i].path}, {tuple(self.given[i].tensor.shape)},"

    def _fields(self, least: int = 2) -> List[int]:
        return [i for i, v in enumerate(self.verdicts) if v == FIELD and self.given[i].tensor.dim() >= least]

    def _extents(self) -> set:
        """Extents that are those of fields."""
        found = {extents(of) for verdict, of in self.inputs.known.values() if verdict == FIELD}
        return found | {extents(self.fits[i]) for i in self._fields()} | ({self.domain.extents} if self.domain.extents else set())

    def _first(self, candidates: Sequence[int]) -> int:
        """The tensor that is a model's field if one is: of three axes or more, that of the most cells."""
        wide = [i for i in candidates if self.given[i].tensor.dim() > 2] or list(candidates)
        return max(wide, key=lambda i: (sum(a * b for a, b in self.sizes[i]), -i))

    def _on_one_rank(self) -> None:
        """Nothing is cut: the first field and those of its extents are marked, so that refusals are those of more ranks."""
        rest = [i for i, v in enumerate(self.verdicts) if not v]
        known = self._extents()
        if rest and (not known or self.domain.extents and self.what.endswith("forward") and all(extents(self.fits[i]) not in known for i in rest)):
            self.verdicts[self._first(rest)] = FIELD
            known = self._extents()
        for i in rest:
            if not self.verdicts[i]:
                self.verdicts[i] = FIELD if extents(self.fits[i]) in known else 0

    def _by_values(self) -> None:
        """Values that differ are of shards, those that are the same on all ranks, and not constant, are whole."""
        for i, (same, constant) in enumerate(self.values):
            if self.verdicts[i]:
                continue
            if len(set(self.sizes[i])) > 1:
                self._require_fit(i)
                self.verdicts[i] = FIELD
            elif same and not constant:
                self.verdicts[i] = WHOLE
        rest = [i for i, (same, _) in enumerate(self.values) if not self.verdicts[i] and not same]
        if rest and not self._fields(3):
            self.verdicts[self._first(rest)] = FIELD
        for i in rest:
            if not self.verdicts[i] and not self._is_like_a_field(i):
                raise NotSharded(f"{self.what}: {self._name(i)} has other values on other ranks, and not the sizes of the shards: what is no "
                                 "field is the same on all ranks; a shard of another grid is said to be one by graticule.field(tensor)")
            self.verdicts[i] = FIELD

    def _is_like_a_field(self, i: int) -> bool:
        """Whether a tensor has the extents of a field, or one row or column for all, or the axes of a field and a grid of its own."""
        if extents(self.fits[i]) in self._extents():
            return True
        own = self.sizes[i][0]
        shards = [self.sizes[j][0] for j in self._fields() if j != i]
        if any(a in (1, c) and b in (1, d) and (a, b) != (1, 1) for a, b in [own] for c, d in shards):
            return True
        dims = {self.given[j].tensor.dim() for j in self._fields(3)}
        return min(own) > 1 and self.given[i].tensor.dim() in dims

    def _by_sizes(self) -> None:
        """Constants, which are the same on all ranks as shards and as whole tensors."""
        rest = [i for i, v in enumerate(self.verdicts) if not v]
        wide = [i for i in rest if self.given[i].tensor.dim() > 2 and not self._is_one_cell(i)]
        if wide and not self._fields():
            self.verdicts[self._first(wide)] = FIELD
        here = {self.sizes[i] for i in self._fields()}
        known = self._extents()
        for i in rest:
            if self.verdicts[i]:
                continue
            matches = self.sizes[i] in here or extents(self.fits[i]) in known
            if matches and self.given[i].tensor.dim() > 2 and not self._is_one_cell(i):
                self.verdicts[i] = FIELD
            elif not matches and (self.given[i].tensor.dim() == 2 or self._is_one_cell(i)):
                self.verdicts[i] = WHOLE
            else:
                raise NotSharded(f"{self.what}: {self._name(i)} has one value on all ranks, so it may be a shard or a whole tensor: say "
                                 "graticule.whole(tensor), or graticule.field(tensor) of a shard")

    def _is_one_cell(self, i: int) -> bool:
        return set(self.sizes[i]) == {(1, 1)}

    def _check_globe(self) -> None:
        """Raises where a whole field was passed for a shard."""
        known, fields = self._extents(), self._fields()
        declared = self.domain.extents
        for i, verdict in enumerate(self.verdicts):
            silent = verdict == WHOLE and not any(self.said[i]) and self.given[i].tensor.dim() > 2
            if silent and not fields and (self.given[i].tensor.dim() > 3 or self.what.endswith("forward") or self.sizes[i][0] in known):
                raise NotSharded(f"{self.what}: {self._name(i)} has the same values on all {self.domain.num_ranks} ranks, so it is no shard: "
                                 "graticule.shard_of(tensor, domain) is this rank's part of a whole field; graticule.whole(tensor) says that "
                                 "it is no field")
        if declared and fields and all(extents(self.fits[i]) != declared for i in fields):
            i = self._first(fields)
            rows, columns = extents(self.fits[i])
            raise Error("ShapeMismatch", f"{self.what}: {self._name(i)} and the shards of the other ranks are {rows} x {columns} cells; the domain "
                        f"was made for rows={declared[0]}, columns={declared[1]}", "argument")


@functools.lru_cache(maxsize=256)
def _positional(function: Any) -> List[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def names_of(function: Any, args: Sequence[Any], kwargs: Dict[str, Any], bound: bool = True) -> List[str]:
    """The names of positional arguments, then those of keywords in order."""
    named = _positional(function)[1 if bound else 0:][:len(args)]
    return named + [str(i) for i in range(len(named), len(args))] + sorted(kwargs)
