# SPDX-License-Identifier: BSD-3-Clause
"""Calls functions of graticule.h, as `graticule.engine` describes them."""
from __future__ import annotations

import array as lists
import atexit
import ctypes
import enum
import math
import operator
import re
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

import numpy as np
import torch

from . import _core, _mpi
from ._errors import Error
from ._library import at_end, check_mpi, communicator_of, end_together, require_parent

MAX_AXES = 8
_FAULTS = {1: "argument", 2: "program", 3: "usage", 4: "input", 5: "check", 6: "mpi", 7: "memory", 8: "other"}
_SIMPLE = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
           "MPI_Fint": ctypes.c_int, "void*": ctypes.c_void_p}
_LISTS = {ctypes.c_int: "i", ctypes.c_int64: "q"}
_NUMPY = {ctypes.c_int: np.intc, ctypes.c_int64: np.int64, ctypes.c_double: np.double}
_TYPES = {"uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "bfloat16": 6, "float32": 7, "float64": 8,
          "complex64": 9, "complex128": 10, "bool": 0}
_names: Dict[Any, str] = {}  # of types of numpy, which take as long as all else to write their own

library = ctypes.CDLL(str(_mpi.folder / "libgraticule_c.so"))
library.gr_error_text.restype = library.gr_error_rule.restype = ctypes.c_char_p
_handles: Dict[str, Type["Handle"]] = {}
_structures: Dict[str, Type["Structure"]] = {}
_enums: Dict[str, Type[enum.IntEnum]] = {}
_open: List["weakref.ReferenceType[Handle]"] = []
_started = False


def check(status: int) -> None:
    """Raises the error of a status."""
    if status != 0:
        text, rule = (f().decode(errors="replace") for f in (library.gr_error_text, library.gr_error_rule))
        raise Error(rule or "Error", text.replace(f"{rule}: ", "", 1).removeprefix("gr_"), _FAULTS.get(status, "other"))


def init(num_threads: int = 0, check_mode: Optional[str] = None) -> None:
    """Starts MPI and Kokkos unless the program has done so. The first call of the engine does it; later calls do nothing.

    num_threads: of Kokkos' host space; 0: as torch has them. check_mode: "none", "comm", "cells" or "all", as GRATICULE_CHECK.
    """
    global _started
    require_parent("a call of graticule.engine")
    if _started:
        return
    check_mpi()
    check(library.gr_init(num_threads or torch.get_num_threads(), None if check_mode is None else check_mode.encode()))
    _started = True
    atexit.register(_end)
    at_end.append(_end)
    end_together()


def _end() -> None:
    # It frees what is open, and waits a second at most for ranks that do not come: this one may have called sys.exit.
    library.gr_finalize()
    for reference in list(_open):
        handle = reference()
        if handle is not None:
            handle._pointer = None


class Structure(ctypes.Structure):
    """A structure of graticule.h; members that are not given have the value 0, None or "no"."""

    size: int
    _kinds: Dict[str, Any] = {}  # of the members

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls._kinds = dict(cls.__dict__.get("_fields_", ()))
        if cls.__name__ != "RawField":
            _structures["gr_" + re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()] = cls
        else:
            _structures["gr_field"] = cls

    def __init__(self, **members: Any) -> None:
        super().__init__()
        self.size = ctypes.sizeof(self)
        for name, value in members.items():
            self.set(name, value)

    def set(self, name: str, value: Any) -> None:
        """Sets a member; lists may be shorter than the array."""
        fields = self._kinds
        if name not in fields:
            raise TypeError(f"{type(self).__name__} has no member {name!r}; it has {', '.join(n for n in fields if n != 'size')}")
        try:
            if issubclass(fields[name], ctypes.Array) and not isinstance(value, ctypes.Array):
                _fill(getattr(self, name), value)
            else:
                super().__setattr__(name, value)
        except TypeError:
            kind = fields[name]
            wanted = f"a list of at most {kind._length_}" if issubclass(kind, ctypes.Array) else "a number"
            raise TypeError(f"{type(self).__name__}: {name} = {value!r} is not {wanted}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            self.set(name, value)
        except TypeError as error:
            if name in self._kinds:
                raise
            raise AttributeError(str(error)) from None

    def __repr__(self) -> str:
        def shown(value: Any) -> Any:
            return [shown(v) for v in value] if isinstance(value, ctypes.Array) else value
        return f"{type(self).__name__}({', '.join(f'{n}={shown(getattr(self, n))}' for n, _ in self._fields_[1:])})"  # type: ignore


def _fill(array: Any, values: Any) -> None:
    values = list(values)
    if len(values) > len(array):
        raise ValueError(f"{len(values)} values where at most {len(array)} fit")
    for i, value in enumerate(values):
        if isinstance(array[i], ctypes.Array):
            _fill(array[i], value)
        else:
            array[i] = value


class Handle:
    """An object of the library. `close` frees it, and so does leaving a `with`."""

    _destroy = ""
    _collective = False  # freed by all ranks together: by `close`, or at the end of the program
    _ndim = 0

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        _handles["gr_" + re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()] = cls

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is made by its class methods")

    @classmethod
    def _of(cls, pointer: ctypes.c_void_p, keep: Any) -> Any:
        handle = cls.__new__(cls)
        handle._pointer, handle._keep = pointer, keep
        _open.append(weakref.ref(handle, _forget))
        return handle

    def close(self) -> None:
        """Frees the object."""
        if getattr(self, "_pointer", None):
            pointer, self._pointer = self._pointer, None
            check(getattr(library, self._destroy)(ctypes.byref(pointer)))

    def __enter__(self):
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._collective and getattr(self, "_pointer", None):
            getattr(library, self._destroy)(ctypes.byref(self._pointer))


def _forget(reference: "weakref.ReferenceType[Handle]") -> None:
    try:
        _open.remove(reference)
    except ValueError:
        pass


class Field:
    """An array with what a plan does not see in it.

    array: of numpy or torch, or any object with `__dlpack__`; any strides, never copied.
    axes: its axes of the grid, in order; default: the last ones. first: the element of the first owned cell (halo plans) or of
    the first cell of the box; default: the array has exactly the box. parity: `Parity.ODD` for components of vectors.
    kind: of a halo plan, from 0. queue: the native queue (CUDA stream) of device memory; default: torch's current one.
    """

    def __init__(self, array: Any, axes: Optional[Sequence[int]] = None, first: Optional[Sequence[int]] = None, parity: int = 0,
                 kind: int = 0, queue: Optional[int] = None) -> None:
        self.array = array
        self.raw = _describe(array)
        for name, value in (("axes", axes), ("first", first)):
            if value is not None and not all(hasattr(type(v), "__index__") for v in value):
                raise TypeError(f"Field: {name} = {value!r} is not a list of integers")
        for name, value in (("parity", parity), ("kind", kind)):
            if not hasattr(type(value), "__index__"):
                raise TypeError(f"Field: {name} = {value!r} is not an integer" + (", such as Parity.ODD" if name == "parity" else ""))
        if queue is not None:
            self.raw.queue = queue
        if axes is not None:
            self.raw.num_grid_axes = len(axes)
            _fill(self.raw.grid_axes, [a % self.raw.rank for a in axes])
        if first is not None:
            self.raw.has_first = 1
            _fill(self.raw.first, first)
        if parity or kind:
            self.raw.parity, self.raw.kind = int(parity), kind


def _is_lazy(array: Any) -> bool:
    """Whether the values of a tensor are the conjugates or the negatives of those in memory."""
    return isinstance(array, torch.Tensor) and array.layout is torch.strided and (array.is_conj() or array.is_neg())


def _in_memory(field: "Field") -> "Field":
    """A field whose memory has its values: itself, or a copy of a tensor that torch conjugates or negates when it is read."""
    if not _is_lazy(field.array):
        return field
    copy = Field.__new__(Field)
    copy.array, copy.raw = field.array.detach().resolve_conj().resolve_neg(), type(field.raw).from_buffer_copy(field.raw)
    described = _describe(copy.array)
    copy.raw.base, copy.raw.strides = described.base, described.strides
    return copy


def _require_writable(array: Any, what: str) -> None:
    if _is_lazy(array):
        raise Error("FieldMismatch", f"{what} is the conjugate or the negative of what is in its memory, and would be written: use "
                    "resolve_conj() or resolve_neg()", "argument")
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise Error("FieldMismatch", f"{what} is a read-only array of numpy, and would be written", "argument")
    if isinstance(array, torch.Tensor) and array.requires_grad and torch.is_grad_enabled():
        raise Error("FieldMismatch", f"{what} requires a gradient, which would not see what is written: use graticule.nn, or detach()", "argument")


def _describe(array: Any) -> Any:
    if type(array) is not np.ndarray:
        return _describe_other(array)
    name = _names.get(array.dtype)
    if name is None:
        name = _names[array.dtype] = str(array.dtype)
    return _raw(array.__array_interface__["data"][0], name, array.shape, array.strides, 0)


def _describe_other(array: Any) -> Any:
    if hasattr(array, "data_ptr"):  # torch
        if array.layout is not torch.strided or array.device.type == "meta":
            kind = f"layout {array.layout}" if array.layout is not torch.strided else "device meta"
            raise Error("WrongType", f"a tensor with {kind}: a field has an address and strides", "argument")
        bytes_each = array.element_size()
        queue = torch.cuda.current_stream(array.device).cuda_stream if array.device.type == "cuda" else 0
        return _raw(array.data_ptr(), str(array.dtype).replace("torch.", ""), list(array.shape),
                    [s * bytes_each for s in array.stride()], int(array.device.type != "cpu"), queue)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise Error("WrongType", "a masked array of numpy: its mask would be lost; use filled()", "argument")
    if not hasattr(array, "__array_interface__"):
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"a field is an array of numpy or torch, or has __dlpack__; this is {type(array).__name__}")
        array = np.from_dlpack(array)
    return _raw(array.__array_interface__["data"][0], str(array.dtype), array.shape, array.strides, 0)


_set_member = ctypes.Structure.__setattr__  # without the checks of `Structure.set`


def _raw(base: int, dtype: str, extents: Sequence[int], strides: Sequence[int], space: int, queue: int = 0) -> Any:
    if dtype not in _TYPES:
        raise Error("WrongType", f"a field of {dtype}; supported: {', '.join(_TYPES)}", "argument")
    if len(extents) > MAX_AXES:
        raise Error("AxesMismatch", f"a field of {len(extents)} axes, at most {MAX_AXES}", "argument")
    kind = _structures["gr_field"]
    raw = kind.__new__(kind)
    _set_member(raw, "size", ctypes.sizeof(kind))
    _set_member(raw, "base", base)
    _set_member(raw, "type", _TYPES[dtype])
    _set_member(raw, "rank", len(extents))
    if space or queue:
        _set_member(raw, "space", space)
        _set_member(raw, "queue", queue)
    raw.extents[:len(extents)] = extents
    raw.strides[:len(extents)] = strides
    return raw


def array_in(memory: Any, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array of numpy at the beginning of a `NodeMemory`, which it keeps alive."""
    kind = np.dtype(dtype)
    shape = [shape] if isinstance(shape, int) else list(shape)
    needed, present = int(np.prod(shape, dtype=np.int64)) * kind.itemsize, memory.size()
    if needed > present:
        raise Error("ShapeMismatch", f"an array of {needed} bytes in a memory of {present}", "argument")
    buffer = (ctypes.c_char * needed).from_address(memory.address() or 0)
    buffer.memory = memory
    return np.frombuffer(buffer, dtype=kind).reshape(shape)


class Argument:
    """One argument of a C function, by its type and the tags of its comment."""

    def __init__(self, name: str, kind: str, tags: str) -> None:
        self.name = name
        words = [t.split() for t in tags.split(",")]
        self.tags = {w[0]: w[1:] for w in words if w}
        self.base = kind.replace("const", "").replace("*", "").strip()
        self.pointers = kind.count("*")
        self.many_handles = "const*" in kind and self.pointers == 2
        self.is_out = "out" in self.tags or "inout" in self.tags and self.base in _structures
        self.is_list = any(t in self.tags for t in ("axes", "lower", "upper", "values", "boxes"))
        self.counts = self.tags.get("count")
        # The arguments that count the elements, along each axis of the array.
        self.lengths: List[str] = self.tags.get("boxes", []) + [self.tags[t][0] for t in ("axes", "lower", "upper", "values") if t in self.tags]
        self.is_optional = bool(self.pointers) and "optional" in self.tags
        self.converter = ""  # the function that converts it, found at the first call: classes register after the functions


class Function:
    """One C function."""

    def __init__(self, name: str, *arguments: Tuple[str, str, str]) -> None:
        self.name = name
        self.pointer = getattr(library, name)
        self.arguments = [Argument(*a) for a in arguments]
        self.by_name = {a.name: a for a in self.arguments}
        self.counting = [a for a in self.arguments if a.counts is not None]
        self.has_results = any(a.is_out for a in self.arguments)
        self.is_written = {a.name: self.writes(a.name) for a in self.arguments if a.base == "gr_field"}

    def __call__(self, values: Dict[str, Any]) -> Any:
        if not _started and self.name != "gr_version":
            init()
        if values.get("self") is not None:
            values[self.arguments[0].name] = values["self"]
        passed: List[Any] = []
        held: Dict[str, Any] = {}
        counts: Dict[str, int] = {}
        for a in self.counting:
            counts[a.name] = self.count(a, values)
        for a in self.arguments:
            value = values.get(a.name)
            try:
                if value is None and a.is_optional and not a.is_out and a.counts is None:
                    held[a.name] = c = None
                else:
                    held[a.name], c = getattr(self, a.converter or self.find_converter(a))(a, value, counts)
            except (Error, TypeError, RuntimeError, BufferError) as error:
                if a.base != "gr_field" or a.is_out:
                    raise
                # The library refuses the call as well, which tells the other ranks.
                held.setdefault("refused", error)
                held[a.name] = c = (_structures["gr_field"] * max(1, len(value) if isinstance(value, (list, tuple)) else 1))()
            passed.append(c)
        status = self.pointer(*passed)
        if "refused" in held:
            raise held["refused"]
        check(status)
        return self.results(held, counts, values) if self.has_results else None

    def count(self, a: Argument, values: Dict[str, Any]) -> int:
        if values.get(a.name) is not None:
            return int(values[a.name])
        sizes = {}
        for name in a.counts or []:
            given, array = values.get(name), self.by_name[name]
            if given is None or array.is_out:
                continue
            if not array.is_list or isinstance(given, str) or array.base == "gr_field" and not isinstance(given, (list, tuple)):
                sizes[name] = 1
            elif "boxes" in array.tags:
                boxes = np.asarray(given, dtype=np.int64)
                if array.tags["boxes"][0] == a.name:
                    sizes[name] = len(boxes) if boxes.ndim > 1 or boxes.size == 0 else 1
                elif boxes.size > 0:
                    sizes[name] = boxes.shape[-1]
            else:
                sizes[name] = len(given) if isinstance(given, (list, tuple)) or hasattr(given, "__len__") else 1
        if len(set(sizes.values())) > 1:
            raise Error("ShapeMismatch", f"{self.name}: " + ", ".join(f"{n} has {s}" for n, s in sizes.items()), "argument")
        return next(iter(sizes.values()), 0)

    def find_converter(self, a: Argument) -> str:
        """The function that gives what is kept of an argument during the call, and what is passed."""
        a.kind = ctypes.c_int if a.base in _enums else _SIMPLE.get(a.base)
        kinds = (("count", a.counts is not None), ("out", a.is_out), ("handle", a.base in _handles), ("fields", a.base == "gr_field"),
                 ("structures", a.base in _structures), ("texts", a.base == "char" and a.is_list), ("text", a.base == "char"),
                 ("list", a.is_list), ("number", True))
        a.converter = "convert_" + next(name for name, is_so in kinds if is_so)
        return a.converter

    def require(self, a: Argument, value: Any) -> None:
        if value is None:
            raise TypeError(f"{self.name}: {a.name} is None")

    def convert_count(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        return counts[a.name], ctypes.c_int(counts[a.name])

    def convert_fields(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        self.require(a, value)
        structure = _structures["gr_field"]
        if isinstance(value, np.ndarray):  # alone, as a plain array: no more to look at
            raw = _describe(value)
            if self.is_written[a.name]:
                _require_writable(value, f"{self.name}: {a.name}")
            return (value, raw), ctypes.byref(raw)
        fields = [f if isinstance(f, Field) else Field(f) for f in (value if isinstance(value, (list, tuple)) else [value])]
        if self.is_written[a.name]:
            for i, field in enumerate(fields):
                _require_writable(field.array, f"{self.name}: {a.name}[{i}]" if len(fields) > 1 else f"{self.name}: {a.name}")
        fields = [_in_memory(f) for f in fields]
        array = (structure * len(fields))(*[f.raw for f in fields])
        return (fields, array), array

    def convert_structures(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        self.require(a, value)
        listed = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(v, _structures[a.base]) for v in listed):
            raise TypeError(f"{self.name}: {a.name} is a {_structures[a.base].__name__}, not {value!r}")
        array = (_structures[a.base] * len(listed))(*listed)
        return array, array

    def convert_texts(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        self.require(a, value)
        texts = [value] if isinstance(value, str) else list(value)
        array = (ctypes.c_char_p * len(texts))(*[str(text).encode() for text in texts])
        return array, array

    def convert_text(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        self.require(a, value)
        return value, ctypes.c_char_p(str(value).encode())

    def convert_list(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        self.require(a, value)
        kind = a.kind
        if kind in _LISTS and isinstance(value, (list, tuple)):
            try:
                plain = lists.array(_LISTS[kind], value)
            except TypeError:  # lists of lists, and what are no integers
                pass
            else:
                if len(plain) == math.prod([counts[n] for n in a.lengths]):
                    return plain, ctypes.c_void_p(plain.buffer_info()[0])
        given = np.asarray(value)
        if kind is not ctypes.c_double and given.size > 0 and given.dtype.kind not in "iub":
            raise TypeError(f"{self.name}: {a.name} = {value!r} are not integers")
        array = np.ascontiguousarray(given, dtype=_NUMPY[kind])
        if array.size != math.prod([counts[n] for n in a.lengths]):
            raise Error("ShapeMismatch", f"{self.name}: {a.name} has {array.size} values", "argument")
        return array, array.ctypes.data_as(ctypes.c_void_p)

    def convert_number(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        self.require(a, value)
        kind = a.kind
        if a.base == "MPI_Fint" and value == -1:
            value = _core.GroupMaker().handle
        try:
            return value, kind(float(value) if kind is ctypes.c_double else operator.index(value))
        except (TypeError, ValueError):
            raise TypeError(f"{self.name}: {a.name} = {value!r} is no {a.base}") from None

    def writes(self, argument: str) -> bool:
        """Whether the elements of a field are written."""
        if self.name in ("gr_writer_write", "gr_checkpoint_add", "gr_checkpoint_add_replicated"):
            return False
        back = "adjoint" in self.name or "inverse" in self.name
        return argument in ("field", "fields") or (argument in ("from", "cells")) == back or self.name == "gr_repartition_tune"

    def convert_handle(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        self.require(a, value)
        kind = _handles[a.base]
        listed = list(value) if a.many_handles else [value]
        for one in listed:
            if not isinstance(one, kind):
                raise TypeError(f"{self.name}: {a.name} is a {kind.__name__}, not {one!r}")
            if not getattr(one, "_pointer", None):
                raise Error("WrongState", f"{self.name}: {a.name} was closed", "argument")
        if a.many_handles:
            array = (ctypes.c_void_p * len(listed))(*[one._pointer for one in listed])
            return (listed, array), array
        return value, ctypes.byref(value._pointer) if a.pointers == 2 else value._pointer

    def convert_out(self, a: Argument, value: Any, counts: Dict[str, int]) -> Tuple[Any, Any]:
        if a.base in _handles:
            value = ctypes.c_void_p()
        elif a.base in _structures:
            value = _structures[a.base]()
        elif a.base == "char":
            value = ctypes.c_char_p()
        elif a.base == "void":
            value = ctypes.c_void_p()
        elif a.is_list:
            kind = _NUMPY[_SIMPLE[a.base]]
            value = np.zeros([counts[n] for n in a.lengths], dtype=kind)
            return value, value.ctypes.data_as(ctypes.c_void_p)
        else:
            value = ctypes.c_int() if a.base in _enums else _SIMPLE[a.base]()
        return value, ctypes.byref(value)

    def results(self, held: Dict[str, Any], counts: Dict[str, int], values: Dict[str, Any]) -> Any:
        found: List[Any] = []
        limits: Dict[str, int] = {}
        for a in self.arguments:
            if a.is_out and a.name.startswith("num_") and "most_" + a.name[4:] in counts:
                limits["most_" + a.name[4:]] = held[a.name].value
        for a in self.arguments:
            value = held[a.name]
            if not a.is_out or a.name.startswith("num_") and "most_" + a.name[4:] in counts:
                continue
            if a.base in _handles:
                value = self.new_handle(a, value, held)
            elif a.base == "char":
                value = (value.value or b"").decode(errors="replace")
            elif a.is_list:
                value = value[:limits[a.lengths[0]]] if a.lengths and a.lengths[0] in limits else value
                value = value.astype(bool) if "flag" in a.tags else value
            elif a.base == "MPI_Fint":
                value = communicator_of(value.value)
            elif a.base in _enums:
                value = _enums[a.base](value.value)
            elif a.base not in _structures:
                value = bool(value.value) if "flag" in a.tags else value.value
            found.append(value)
        return None if not found else found[0] if len(found) == 1 else tuple(found)

    def new_handle(self, a: Argument, pointer: ctypes.c_void_p, held: Dict[str, Any]) -> Any:
        if not pointer.value:
            return None
        handle = _handles[a.base]._of(pointer, held)
        for value in held.values():
            if isinstance(value, Handle) and value is not handle and value._ndim:
                handle._ndim = value._ndim
        for name in ("extents", "lower", "cuts"):
            if a.base == "gr_layout" and handle._ndim == 0 and name in self.by_name:
                handle._ndim = held.get("ndim", 0)
        if a.base == "gr_layout":
            handle._ndim = handle.ndim()
        return handle


def function(name: str, *arguments: Tuple[str, str, str]) -> Callable[[Dict[str, Any]], Any]:
    """A C function, from what its header says."""
    return Function(name, *arguments)


def enumeration(c_name: str):
    """Names a Python enumeration by its C type."""
    def named(cls: Type[enum.IntEnum]) -> Type[enum.IntEnum]:
        _enums[c_name] = cls
        return cls
    return named
