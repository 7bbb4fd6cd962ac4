# SPDX-License-Identifier: BSD-3-Clause
"""Values that a forward leaves on its modules for its next call, and whether a graph of one call may lack them."""
from __future__ import annotations

import collections
import contextlib
import dis
import linecache
import os
import re
import sys
import types
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ._capture import CaptureError, replaced

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OF_MODULES = frozenset(("__dict__", "__class__", *vars(torch.nn.Module())))
_OPAQUE = (torch.Tensor, torch.nn.Module, type, types.FunctionType, types.MethodType, types.ModuleType)
_OF_OTHERS = {"torch", "numpy", "mpi4py", "graticule", "builtins", "functools", "logging", "threading", "pathlib", "datetime"}
_DEEPEST = 4
_MOST = 4096  # of the values that one attribute holds
Key = Tuple[int, str]


def is_holder(value: Any) -> bool:
    """Whether a value is an object of the user's own class, whose attributes may change."""
    return not isinstance(value, _OPAQUE) and type(value).__module__.partition(".")[0] not in _OF_OTHERS and type(getattr(value, "__dict__", None)) is dict


def holders(value: Any, found: Optional[List[Any]] = None, depth: int = 0) -> List[Any]:
    """The lists, dictionaries, sets and deques in a value, and the attributes of objects."""
    found = [] if found is None else found
    if depth == _DEEPEST or len(found) > _MOST:
        return found
    held = vars(value) if is_holder(value) and not isinstance(value, (dict, list, set, collections.deque)) else value
    if isinstance(held, (dict, list, set, collections.deque)):
        if any(held is one for one in found):
            return found
        found.append(held)
    elif not isinstance(held, tuple):
        return found
    for inner in list(held.values()) if isinstance(held, dict) else list(held):
        holders(inner, found, depth + 1)
    return found


def restore(holder: Any, before: Any) -> None:
    """Gives a list, dictionary, set or deque the contents of a copy."""
    if isinstance(holder, list):
        holder[:] = before
        return
    holder.clear()
    getattr(holder, "extend" if isinstance(holder, collections.deque) else "update")(before)


def _differs(holder: Any, before: Any) -> bool:
    if isinstance(holder, set):
        return holder != before
    if isinstance(holder, dict):
        return list(holder) != list(before) or any(holder[key] is not before[key] for key in holder)
    return len(holder) != len(before) or any(one is not other for one, other in zip(holder, before))


class Kept:
    """The attributes of modules, and what is in them, so that they can be put back."""

    def __init__(self, module: torch.nn.Module) -> None:
        # Hooks as well: a model that installs its own on the first call would have them twice.
        names = [name for name, value in vars(torch.nn.Module()).items() if isinstance(value, dict)]
        self.parts = [(part, dict(part.__dict__), {name: dict(part.__dict__[name]) for name in names if name in part.__dict__}) for part in module.modules()]
        self.contents: Dict[Key, List[Tuple[Any, Any]]] = {}
        for part, attributes, _ in self.parts:
            for name, value in attributes.items():
                if name not in _OF_MODULES and not isinstance(value, (bool, int, float, str, torch.Tensor, torch.nn.Module, type(None))):
                    if inner := holders(value):
                        self.contents[id(part), name] = [(one, one.copy()) for one in inner]

    def new_buffers(self) -> List[str]:
        """Names of buffers that were not there."""
        return [f"{type(part).__name__}.{name}" for part, _, tables in self.parts for name in set(part._buffers) - set(tables["_buffers"])]

    def changed(self, part: torch.nn.Module, attributes: Dict[str, Any], name: str) -> bool:
        """Whether an attribute that was read has another value since."""
        old, new = attributes.get(name, ...), part.__dict__.get(name, ...)
        if old is not new:
            return not (type(old) is type(new) and isinstance(old, (bool, int, float, str, tuple)) and old == new)
        return any(_differs(holder, before) for holder, before in self.contents.get((id(part), name), ()))

    def put_back(self) -> None:
        """All as it was."""
        for part, attributes, tables in self.parts:
            part.__dict__.clear()
            part.__dict__.update(attributes)
            for name, values in tables.items():
                if _differs(attributes[name], values):
                    restore(attributes[name], values)
        for contents in self.contents.values():
            for holder, before in contents:
                if _differs(holder, before):
                    restore(holder, before)


class Attributes:
    """What the forward reads of the attributes of modules, and which of these it changes.

    An attribute that it writes before it reads it is none of them.
    """

    def __init__(self) -> None:
        self.read: Dict[Key, torch.nn.Module] = {}
        self.written: Set[Key] = set()
        self.changed: Dict[Key, torch.nn.Module] = {}
        self.counts: Set[Key] = set()  # whose values the forward does nothing with but to add a number to them
        self._places: Dict[Key, Tuple[str, int]] = {}
        self._numbers: Dict[Key, Set[Tuple[types.CodeType, int]]] = {}  # where numbers are read

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Notes what is read, and where."""
        plain_read, plain_write, plain_remove = object.__getattribute__, torch.nn.Module.__setattr__, torch.nn.Module.__delattr__

        def get(part: torch.nn.Module, name: str) -> Any:
            if name in _OF_MODULES:
                return plain_read(part, name)
            key = id(part), name
            frame = sys._getframe(1)
            if key not in self.written:
                self.read.setdefault(key, part)
                if not frame.f_code.co_filename.startswith(_TORCH):
                    self._places[key] = frame.f_code.co_filename, frame.f_lineno
            value = plain_read(part, name)
            if type(value) is int or type(value) is float:
                self._numbers.setdefault(key, set()).add((frame.f_code, frame.f_lasti))
            return value

        def put(part: torch.nn.Module, name: str, value: Any) -> None:
            key = id(part), name
            if key not in self.read:
                self.written.add(key)
            else:
                frame = sys._getframe(1)
                self._places[key] = frame.f_code.co_filename, frame.f_lineno
            plain_write(part, name, value)

        def remove(part: torch.nn.Module, name: str) -> None:
            if (key := (id(part), name)) not in self.read:
                self.written.add(key)
            plain_remove(part, name)

        if "torch._dynamo" in sys.modules:  # which would compile them with submodules
            for spy in (get, put, remove):
                torch._dynamo.eval_frame.skip_code(spy.__code__)
        module = torch.nn.Module
        with replaced(module, "__getattribute__", get), replaced(module, "__setattr__", put), replaced(module, "__delattr__", remove):
            yield

    def compare(self, kept: Kept) -> None:
        """Notes which attributes that the forward has read are not as they were."""
        for part, attributes, tables in kept.parts:
            for name, x in tables["_buffers"].items():
                if x is None and part._buffers.get(name) is not None and (id(part), name) in self.read:
                    self.changed[id(part), name] = part
            for name in {*attributes, *part.__dict__} - _OF_MODULES:
                if (id(part), name) in self.read and kept.changed(part, attributes, name):
                    self.changed[id(part), name] = part
        self.written.clear()  # of this call

    def only_counts(self, key: Key) -> bool:
        """Whether all that the forward does with an attribute is `self.name += 1`."""
        return bool(self._numbers.get(key)) and all(_is_count(code, place, key[1]) for code, place in self._numbers[key])

    def text(self, key: Key) -> str:
        """`Net.count (net.py:27: self.count += 1)`"""
        file, line = self._places.get(key, ("", 0))
        code = linecache.getline(file, line).strip()
        return f"{type(self.read[key]).__name__}.{key[1]}" + (f" ({os.path.basename(file)}:{line}{': ' + code if code else ''})" if file else "")

    def held(self) -> Tuple[Tuple[torch.nn.Module, str], ...]:
        """The modules and the names of what they hold themselves, on which the graph may depend."""
        return tuple((part, name) for (key, name), part in self.read.items() if name in part.__dict__ and (key, name) not in self.counts)


def _is_count(code: types.CodeType, place: int, name: str) -> bool:
    """Whether the instruction that reads `name` is that of `self.name += 1`."""
    here = [one for one in dis.get_instructions(code) if one.offset >= place and one.opname not in ("CACHE", "EXTENDED_ARG")][:5]
    names = [one.opname for one in here]
    if len(here) < 5 or here[0].argval != name or not names[0].startswith("LOAD_ATTR") or names[1] not in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return False
    adds = names[2] in ("INPLACE_ADD", "INPLACE_SUBTRACT") or here[2].argrepr in ("+=", "-=")
    return adds and names[3] in ("SWAP", "ROT_TWO") and names[4] == "STORE_ATTR" and here[4].argval == name


# --- Whether the next call depends on what a call has left ---

class Numbers(TorchDispatchMode):
    """Numbers tensors by how they are computed: those with one number have one value, of the same inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.known: Dict[int, Tuple[torch.Tensor, int]] = {}  # the tensors stay, so that their ids do
        self.written: Dict[int, Tuple[Any, int]] = {}  # memory that was written to
        self.symbols: Dict[str, int] = {}  # of numbers that are values of tensors

    def name(self, x: torch.Tensor, name: Any) -> None:
        """Gives a tensor a number of its own."""
        self.known[id(x)] = x, hash(name)

    def of(self, x: torch.Tensor) -> int:
        """The number of a tensor."""
        if id(x) not in self.known:
            self.known[id(x)] = x, hash(self._contents(x))
        number = self.known[id(x)][1]
        memory = _memory(x)
        written = self.written.get(memory) if memory else None
        return number if written is None else hash((number, written[1]))

    @staticmethod
    def _contents(x: torch.Tensor) -> Any:
        kind = tuple(x.shape), str(x.dtype)
        if type(x) is not torch.Tensor and not isinstance(x, torch.nn.Parameter) or x.numel() > _MOST or x.device.type == "meta" or x.layout is not torch.strided:
            return kind
        with torch.utils._python_dispatch._disable_current_modes():
            return (*kind, str(x.detach().tolist()))

    def text(self, value: Any) -> Any:
        """Of arguments: numbers in the places of tensors."""
        leaves, spec = pytree.tree_flatten(value)
        return hash((str(spec), tuple(self.of(x) if isinstance(x, torch.Tensor) else self.of_number(x) for x in leaves)))

    def of_number(self, x: Any) -> str:
        """The text of what is no tensor."""
        if not isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return repr(x)
        return re.sub(r"\w+", lambda symbol: str(self.symbols.get(symbol[0], symbol[0])), str(x))

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        number = hash((str(function), self.text((args, kwargs))))
        result = function(*args, **kwargs)
        written = []
        if function._schema.is_mutable:
            given = dict(zip((one.name for one in function._schema.arguments), args), **kwargs)
            named = [given.get(one.name) for one in function._schema.arguments if one.alias_info is not None and one.alias_info.is_write]
            written = [x for x in pytree.tree_leaves(named) if isinstance(x, torch.Tensor)]
        for x in written:
            if memory := _memory(x):
                view = number, x.storage_offset(), tuple(x.shape), tuple(x.stride())
                self.written[memory] = x, hash((self.written.get(memory, (None, 0))[1], view))
        for place, x in enumerate(pytree.tree_leaves(result)):
            if isinstance(x, torch.Tensor) and not any(x is one for one in written):
                self.known[id(x)] = x, hash((number, place))
            elif isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                self.symbols.setdefault(str(x), hash((number, place)))
        return result


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata if x.layout is torch.strided else 0


def _value(numbers: Numbers, value: Any, depth: int = 0) -> Any:
    """A value of an attribute, which equals another one where the forward cannot tell them apart."""
    if isinstance(value, torch.Tensor):
        return numbers.of(value)
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return type(value), value
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return numbers.of_number(value)
    if depth == _DEEPEST:
        return type(value)
    if is_holder(value) and not isinstance(value, (dict, list, tuple, set, collections.deque)):
        value = vars(value)
    if isinstance(value, dict):
        return type(value), tuple((str(key), _value(numbers, one, depth + 1)) for key, one in value.items())
    if isinstance(value, set):
        return type(value), tuple(sorted(map(str, value)))
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value), tuple(_value(numbers, one, depth + 1) for one in value)
    return type(value)


class Effects:
    """What the second of two calls makes of the state that the first one left.

    lasting: attributes that the second call depends on, or changes otherwise than the first. added: numbers that nothing depends on, and
    what each call adds to them.
    """

    def __init__(self, module: torch.nn.Module, attributes: Attributes, mode: Any, args: Any, kwargs: Any) -> None:
        self.module, self.attributes, self.mode, self.given = module, attributes, mode, (args, kwargs)
        self.lasting: List[Key] = []
        self.added: Dict[Key, Any] = {}
        fresh, after = self._calls(("second",)), self._calls(("first", "second"))
        if fresh is None or after is None:
            self.lasting = list(attributes.changed)
            return
        differ = [key for key in attributes.read if fresh[-1][1].get(key) != after[-1][1].get(key)]
        if fresh[-1][0] != after[-1][0]:
            self.lasting = [key for key in differ if not attributes.only_counts(key)] or differ or list(attributes.changed)
            return
        for key in differ:
            steps = [_value(Numbers(), attributes.read[key].__dict__.get(key[1])), *(states.get(key) for _, states in after)]
            numbers = [one[1] for one in steps if isinstance(one, tuple) and one[0] in (int, float)]
            if attributes.only_counts(key) and len(numbers) == 3 and numbers[1] - numbers[0] == numbers[2] - numbers[1]:
                self.added[key] = numbers[1] - numbers[0]
            else:
                self.lasting.append(key)

    def check(self) -> None:
        """Refuses a state that the next call of the serial model would read."""
        if self.lasting:
            names = sorted({self.attributes.text(key) for key in self.lasting})
            raise CaptureError(f"the forward keeps {', '.join(names)} for its next call, which a graph lacks: make it an argument and a result, "
                               "or a buffer")

    def _calls(self, names: Tuple[str, ...]) -> Optional[List[Tuple[Any, Dict[Key, Any]]]]:
        """Of each call its result, and the attributes after it, as numbers. None where one fails."""
        numbers, found, kept = Numbers(), [], Kept(self.module)
        try:
            with self.mode:
                for name in names:
                    self.attributes.written.clear()
                    self._take_own_buffers(kept)
                    left = [part._buffers.get(key) for part, _, tables in kept.parts for key, x in tables["_buffers"].items() if x is None]
                    for path, x in (*self.module.named_parameters(), *self.module.named_buffers()):
                        if not any(x is one for one in left):
                            numbers.name(x, path)
                    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.detach().requires_grad_(x.requires_grad).clone(), self.given)
                    for place, x in enumerate(pytree.tree_leaves((args, kwargs))):
                        if isinstance(x, torch.Tensor):
                            numbers.name(x, (name, place))
                    with numbers:
                        result = self.module(*args, **kwargs)
                    states = {(id(part), key): _value(numbers, value) for part, _, _ in kept.parts for key, value in part.__dict__.items()
                              if key not in _OF_MODULES}
                    found.append((numbers.text(result), states))
        except Exception:
            return None
        finally:
            kept.put_back()
        return found

    def _take_own_buffers(self, kept: Kept) -> None:
        """Copies that may be written to: a graph has the changes of buffers."""
        own: Dict[int, torch.Tensor] = {}
        for part, _, tables in kept.parts:
            for name, x in tables["_buffers"].items():
                if x is not None:
                    part._buffers[name] = own.setdefault(id(x), x.detach().clone())


@contextlib.contextmanager
def unchanged(module: torch.nn.Module, changes: Optional[Attributes] = None) -> Iterator[None]:
    """Puts back what the forward stores on its modules, which are fake tensors. Refuses new buffers, whose program would be wrong.

    changes: notes which of the values are others.
    """
    kept = Kept(module)

    def compare(part: torch.nn.Module, *_: Any) -> None:
        if part is module and changes is not None:  # here, because torch.export itself puts tensors back
            changes.compare(kept)

    hook = torch.nn.modules.module.register_module_forward_hook(compare)
    try:
        yield
    finally:
        hook.remove()
        added = kept.new_buffers()
        kept.put_back()
        if added:
            raise CaptureError(f"the forward registers the buffer {', '.join(sorted(added))}: register it when the module is made")
