# SPDX-License-Identifier: BSD-3-Clause
"""Functions of torch on tensors that are cut: planned by the rules of sharded programs, once for each structure of their arguments."""
from __future__ import annotations

import dataclasses
import json
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.utils import _pytree as pytree

from ._capture import CaptureError, Like, capture, cells_of_recurrent_layers
from ._cuts import NotSharded
from ._placed import Mark, mark_of

_CAPACITY = 4096  # of functions that are remembered
_PLAIN_RESULTS = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
_NORMS = ("batch_norm", "instance_norm")  # write their running statistics without saying so


@dataclasses.dataclass(frozen=True)
class Signature:
    """The arguments of a call: tensors, and a key of all else."""
    leaves: List[torch.Tensor]
    key: Any
    floats: Tuple[float, ...]


def signature(args: Any, kwargs: Dict[str, Any]) -> Signature:
    """Takes the arguments of a call apart. A tensor that comes twice is one leaf."""
    leaves: List[torch.Tensor] = []
    floats: List[float] = []
    seen: Dict[int, int] = {}

    def key(value: Any) -> Any:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            i = seen.setdefault(id(value), len(leaves))
            if i == len(leaves):
                leaves.append(value)
            return torch.Tensor, i
        if kind is int or kind is bool or kind is str or value is None:
            return kind, value
        if kind is float:
            floats.append(value)
            return kind
        if isinstance(value, (tuple, list)):
            return (kind, *map(key, value))
        if kind is dict:
            return (kind, *((name, key(held)) for name, held in value.items()))
        if kind is slice:
            return kind, key(value.start), key(value.stop), key(value.step)
        if hasattr(value, "__array_interface__"):
            return kind, value.shape, str(value.dtype), value.tobytes()
        try:
            hash(value)
        except TypeError:
            return kind, object()  # like nothing else: planned in each call
        return kind, value

    return Signature(leaves, (key(args), key(kwargs)), tuple(floats))


def numbers_of(args: Any, kwargs: Dict[str, Any]) -> str:
    """The numbers of a call, and the values of whole tensors that hold one, for a comparison between ranks."""
    found: List[str] = []
    for value in pytree.tree_leaves((args, kwargs)):
        if isinstance(value, slice):
            found.append(numbers_of((value.start, value.stop, value.step), {}))
        elif isinstance(value, (bool, int, float, complex, str)):
            found.append(repr(value))
        elif isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type == "cpu" and mark_of(value) is None:
            found.append(repr(value.item()))
    return ", ".join(found) or "none"


def rebuilt(value: Any, new: Dict[int, Any]) -> Any:
    """The arguments with other tensors, by the ids of the present ones."""
    if isinstance(value, torch.Tensor):
        return new.get(id(value), value)
    if isinstance(value, dict):
        return {name: rebuilt(held, new) for name, held in value.items()}
    if isinstance(value, slice):
        return slice(rebuilt(value.start, new), rebuilt(value.stop, new), rebuilt(value.step, new))
    if isinstance(value, (tuple, list)):
        return (list if isinstance(value, list) else tuple)(rebuilt(held, new) for held in value)
    return value


@dataclasses.dataclass(frozen=True)
class Traced:
    """The operators of a function. Its outputs are the tensors that it makes, then the new values of the leaves that it writes to.

    results: for each leaf of the result ("leaf", i), the argument itself; ("output", i); or ("value", what is no tensor).
    sources: for each tensor that it makes the argument that it is a view of.
    """
    json: str
    spec: Any
    results: Tuple[Tuple[str, Any], ...]
    shapes: Tuple[Tuple[int, ...], ...]
    dtypes: Tuple[torch.dtype, ...]
    sources: Tuple[Optional[int], ...]
    written: Tuple[int, ...]


def trace(func: Callable[..., Any], name: str, args: Any, kwargs: Dict[str, Any], leaves: Sequence[torch.Tensor],
          shapes: Sequence[Tuple[int, ...]], taken_apart: bool = False) -> Traced:
    """Runs a function on tensors without memory, of the shapes on the globe, and notes its operators.

    taken_apart: operators that PyTorch makes of others are these.
    Raises what the function raises for these shapes, and CaptureError.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    ids = [id(x) for x in leaves]

    def fakes() -> List[torch.Tensor]:
        return [torch.empty(shape, dtype=x.dtype, device=x.device) for x, shape in zip(leaves, shapes)]

    def call(given: Sequence[torch.Tensor]) -> Any:
        new = dict(zip(ids, given))
        own = list(rebuilt(args, new))
        if name == "__setitem__" and isinstance(own[-1], (bool, int, float, complex)):
            own[-1] = torch.full((), own[-1], dtype=own[0].dtype, device=own[0].device)  # no constant of the graph
        return pytree.tree_flatten(func(*own, **rebuilt(kwargs, new)))

    with mode, torch.no_grad():
        trial = fakes()
        versions, axes = [x._version for x in trial], [(x.shape, x.stride()) for x in trial]
        flat, spec = call(trial)
        if axes != [(x.shape, x.stride()) for x in trial]:
            raise CaptureError("it changes the axes of a tensor in place: write y = y.transpose(...) for y.transpose_(...)")
    written = tuple(i for i, (x, v) in enumerate(zip(trial, versions)) if x._version != v)
    results: List[Tuple[str, Any]] = []
    outputs: List[torch.Tensor] = []
    for y in flat:
        leaf = next((i for i, x in enumerate(trial) if x is y), None)
        if leaf is not None:
            results.append(("leaf", leaf))
        elif isinstance(y, torch.Tensor):
            results.append(("output", len(outputs)))
            outputs.append(y)
        elif isinstance(y, _PLAIN_RESULTS):
            results.append(("value", y))
        else:
            raise CaptureError(f"it returns a {type(y).__name__}")
    sources = tuple(next((i for i, x in enumerate(trial) if torch._C._is_alias_of(x, y)), None) for y in outputs)
    outputs += [trial[i] for i in written]

    def of_tensors(*given: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        own = [x.clone() if i in written else x for i, x in enumerate(given)]
        made, _ = call(own)
        return (*(y for y, (kind, _) in zip(made, results) if kind == "output"), *(own[i] for i in written))

    with mode:
        given = fakes()
    text = _operators(of_tensors, name, given, mode, taken_apart) if outputs else ""
    return Traced(text, spec, tuple(results), tuple(tuple(y.shape) for y in outputs), tuple(y.dtype for y in outputs), sources, written)


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


def _operators(function: Callable[..., Any], name: str, fakes: Sequence[torch.Tensor], mode: Any,
               taken_apart: bool) -> str:
    """The graph of a function of tensors, as text."""
    if name in _NORMS:
        likes = [Like(tuple(x.shape), x.dtype, x.device) for x in fakes]
        with torch.no_grad():
            return capture(_Function(function), likes, {}).json
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch._export.serde.schema import SCHEMA_VERSION
    from torch._export.serde.serialize import EnumEncoder, GraphModuleSerializer, _dataclass_to_dict
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
    with mode, torch.no_grad():
        if name.endswith("_cell"):  # which the rules of PyTorch make of operators in place
            module = make_fx(torch.func.functionalize(make_fx(function, cells_of_recurrent_layers())(*fakes)))(*fakes)
        else:
            module = make_fx(function, pre_dispatch=not taken_apart)(*fakes)
    inputs, outputs = [], []
    for node in module.graph.nodes:
        node.meta.pop("stack_trace", None)
        if node.op == "placeholder":
            inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
        elif node.op == "output":
            node.args = (tuple(node.args[0]),)
            outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(y.name), None) for y in node.args[0]]
        elif node.op == "get_attr":
            raise CaptureError("it makes a tensor of numbers of Python; make it before, and pass it")
    graph = GraphModuleSerializer(ExportGraphSignature(inputs, outputs), []).serialize(module)
    return json.dumps({"graph_module": _dataclass_to_dict(graph), "opset_version": {}, "range_constraints": {},
                       "schema_version": {"major": SCHEMA_VERSION[0], "minor": SCHEMA_VERSION[1]}}, cls=EnumEncoder)


@dataclasses.dataclass(frozen=True)
class Planned:
    """How a function runs for one structure of its arguments. program: None where it makes no tensor."""
    traced: Traced
    program: Any
    direct: bool
    marks: Tuple[Optional[Mark], ...]  # of all outputs; None for a whole one

    def run(self, leaves: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor],
            marked: Callable[[torch.Tensor, Optional[Mark]], torch.Tensor], cut_as: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Any:
        """The result. Collective. inputs: the leaves, cut as in the plan. Leaves that the function writes to get their new values."""
        traced = self.traced
        outputs = [] if self.program is None else self.program.run(list(inputs))
        outputs = [y if y.dtype == dtype else y.to(dtype) for y, dtype in zip(outputs, traced.dtypes)]
        made = outputs[:len(traced.sources)]
        for i, new in zip(traced.written, outputs[len(made):]):
            leaves[i].copy_(cut_as(new, leaves[i]))
        for k, source in enumerate(traced.sources):
            if any(made[k] is x for x in inputs):  # where a rank has all that it needs
                made[k] = made[k].view_as(made[k])
            made[k] = marked(made[k], self.marks[k])
            if source is not None and self.program.keeps_views and (torch._C._is_alias_of(made[k], leaves[source]) or made[k].numel() == 0):
                follow_copies(made[k], source, leaves)
            elif source is not None:
                note_copy(made[k], leaves[source])
        return self.result(leaves, made)

    def result(self, leaves: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> Any:
        """In the structure that the function returns."""
        of = {"leaf": leaves.__getitem__, "output": made.__getitem__, "value": lambda value: value}
        return pytree.tree_unflatten([of[kind](what) for kind, what in self.traced.results], self.traced.spec)


def with_indices(index: Any, x: torch.Tensor) -> Any:
    """An index, with tensors in the place of lists, and with the places of what is true in that of a whole mask."""
    if isinstance(index, tuple):
        return tuple(one for entry in index for one in _entries(entry, x))
    entries = _entries(index, x)
    return entries[0] if len(entries) == 1 else tuple(entries)


def _entries(entry: Any, x: torch.Tensor) -> List[Any]:
    if isinstance(entry, list) and not any(isinstance(held, (slice, torch.Tensor, type(None))) for held in entry) or hasattr(entry, "__array_interface__"):
        entry = torch.as_tensor(entry, device=x.device)
        entry = entry if entry.numel() or entry.dtype == torch.bool else entry.long()
    if isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8) and mark_of(entry) is None and entry.dim() > 0:
        return list(entry.nonzero(as_tuple=True))
    return [entry]


def note_copy(y: torch.Tensor, of: torch.Tensor) -> None:
    """Notes that a tensor, in torch a view of another, is a copy."""
    y._graticule_copy = ((weakref.ref(of), of._version), *getattr(of, "_graticule_copy", ()))  # type: ignore[attr-defined]


def follow_copies(y: torch.Tensor, source: Optional[int], leaves: Sequence[torch.Tensor]) -> None:
    """A view of such a copy is one, too."""
    copy = None if source is None else getattr(leaves[source], "_graticule_copy", None)
    if copy is not None:
        y._graticule_copy = copy  # type: ignore[attr-defined]


def refuse_old_copies(what: str, leaves: Sequence[torch.Tensor], written: Sequence[int] = ()) -> None:
    """Raises NotSharded where a copy of what in torch is a view would have to follow its source, or its source the copy."""
    for i, x in enumerate(leaves):
        for source, version in getattr(x, "_graticule_copy", ()):
            held = source()
            if i in written or held is not None and held._version != version:
                raise NotSharded(f"{what}: a tensor of {list(x.shape)} is in torch a view of another, and here a copy, because its cells are cut "
                                 "otherwise: neither can be changed in place; write y = x.clone() before, or f(x) for f_(x); "
                                 "graticule.shard_program takes it as it is")


def first_line(error: BaseException) -> str:
    """Of a message; a reason for what torch says of tensors without values."""
    text = str(error).strip()
    line, kind = text.splitlines()[0] if text else type(error).__name__, type(error).__name__
    if kind == "DynamicOutputShapeException":
        return f"how many values {line} has depends on those of its argument: keep all cells, and mask them by torch.where"
    if kind == "DataDependentOutputException" or "its data is not allocated" in line:
        what = line if kind == "DataDependentOutputException" else "it"
        return f"{what} needs the values of a tensor to say what is computed: pass numbers of Python, or mask cells by torch.where"
    return line


def leaves_of(result: Any) -> List[Any]:
    """The leaves of what a function returns."""
    return pytree.tree_leaves(result)


def remember(planned: Dict[Any, Any], key: Any, value: Planned) -> None:
    """Keeps what was planned, and forgets the oldest where there are too many."""
    own = [k for k, held in planned.items() if isinstance(held, Planned)] if len(planned) >= _CAPACITY else []
    for k in own[:_CAPACITY // 4]:
        del planned[k]
    planned[key] = value
