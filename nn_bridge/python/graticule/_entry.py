# SPDX-License-Identifier: BSD-3-Clause
"""Where the code of a sharded model begins and ends: its forward and its other methods, called from outside."""
from __future__ import annotations

import functools
import inspect
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from . import _core, _inputs, _random
from ._cuts import Active, NotSharded, cuts, extents
from ._domain import Domain
from ._errors import Error
from ._failures import Together
from ._joins import Joins
from ._layer import layers_of
from ._library import require_eager, uncompiled, watch
from ._outside import note_result

_ATTRIBUTE = "_graticule_code"


class Code:
    """What a module's own code needs on shards, and what is known of its calls."""

    def __init__(self, domain: Domain, whole: Sequence[str]) -> None:
        self.domain, self.whole = domain, tuple(whole)
        self.layers: Dict[Any, Any] = {}
        self.inputs = _inputs.Inputs(domain, whole)
        self.called = False
        self.watched: Optional[Any] = None
        self.tensors: List[torch.Tensor] = []
        self.version: Optional[int] = None  # of parameters and buffers when they were compared
        self.draws = [0, 0]  # whether the code has drawn numbers of Python, and of numpy

    def __deepcopy__(self, memo: dict) -> "Code":
        return Code(self.domain, self.whole)

    def reset_structure(self) -> None:
        """For other cuts at the next call."""
        self.layers.clear()
        self.inputs.reset()

    def together(self, module: nn.Module) -> Together:
        """A call, from its begin to its end."""
        def forget() -> None:
            for layer in layers_of(module):
                layer.reset_structure()
            self.called, self.version = False, None
            self.inputs.parts.clear()

        return Together(self.domain, forget)

    def begin(self, module: nn.Module, name: str, names: Sequence[str], args: Sequence[Any],
              kwargs: Dict[str, Any]) -> Tuple[Joins, List[Any], Dict[str, Any], Callable[[], None]]:
        """The arguments with marks, and the mode that sees what is done with them. Collective."""
        what = f"{type(module).__name__}.{name}"
        require_eager(f"the sharded {what}")
        self._compare_state(module)
        if any(self.draws):
            self._compare_random(what, _random.of_python())
        keys = sorted(kwargs)
        marked, undo = self.inputs.mark(f"the call of {what}", names, [*args, *(kwargs[k] for k in keys)])
        mode = Joins(self.domain, self.layers)
        for _, x in _inputs.walk(marked):
            if cuts(x) is not None:
                mode.first.setdefault(extents(cuts(x)), x)
                mode.home.setdefault(extents(cuts(x)), cuts(x))
        return mode, marked[:len(args)], dict(zip(keys, marked[len(args):])), undo

    def run(self, module: nn.Module, name: str, function: Callable[..., Any], names: Sequence[str], args: Sequence[Any],
            kwargs: Dict[str, Any]) -> Any:
        """A call of a method from outside. Collective."""
        with self.together(module):
            mode, args, kwargs, undo = self.begin(module, name, names, args, kwargs)
            before = _random.of_python()
            try:
                with mode:
                    result = function(module, *args, **kwargs)
                self.draws = [int(drawn or a != b) for drawn, a, b in zip(self.draws, before, _random.of_python())]
                if not self.called:
                    self._compare_random(name, before)
                self.called = True
                return returned(mode, result)
            finally:
                undo()

    def _compare_state(self, module: nn.Module) -> None:
        """Compares parameters and buffers at the first call, and where one rank alone has written to some since. Collective."""
        version = self._version(module)
        own = 0 if self.version is None else (version - self.version) % (1 << 60)
        if self.version is None:
            refuse_backward_hooks(module, self.domain)
        if self.version is None or self.domain._checks and _core.compare_calls(self.domain._object, 0, 2 * own):
            compare_state(module, self.domain)
            self.version = version

    def _version(self, module: nn.Module) -> int:
        """A number that grows with each write to a parameter or a buffer of the layers of torch.nn."""
        if self.watched is None or not self.watched.unchanged():
            self.watched, self.tensors = watch(module), [x for _, x in _state(module) if not x.is_inference()]
        with torch._C.DisableTorchFunction():
            return len(self.tensors) + sum([x._version for x in self.tensors])

    def _compare_random(self, what: str, states: Sequence[int]) -> None:
        """Raises NotSharded, on all ranks, where the code draws numbers of Python or numpy that are not the same on all ranks. Collective."""
        every = _inputs.gathered(self.domain, [self.draws, states])
        for i, source in enumerate(("Python's random", "numpy.random")):
            if any(rank[0][i] for rank in every) and len({rank[1][i] for rank in every}) > 1:
                raise NotSharded(f"{what} draws numbers of {source}, which is not in the same state on all ranks of the domain: seed it alike, or "
                                 "draw by torch.rand and others of torch, which in a sharded model are the same on all ranks")

    def iterate(self, module: nn.Module, name: str, function: Callable[..., Any], names: Sequence[str], args: Sequence[Any],
                kwargs: Dict[str, Any]) -> Iterator[Any]:
        """A generator, whose code runs between two values that it yields. Collective."""
        with self.together(module):
            mode, args, kwargs, undo = self.begin(module, name, names, args, kwargs)
        try:
            steps = function(module, *args, **kwargs)
            while True:
                with self.together(module):
                    try:
                        with mode:
                            value = next(steps)
                    except StopIteration as end:
                        return end.value
                    value = returned(mode, value)
                yield value
        finally:
            undo()


def returned(mode: Joins, result: Any) -> Any:
    """What a model returns: see `Joins.returned`. Collective."""
    moved: Dict[int, torch.Tensor] = {}
    for _, x in _inputs.walk(result):
        if id(x) not in moved:
            own = mode.returned(x)
            if own is not x:
                moved[id(x)] = own
    result = _inputs.replaced(result, moved, []) if moved else result
    for _, x in _inputs.walk(result):
        note_result(x, mode.domain, (1, 1) if cuts(x) is None else mode.domain.grid)
    return result


def refuse_backward_hooks(module: nn.Module, domain: Domain) -> None:
    """Raises NotSharded for a full backward hook of a module, which sees this rank's part of a gradient."""
    for path, part in module.named_modules():
        if domain.num_ranks > 1 and (part._backward_hooks or getattr(part, "_backward_pre_hooks", None)):
            raise NotSharded(f"{path or 'the model'} ({type(part).__name__}) has a full backward hook, which would take this rank's part of a "
                             "gradient for that of the globe: remove it")


def _state(module: nn.Module) -> List[Tuple[str, torch.Tensor]]:
    """Parameters, and buffers of torch.nn's own modules, which know no shards; those of others may be parts of fields."""
    found: List[Tuple[str, torch.Tensor]] = [(f"parameter {name}", p) for name, p in module.named_parameters() if not is_lazy(p)]
    for path, part in module.named_modules():
        if any(kind.__module__.startswith("torch.") for kind in type(part).__mro__ if kind is not nn.Module and issubclass(kind, nn.Module)):
            found += [(f"buffer {path}.{name}", b) for name, b in part._buffers.items() if b is not None and not is_lazy(b)]
    # Of a DTensor, as fully_shard makes them, this rank's part: ranks of a domain hold the same.
    found = [(name, x._local_tensor if hasattr(x, "_local_tensor") else x) for name, x in found]  # type: ignore[attr-defined]
    return [(name, x) for name, x in found if x.layout is torch.strided]


def compare_state(module: nn.Module, domain: Domain) -> None:
    """Raises ReplicaMismatch, or WrongState for one without values, on all ranks, where parameters or buffers of layers are not the same on
    all ranks of a domain. Collective."""
    with torch._C.DisableTorchFunction():
        own = _state(module)
        every = _inputs.gathered(domain, [[-1 if x.is_meta else _inputs._checksum(x)] for _, x in own])
    for i, (name, x) in enumerate(own):
        values = [rank[i][0] for rank in every]
        if min(values) < 0:
            raise Error("WrongState", f"{type(module).__name__}: the {name}, {tuple(x.shape)}, is on the meta device and has no values: "
                        "load them, on all ranks, before the first forward", "argument")
        if len(set(values)) > 1:
            other = next(r for r, v in enumerate(values) if v != values[0])
            raise Error("ReplicaMismatch", f"{type(module).__name__}: the {name}, {tuple(x.shape)}, has other values on rank {other} than "
                        "on rank 0 of the domain, whose ranks share one sample: load the same file on all ranks, or copy them by "
                        "GradientSync(model, [(comm, 'sum')]).broadcast() before the next forward", "argument")


def _entered(base: type, name: str, function: Callable[..., Any], bound: bool = True, named: Any = None) -> Callable[..., Any]:
    """A method that begins a sharded call where it is called from outside. bound: whether it takes the module."""
    def plain(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return function(module, *args, **kwargs) if bound else function(*args, **kwargs)

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        code = self.__dict__.get(_ATTRIBUTE)
        if Active.mode is not None or code is None or name != "forward" and not _has_fields(args, kwargs):
            return plain(self, *args, **kwargs)
        run = code.iterate if inspect.isgeneratorfunction(function) else code.run
        return run(self, name, plain, _inputs.names_of(named or function, args, kwargs, bound), args, kwargs)

    functools.update_wrapper(call, function)
    call.__qualname__ = f"{base.__qualname__}.{name}, sharded,"
    return uncompiled(call)


class _OfClass:
    """A static method or one of the class, which stays what it is without an object."""

    def __init__(self, base: type, name: str, found: Any) -> None:
        self.found, self.base, self.name = found, base, name

    def __get__(self, module: Any, kind: Any = None) -> Any:
        if module is None:
            return self.found.__get__(None, kind)
        return _entered(self.base, self.name, self.found.__get__(None, type(module)), False).__get__(module, kind)


def _has_fields(args: Sequence[Any], kwargs: Dict[str, Any]) -> bool:
    return any(x.dim() >= 2 and not isinstance(x, nn.Parameter) for _, x in _inputs.walk([*args, kwargs]))


_NOT_OWN = ("torch", "lightning", "pytorch_lightning", "lightning_fabric")


def _is_own(kind: type, name: str, value: Any) -> bool:
    """Whether a member of a class is a method of the model's own."""
    return isinstance(value, (staticmethod, classmethod, types.FunctionType)) and (name == "forward" or not hasattr(nn.Module, name))


class _Unregistered:
    """A base whose subclasses are not told to those that register theirs, such as models by their names."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass


@functools.lru_cache(maxsize=None)
def code_class(base: type) -> type:
    """The class with forward and all methods of the model's own that begin a sharded call where they are called from outside."""
    found = {"forward": base.forward}
    for kind in reversed(base.__mro__):
        if kind.__module__.partition(".")[0] not in _NOT_OWN and issubclass(kind, nn.Module):
            found.update({name: value for name, value in vars(kind).items() if _is_own(kind, name, value)})
    members = {name: _entered(base, name, value) if isinstance(value, types.FunctionType) else _OfClass(base, name, value)
               for name, value in found.items()}
    # With the hooks of the module within.
    members["__call__"] = _entered(base, "forward", base.__call__, named=base.forward)
    return type(base.__name__, (_Unregistered, base), {**members, "__module__": base.__module__, "__doc__": base.__doc__})


def run_code(module: nn.Module, domain: Domain, whole: Sequence[str]) -> None:
    """Makes the methods of a module begin a sharded call, once."""
    if _ATTRIBUTE in module.__dict__:
        return
    for name, value in list(module.__dict__.items()):  # functions that are the object's alone
        if isinstance(value, types.FunctionType):
            module.__dict__[name] = types.MethodType(_entered(type(module), name, value, False), module)
        elif isinstance(value, functools.partial) and not isinstance(value.func, nn.Module):
            module.__dict__[name] = types.MethodType(_entered(type(module), name, value, False, value.func), module)
        elif isinstance(value, types.MethodType) and value.__self__ is module:
            module.__dict__[name] = types.MethodType(_entered(type(module), name, value.__func__), module)
    module.__dict__[_ATTRIBUTE] = Code(domain, whole)
    module.__class__ = code_class(type(module))
