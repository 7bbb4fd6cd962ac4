# SPDX-License-Identifier: BSD-3-Clause
"""Any PyTorch model on shards: captured as a graph, planned for the ranks of a domain, and run by C++."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import json
import re
import zipfile
import zlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from . import _core
from ._capture import OF_GENERATORS, Captured, CaptureError, Like, blocks_of, bound, capture, collected, function_caches, matches
from ._cuts import is_field, is_whole
from ._domain import Domain, _balanced
from ._errors import Error
from ._failures import Together
from ._layer import parent_of
from ._library import require_eager, uncompiled, watch, watch_attributes
from ._outside import guard_backward, note_result
from ._random import of_python
from ._training import expect_reductions

_CAPACITY = 8  # structures that a model keeps, the latest first


@dataclasses.dataclass(frozen=True)
class ProgramInput:
    """An input of a sharded program: its path in the call ("x", "batch.surface.t2m"), its whole sizes, and whether it is a field."""
    path: str
    shape: Tuple[int, ...]
    field: bool


@dataclasses.dataclass(frozen=True)
class ProgramNode:
    """An operator of a sharded program.

    where: operator, module and line of the model's code. kind: "local", "stencil", "statistic" and others. axis: along which the
    result is cut, or None where it is whole. received, messages: in a forward, of the busiest rank. gathered: a value that was
    cut is needed whole on every rank.
    """
    where: str
    kind: str
    axis: Optional[int]
    received: int
    messages: int
    gathered: bool


@dataclasses.dataclass(frozen=True)
class ProgramReport:
    """How a program runs on the ranks of its domain. Bytes are those of the layout pass, which runs before the program.

    activation_bytes: per rank, results that are kept for the backward. num_parts: parts of the model whose results the backward computes
    again. recomputed_bytes: per rank, those of the largest such part, which are there while it runs. kept_parts: a text for each part
    that cannot be computed again.
    """
    inputs: Tuple[ProgramInput, ...]
    outputs: Tuple[Optional[int], ...]  # axes that are cut
    nodes: Tuple[ProgramNode, ...]
    weights_bytes: Tuple[int, ...]
    activation_bytes: Tuple[int, ...]
    recomputed_bytes: Tuple[int, ...]
    num_parts: int
    kept_parts: Tuple[str, ...]
    received_bytes: Tuple[int, ...]
    messages: int

    def text(self) -> str:
        """A summary, and a line for each operator that communicates."""
        lines = [f"input {one.path} {list(one.shape)}: {'field, cut' if one.field else 'whole on every rank'}" for one in self.inputs]
        lines += [f"output {number}: " + ("whole on every rank" if axis is None else f"cut along axis {axis}")
                  for number, axis in enumerate(self.outputs)]
        lines += [f"weights per rank: {_bytes(max(self.weights_bytes, default=0))}",
                  f"activations of the fullest rank: {_bytes(max(self.activation_bytes, default=0))}",
                  *([f"parts that the backward computes again: {self.num_parts}, the largest of "
                     f"{_bytes(max(self.recomputed_bytes, default=0))} on a rank"] if self.num_parts else []),
                  *self.kept_parts,
                  f"received per forward by the busiest rank: {_bytes(max(self.received_bytes, default=0))}, {self.messages} messages",
                  f"operators: {len(self.nodes)}, of which {sum(n.messages > 0 for n in self.nodes)} communicate and "
                  f"{sum(n.gathered for n in self.nodes)} gather"]
        lines += [f"  {n.where}: {_bytes(n.received)} in {n.messages} messages" + (", gathered" if n.gathered else "")
                  for n in self.nodes if n.messages]
        return "\n".join(lines) + "\n"


def note_results(axes: Sequence[Optional[int]], results: Sequence[Any], domain: Domain) -> None:
    """Notes which results are shards, so that a loss of one rank's part of them is refused."""
    for x, axis in zip(results, axes):
        if isinstance(x, torch.Tensor):
            ranks = domain.num_ranks
            note_result(x, domain, {-2: (ranks, 1), -1: (1, ranks)}.get(0 if axis is None else axis - x.dim(), (1, 1)))


def _bytes(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"


def _report(program: Any, inputs: Sequence[ProgramInput]) -> ProgramReport:
    plan = program.plan()
    return ProgramReport(tuple(inputs), tuple(program.output_axes()), tuple(ProgramNode(*node) for node in plan["nodes"]),
                         tuple(plan["weights_bytes"]), tuple(plan["activation_bytes"]), tuple(plan["recomputed_bytes"]), plan["num_parts"],
                         tuple(plan["kept_parts"]), tuple(plan["received_bytes"]), plan["messages"])


# --- Structures of calls ---

@dataclasses.dataclass(eq=False)
class _Made:
    """A captured program; the same object for all calls of one global structure."""
    program: Any
    outputs: Tuple[Any, ...]
    out_spec: Any
    inputs: Tuple[ProgramInput, ...]
    number: int  # among the programs of the domain
    masks: Tuple[Tuple[torch.Tensor, int], ...]  # tensors whose values the program has as constants, and checksums of these
    values: Any  # watches the attributes of modules whose values it has as constants
    counters: Tuple[Tuple[nn.Module, str, Any], ...]  # attributes that each call adds a number to
    cuts: int = -1  # of the latest call
    axes: Optional[List[Optional[int]]] = None  # of the outputs, with these cuts

    def versions(self) -> Tuple[int, ...]:
        """Of the masks."""
        return tuple(0 if x.is_inference() else x._version for x, _ in self.masks)

    def is_valid(self) -> bool:
        """Whether its constants are the values of the model."""
        return self.values.unchanged() and all(_checksum(x) == before for x, before in self.masks)


@dataclasses.dataclass(eq=False)
class _Structure:
    """What a call of this rank has to be like to use a program that was made."""
    spec: Any
    kinds: Tuple[Any, ...]  # per leaf: shape, type and device, or (value,)
    modes: Tuple[Any, ...]
    watch: Any
    order: Tuple[int, ...]  # places of the program's inputs among the leaves
    cuts: int  # a hash of the sizes on all ranks
    hash: int  # of these and the program
    made: _Made
    alike: bool  # whether the same tensors need gradients on all ranks; if not, the next such call has to meet, too
    masks: Tuple[int, ...]  # versions of the program's masks

    def fits(self, spec: Any, kinds: Tuple[Any, ...], modes: Tuple[Any, ...]) -> bool:
        return (self.kinds == kinds and self.modes == modes and self.spec == spec and self.watch.unchanged()
                and self.made.values.unchanged() and self.masks == self.made.versions())


def _kinds(leaves: Sequence[Any]) -> Tuple[Any, ...]:
    return tuple((x.shape, x.dtype, x.device, x.requires_grad, is_field(x), is_whole(x)) if isinstance(x, torch.Tensor) else (type(x), x) for x in leaves)


def _flattened(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[List[Any], Any]:
    """The leaves of a call and what they are the leaves of: of tensors by position their number, which takes a third of the time."""
    if not kwargs and all(isinstance(x, torch.Tensor) for x in args):
        return list(args), len(args)
    return pytree.tree_flatten((args, kwargs))


def _unflattened(leaves: Sequence[Any], spec: Any) -> Any:
    return (tuple(leaves), {}) if isinstance(spec, int) else pytree.tree_unflatten(leaves, spec)


def _modes() -> Tuple[Any, ...]:
    on = torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")
    return (torch.is_grad_enabled(), on[0] and torch.get_autocast_dtype("cpu"), on[1] and torch.get_autocast_dtype("cuda"))


class ShardedProgram(nn.Module):
    """A model whose forward runs on shards: see `shard_program`.

    Parameters, buffers and submodules are those of the model, under the same names: optimizers, `state_dict`, `train`, `to`,
    `GradientSync` and `DataParallel` take it as they take the model.
    """

    def __init__(self, model: nn.Module, domain: Domain, *, fields: Sequence[str] = (), whole: Sequence[str] = (), seed: int = 0,
                 largest_gather: Optional[int] = None, allowed_functions: Sequence[str] = (), checkpoint_blocks: Sequence[str] = ()) -> None:
        super().__init__()
        own = self.__dict__
        own.update(_model=model, _domain=domain, _fields=tuple(fields), _whole=tuple(whole), _seed=seed, _largest_gather=largest_gather,
                   _allowed_functions=tuple(allowed_functions), _checkpoint_blocks=tuple(checkpoint_blocks))
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[name] = model.__dict__[name]
        own.pop("training", None)
        own.update(_structures=[], _made=[], _latest=None)
        guard_backward()
        expect_reductions(self, domain)

    @property
    def model(self) -> nn.Module:
        """The serial model: for one process, and for checkpoints. Its own forward knows nothing of shards."""
        return self._model

    @property
    def domain(self) -> Domain:
        """The ranks that share a sample."""
        return self._domain

    @property
    def training(self) -> bool:  # type: ignore[override]
        """That of the model."""
        model = self.__dict__.get("_model")
        return True if model is None else model.training

    @training.setter
    def training(self, on: bool) -> None:
        model = self.__dict__.get("_model")
        if model is not None:
            model.training = on

    @property
    def report(self) -> ProgramReport:
        """How the latest call was divided. Errors: WrongState before the first call."""
        if self._latest is None:
            raise Error("WrongState", "a sharded program has a report after its first call", "program")
        return _report(self._latest.program, self._latest.inputs)

    def train(self, mode: bool = True) -> "ShardedProgram":
        """As `Module.train`, of the model."""
        self._model.train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """That of the model."""
        return self._model.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As of the model."""
        return self._model.load_state_dict(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> "ShardedProgram":
        self._model._apply(*args, **kwargs)
        return self

    def reset_structure(self) -> None:
        """Forgets what was captured: for a model whose own code or attributes have changed. On all ranks, between the same calls."""
        self._structures.clear()
        self._made.clear()
        self.__dict__["_latest"] = None

    @uncompiled
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the model, of this rank's shards. Collective, as is the backward."""
        require_eager("a sharded program")
        with Together(self._domain, self.reset_structure):
            return self._run(args, kwargs)

    def _run(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        leaves, spec = _flattened(args, kwargs)
        kinds, modes = _kinds(leaves), _modes()
        structures = self._structures
        found = next((one for one in structures if one.fits(spec, kinds, modes)), None)
        inputs: List[Any] = []
        again = False
        if found is not None:
            inputs = [leaves[place] for place in found.order]
        if self._domain._checks and self._domain.num_ranks > 1:
            own = 2 if found is None else int(found.made.cuts != found.cuts or not found.made.program.repeats(inputs))
            compared = _core.compare_calls(self._domain._object, own, 0 if found is None else found.hash)
            again = compared == 0
            found = found if compared < 2 else None
        if found is None:
            found = _resolve(self, args, kwargs, leaves, spec, kinds, modes)
            if found.alike:
                structures[:] = [one for one in structures if not one.fits(spec, kinds, modes)][:_CAPACITY - 1]
                structures.insert(0, found)
            inputs = [leaves[place] for place in found.order]
        elif found is not structures[0]:
            structures.remove(found)
            structures.insert(0, found)
        made = self.__dict__["_latest"] = found.made
        if made.cuts != found.cuts:  # on all ranks alike, also where this rank's own part stays
            made.program.reset_structure()
            made.cuts, made.axes = found.cuts, None
        if modes[1] or modes[2]:  # the casts are in the graph
            with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
                results = made.program.run(inputs, again)
        else:
            results = made.program.run(inputs, again)
        for part, name, step in made.counters:
            part.__dict__[name] += step
        values: Iterator[Any] = iter(results)
        if made.axes is None:
            made.axes = made.program.output_axes()
        note_results(made.axes, results, self._domain)
        return pytree.tree_unflatten([next(values) if one is True else (next(values), one[0])[1] for one in made.outputs], made.out_spec)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "ShardedProgram":
        return ShardedProgram(copy.deepcopy(self._model, memo), self._domain, fields=self._fields, whole=self._whole, seed=self._seed,
                              largest_gather=self._largest_gather, allowed_functions=self._allowed_functions,
                              checkpoint_blocks=self._checkpoint_blocks)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a ShardedProgram belongs to its ranks and is not saved: save the model's state_dict()")

    def extra_repr(self) -> str:
        return f"{type(self._model).__name__} on {self._domain}"


def shard_program(model: nn.Module, domain: Domain, *, fields: Sequence[str] = (), whole: Sequence[str] = (), seed: int = 0,
                  largest_gather: Optional[int] = None, allowed_functions: Sequence[str] = (),
                  checkpoint_blocks: Sequence[str] = ()) -> ShardedProgram:
    """A model that takes this rank's rows of its fields and returns this rank's rows of its results, for any model that
    torch.export takes.

    The model is captured on the first call, and again when the structure of the call changes: sizes, types, training, autocast,
    gradient mode, or other parameters. A capture computes nothing and holds no field in memory. Values are then placed by the
    cheapest plan, and results and gradients equal those of one process. Parameters and buffers stay the model's own tensors.
    Each rank holds a part of each gradient: `GradientSync(net, [(comm, "sum")])` or `DataParallel` sum them. Collective.

    The first tensor with at least three axes is a field, [..., rows, columns]; so are all others with the same rows and columns.
    Tensors of up to two axes, and those that end with axes of size 1, are whole: equal on every rank. Any other tensor has to be
    declared. fields, whole: paths in the call, such as "x", "batch.surface.*" or "0" for an unnamed position; they take
    precedence, as do `field(x)` and `whole(x)`. seed: of dropout. largest_gather: bytes of a value that every rank may hold whole;
    default: 4 GiB. allowed_functions: classes of torch.autograd.Function ("net.Swish") whose backward is the derivative of their
    forward; others are refused, because their forward alone is captured. checkpoint_blocks: submodules whose activations the backward
    computes again instead of keeping them, as "backbone.layers.*" (a path, or a pattern); what the model runs by torch.utils.checkpoint
    is computed again without being named. One within another is a part of it.
    What runs at capture alone: prints, hooks on modules and all other effects of the model's own Python code.
    Raises on the first call, on all ranks alike: RefusedProgram, with the line of the model's code and the way out;
    StructureDisagreement, BadLayout, ShapeMismatch.
    Example: `net = graticule.shard_program(model, domain)`, `y = net(x)`, `print(net.report.text())`.
    """
    if not isinstance(model, nn.Module) or not isinstance(domain, Domain):
        raise TypeError(f"shard_program takes a torch.nn.Module and a graticule.Domain, not {type(model).__name__} and {type(domain).__name__}")
    for name, value in (("fields", fields), ("whole", whole), ("allowed_functions", allowed_functions),
                        ("checkpoint_blocks", checkpoint_blocks)):
        if isinstance(value, str):
            raise Error("BadOption", f"{name} = {value!r} is a list, as [{value!r}]", "argument")
    try:
        blocks_of(model, checkpoint_blocks)
    except ValueError as error:
        raise Error("BadOption", str(error), "argument") from None
    return ShardedProgram(model, domain, fields=fields, whole=whole, seed=seed, largest_gather=largest_gather,
                          allowed_functions=allowed_functions, checkpoint_blocks=checkpoint_blocks)


# --- Making a program: collective, for a new structure ---

def _resolve(net: ShardedProgram, args: Tuple[Any, ...], kwargs: Dict[str, Any], leaves: List[Any], spec: Any,
             kinds: Tuple[Any, ...], modes: Tuple[Any, ...]) -> _Structure:
    domain, model = net._domain, net._model

    def attempt(step: Any, rule: str) -> Any:
        """The result of a step of this rank alone; its error is raised on all ranks."""
        result, text = None, None
        try:
            result = step()
        except Error as error:
            rule, text = error.rule, error.text
        except Exception as error:
            text = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        domain._object.agree(rule, text)
        return result

    places = _unflattened(list(range(len(leaves))), spec)
    pos, key, names = attempt(lambda: bound(model, *places), "BadArgument")
    paths, order = _paths(pos, key, names)
    given = [leaves[place] for place in order]
    tensor_places = [i for i, x in enumerate(given) if isinstance(x, torch.Tensor)]
    attempt(lambda: _require_no_generators(model, paths, given), "RefusedProgram")
    attempt(lambda: _require_values(model), "WrongState")
    _require_alike(net, given, paths, pos, key, modes)
    shapes, needs = _gather_shapes(domain, [given[i] for i in tensor_places])
    inputs = attempt(lambda: _classified(net, [paths[i] for i in tensor_places], [given[i] for i in tensor_places], shapes), "BadArgument")
    if domain.num_ranks > 1:
        _require_equal_content(domain, inputs, [given[i] for i in tensor_places])
    global_key = (tuple((x.path, x.shape, x.field) for x in inputs), needs, tuple(str(given[i].dtype) for i in tensor_places),
                  tuple((paths[i], repr(x)) for i, x in enumerate(given) if not isinstance(x, torch.Tensor)), str(modes),
                  _flags(model), tuple(id(p) for p in _tensors(model)))
    made = next((one for key_of, one in net._made if key_of == global_key and one.is_valid()), None)
    if _core.compare_calls(domain._object, 2 if made is None else 1, 0) == 2:
        caches = function_caches()
        with collected():  # the graph in Python would lie beside the first activations
            captured = attempt(lambda: _captured(net, pos, key, order, given, tensor_places, inputs, needs, caches), "RefusedProgram")
            domain._object.require_same("StructureDisagreement", captured.json)
            program = _core.Program.of_graph(captured.json, captured.tensors, domain._object, [x.field for x in inputs], net._seed,
                                             net._largest_gather)
            domain._num_programs += 1
            made = _Made(program, captured.outputs, captured.out_spec, tuple(inputs), domain._num_programs,
                         tuple((mask, _checksum(mask)) for mask in captured.masks), watch_attributes(captured.attributes, model), captured.counters)
            net._made[:] = [*net._made[-_CAPACITY + 1:], (global_key, made)]
            del captured
    sizes = zlib.crc32(repr(shapes).encode())
    return _Structure(spec, kinds, modes, watch(model), tuple(order[i] for i in tensor_places), sizes, 2 * (sizes + (made.number << 32)), made,
                      needs == tuple(given[i].requires_grad for i in tensor_places), made.versions())


def _paths(pos: Tuple[Any, ...], key: Mapping[str, Any], names: Sequence[str]) -> Tuple[List[str], List[int]]:
    """The paths of the leaves in the order of the program, and their places among the leaves of the call."""
    paths, order = [], []
    for name, tree in [*zip(names, pos), *key.items()]:
        for keys, place in pytree.tree_flatten_with_path(tree)[0]:
            paths.append(".".join([name, *(_key_text(one) for one in keys)]))
            order.append(place)
    return paths, order


def _key_text(key: Any) -> str:
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def _flags(model: nn.Module) -> Tuple[Any, ...]:
    return (tuple(part.training for part in model.modules()),
            tuple((name, tuple(p.shape), str(p.dtype), p.requires_grad) for name, p in model.named_parameters(remove_duplicate=False)),
            tuple((name, str(b.dtype)) for name, b in model.named_buffers(remove_duplicate=False)))


def _tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _require_no_generators(model: nn.Module, paths: Sequence[str], given: Sequence[Any]) -> None:
    for path, x in zip(paths, given):
        if isinstance(x, torch.Generator):
            raise Error("RefusedProgram", f"{type(model).__name__} is called with '{path}', for {OF_GENERATORS}; graticule.shard(model, domain) takes it", "argument")


def _require_values(model: nn.Module) -> None:
    """Refuses parameters and buffers without values, whose sizes may not be known either."""
    for kind, held in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, x in held:
            if is_lazy(x) or x.is_meta:
                cause, cure = ("is lazy", "call the serial model once, with a small field") if is_lazy(x) else ("is on the meta device", "load values")
                raise Error("WrongState", f"{type(model).__name__}: the {kind} {name} {cause} and has no values: {cure}, on all ranks, before the first "
                            "call of the program", "argument")


def _require_alike(net: ShardedProgram, given: Sequence[Any], paths: Sequence[str], pos: Any, key: Any, modes: Tuple[Any, ...]) -> None:
    def kind(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).replace('torch.', '')} of {x.dim()} axes"
        return re.sub(" at 0x[0-9a-f]+", "", repr(x))  # addresses, which differ between ranks

    call = ", ".join(f"{path}: {kind(x)}" for path, x in zip(paths, given))
    training, parameters, buffers = _flags(net._model)
    require = net._domain._object.require_same
    name = type(net._model).__name__
    require("StructureDisagreement", f"{name} called with ({call})")
    require("StructureDisagreement", f"{name} with gradient mode {'on' if modes[0] else 'off'}, autocast {modes[1] or modes[2] or 'off'}")
    require("StructureDisagreement", f"{name} with {sum(training)} of {len(training)} modules in training: {training}")
    require("StructureDisagreement", f"{name} with {len(parameters)} parameters and {len(buffers)} buffers: {parameters} {buffers}")


def _gather_shapes(domain: Domain, tensors: Sequence[torch.Tensor]) -> Tuple[List[List[Tuple[int, ...]]], Tuple[bool, ...]]:
    """Shapes, [tensor][rank], and whether a tensor needs a gradient on some rank: it does on all then."""
    numbers = _core.gather_numbers(domain._object, [number for x in tensors for number in (*x.shape, int(x.requires_grad))])
    result: List[List[Tuple[int, ...]]] = []
    needs: List[bool] = []
    begin = 0
    for x in tensors:
        end = begin + x.dim()
        result.append([tuple(own[begin:end]) for own in numbers])
        needs.append(any(own[end] for own in numbers))
        begin = end + 1
    return result, tuple(needs)


def _classified(net: ShardedProgram, paths: Sequence[str], tensors: Sequence[torch.Tensor],
                shapes: Sequence[Sequence[Tuple[int, ...]]]) -> List[ProgramInput]:
    """Which inputs are fields, and their whole sizes: the same on all ranks, because it follows from what all have."""
    declared = [_declared(net, path, x) for path, x in zip(paths, tensors)]
    for pattern in (*net._fields, *net._whole):
        if not any(matches(path, pattern) for path in paths):
            raise Error("BadOption", f"'{pattern}' is none of the tensors of the call: {', '.join(paths) or 'none'}", "argument")
    first = _first(tensors, declared)
    if first is None:
        raise Error("RefusedProgram", "no input has rows and columns to cut: declare it by `fields`", "input")
    inputs = []
    for i, path in enumerate(paths):
        field = declared[i]
        if field is None:
            field = i == first or _is_field(path, shapes[i], shapes[first], paths[first])
        if field:
            if tensors[i].dim() < 2:
                raise Error("BadOption", f"'{path}' is declared as a field and has {tensors[i].dim()} axes: a field is [..., rows, columns]", "argument")
            inputs.append(ProgramInput(path, _whole_shape(net._domain, path, shapes[i]), True))
            if i != first:
                _require_cuts(net._domain, path, shapes[i], paths[first], shapes[first])
        else:
            if len(set(shapes[i])) > 1:
                raise Error("BadLayout", f"'{path}' is whole, and has the sizes {list(shapes[i][0])} on rank 0 and others elsewhere: "
                            f"{sorted(set(shapes[i]))}; declare it by `fields` if it is a shard", "argument")
            inputs.append(ProgramInput(path, shapes[i][0], False))
    return inputs


def _declared(net: ShardedProgram, path: str, x: torch.Tensor) -> Optional[bool]:
    as_field, as_whole = (any(matches(path, pattern) for pattern in patterns) for patterns in (net._fields, net._whole))
    as_field, as_whole = as_field or is_field(x), as_whole or is_whole(x)
    if as_field and as_whole:
        raise Error("BadOption", f"'{path}' is declared as a field and as whole", "argument")
    return True if as_field else False if as_whole else None


def _first(tensors: Sequence[torch.Tensor], declared: Sequence[Optional[bool]]) -> Optional[int]:
    """The field whose rows and columns are those of the others."""
    for accepted in (lambda i: declared[i] is True, lambda i: tensors[i].dim() >= 3 and tuple(tensors[i].shape[-2:]) != (1, 1),
                     lambda i: tensors[i].dim() == 2):
        for i in range(len(tensors)):
            if declared[i] is not False and accepted(i):
                return i
    return None


def _is_field(path: str, shapes: Sequence[Tuple[int, ...]], first: Sequence[Tuple[int, ...]], first_path: str) -> bool:
    if len(shapes[0]) >= 2 and all(own[-2:] == other[-2:] for own, other in zip(shapes, first)):
        return True
    if len(shapes[0]) <= 2 or all(own[-2:] == (1, 1) for own in shapes):
        return False
    raise Error("BadOption", f"is '{path}' {list(shapes[0])} a field? Its last axes are not the rows and columns of '{first_path}' "
                f"{list(first[0])}: declare it by fields=['{path}'] or whole=['{path}']", "argument")


def _whole_shape(domain: Domain, path: str, shapes: Sequence[Tuple[int, ...]]) -> Tuple[int, ...]:
    rows, columns = domain.grid
    heights = [shapes[part * columns][-2] for part in range(rows)]
    widths = [shapes[part][-1] for part in range(columns)]
    for rank, own in enumerate(shapes):
        wanted = (*shapes[0][:-2], heights[rank // columns], widths[rank % columns])
        if own != wanted:
            raise Error("BadLayout", f"'{path}' has the sizes {list(own)} on rank {rank}, which do not fit the others: {list(wanted)}", "argument")
    return (*shapes[0][:-2], sum(heights), sum(widths))


def _require_cuts(domain: Domain, path: str, shapes: Sequence[Tuple[int, ...]], first_path: str, first: Sequence[Tuple[int, ...]]) -> None:
    """Refuses a field whose cuts the plan cannot have: those of the first field where it has as many cells, else balanced ones."""
    rows, columns = domain.grid
    for axis, kind, parts, step in ((-2, "rows", rows, columns), (-1, "columns", columns, 1)):
        own, others = ([given[part * step][axis] for part in range(parts)] for given in (shapes, first))
        alike = sum(own) == sum(others)
        wanted = others if alike else list(_balanced(sum(own), parts))
        if own != wanted:
            why = f"as '{first_path}' is" if alike else f"evenly, because '{first_path}' has other {kind}"
            raise Error("BadLayout", f"'{path}' is cut into {own} {kind}; it has to be cut into {wanted}, {why}: graticule.shard_of(whole, domain, "
                        f"{kind}={wanted}), or declare it by whole=['{path}'] if it is small", "argument")


def _checksum(x: torch.Tensor) -> int:
    with torch.no_grad():
        values = x.detach().resolve_conj().resolve_neg().contiguous().cpu().reshape(-1)
        return zlib.crc32(values.view(torch.uint8).numpy().tobytes()) if values.numel() else 0


def _require_equal_content(domain: Domain, inputs: Sequence[ProgramInput], tensors: Sequence[torch.Tensor]) -> None:
    for one, x in zip(inputs, tensors):
        if not one.field:
            domain._object.require_same("StructureDisagreement", f"the whole input '{one.path}' with the checksum {_checksum(x):08x}; "
                                        "declare it by `fields` if it is a shard")


def _captured(net: ShardedProgram, pos: Any, key: Any, order: Sequence[int], given: Sequence[Any], tensor_places: Sequence[int],
              inputs: Sequence[ProgramInput], needs: Sequence[bool], caches: Sequence[Any]) -> Captured:
    stand_ins: Dict[int, Any] = {place: x for place, x in zip(order, given)}
    for i, one, needed in zip(tensor_places, inputs, needs):
        stand_ins[order[i]] = Like(one.shape, given[i].dtype, given[i].device, needed)
    args, kwargs = pytree.tree_map(lambda place: stand_ins[place], (pos, key))
    draws = of_python()
    try:
        captured = capture(net._model, args, kwargs, net._allowed_functions, net._checkpoint_blocks, _core.is_known_operator, caches)
    except CaptureError as error:
        raise CaptureError(f"{str(error).rstrip('.')}; graticule.shard(model, domain), which runs the model's own code, may take it") from error
    for source, before, after in zip(("Python's random", "numpy.random"), draws, of_python()):
        if before != after:
            raise CaptureError(f"{type(net._model).__name__} draws numbers of {source}, which a program would have as constants: draw by torch.rand, "
                               "pass them as an argument, or use graticule.shard")
    if captured.num_inputs != len(inputs):
        raise CaptureError(f"{type(net._model).__name__}: torch.export made {captured.num_inputs} inputs of {len(inputs)} tensors")
    return captured


# --- Files ---

class Trees:
    """The structures of a call and of its result, as a file has them. None where it has none, or one of classes that are not known here."""

    def __init__(self, path: Any) -> None:
        self.given, self.made, self.constants = None, None, []
        with contextlib.suppress(OSError, KeyError, IndexError, TypeError, ValueError, NotImplementedError, zipfile.BadZipFile):
            with zipfile.ZipFile(path) as archive:
                name = next(one for one in archive.namelist() if one.endswith(("models/model.json", "serialized_exported_program.json")))
                graph = json.loads(archive.read(name))["graph_module"]
            calls = graph["module_call_graph"][0]["signature"]
            inputs = [one for one in graph["signature"]["input_specs"] if set(one) & {"user_input", "constant_input"}]
            # Of each leaf (value,) where it is a constant; None where it is a tensor.
            self.constants = [(next(iter(one["constant_input"]["value"].values())),) if "constant_input" in one else None for one in inputs]
            self.constants = [(None,) if one is not None and spec["constant_input"]["value"] == {"as_none": True} else one
                              for one, spec in zip(self.constants, inputs)]
            self.made = pytree.treespec_loads(calls["out_spec"])
            self.given = pytree.treespec_loads(calls["in_spec"])

    def tensors(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[torch.Tensor]:
        """The tensors of a call in the order of the file. A call may give them one by one instead. Errors: BadArgument."""
        plain = not kwargs and all(isinstance(x, torch.Tensor) for x in args)
        if self.given is None or plain and len(args) == self.constants.count(None):
            if kwargs:
                raise Error("BadArgument", "the file has no structure of arguments that is known here: pass the tensors in their order", "argument")
            return list(args)
        named = self.given.children()[1].context
        if set(named) == set(kwargs):
            kwargs = {name: kwargs[name] for name in named}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self.given:
            raise Error("BadArgument", f"the network was exported with the arguments {pytree.treespec_pprint(self.given)}, and is called with "
                        f"{pytree.treespec_pprint(spec)}", "argument")
        for held, x in zip(self.constants, leaves):
            if held is not None and (isinstance(x, torch.Tensor) or x != held[0]):
                raise Error("BadArgument", f"the network was exported with {held[0]!r} where it is called with {x!r}", "argument")
        return [x for held, x in zip(self.constants, leaves) if held is None]

    def result(self, leaves: List[Any]) -> Any:
        """In the structure of the network's result; else a tuple, or a single value as it is."""
        if self.made is not None and self.made.num_leaves == len(leaves):
            return pytree.tree_unflatten(leaves, self.made)
        return leaves[0] if len(leaves) == 1 else tuple(leaves)


class Program(nn.Module):
    """A network of a file that torch.export.save or scripts/export.py has written, on the ranks of a domain.

    Parameters and persistent buffers have their original names. It is called as the network was at the export, or with its tensors one
    by one, and returns what the network does: this rank's shards of the fields, as `ShardedProgram`. Without `fields`, inputs with as many axes as the first one with three or more, one less or one more, are fields.
    fields: names of the inputs that are cut (`input_names`). seed, largest_gather: as of `shard_program`.
    Dropout works in training if it was exported so; batch norms behave as they were exported. Collective.
    Errors: NoSuchFile, BrokenFile, RefusedProgram, and when called those of `shard_program`.
    Example: `net = graticule.Program("net.pt2", domain)`, `y = net(x)`.
    """

    def __init__(self, path: Any, domain: Domain, *, fields: Optional[Sequence[str]] = None, seed: int = 0,
                 largest_gather: Optional[int] = None) -> None:
        super().__init__()
        if not isinstance(domain, Domain):
            raise TypeError(f"Program takes a graticule.Domain, not {type(domain).__name__}")
        program = _core.Program.of_file(str(path), domain._object, None if fields is None else list(fields), seed, largest_gather)
        self.__dict__.update(_program=program, _domain=domain, _called=False, _numbers=program.output_numbers(), _trees=Trees(path))
        for name, tensor in program.parameters():
            needs = tensor.requires_grad
            tensor.__class__ = nn.Parameter
            tensor.requires_grad_(needs)
            owner, last = parent_of(self, name)
            owner.register_parameter(last, tensor)
        for name, tensor in program.buffers():
            owner, last = parent_of(self, name)
            owner.register_buffer(last, tensor)
        held = {**dict(program.parameters()), **dict(program.buffers())}
        for name, of in program.aliases:  # one tensor under two names, as in the network's own state_dict
            if of in held:
                owner, last = parent_of(self, name)
                (owner.register_parameter if isinstance(held[of], nn.Parameter) else owner.register_buffer)(last, held[of])
        guard_backward()
        expect_reductions(self, domain)

    @property
    def domain(self) -> Domain:
        """The ranks that share a sample."""
        return self._domain

    @property
    def input_names(self) -> List[str]:
        """Names of the tensors that the network takes, in order."""
        return self._program.input_names

    @property
    def report(self) -> ProgramReport:
        """How the latest call was divided. Errors: WrongState before the first call."""
        if not self._called:
            raise Error("WrongState", "a program has a report after its first call", "program")
        return _report(self._program, [ProgramInput(name, tuple(shape), field) for name, shape, field
                                       in zip(self.input_names, self._program.input_shapes(), self._program.fields)])

    @uncompiled
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The network's result, of this rank's shards, with constants such as None and 3 in their places. Collective, as is the backward."""
        require_eager("a sharded program")
        self._program.train(self.training)
        with Together(self._domain, self._program.reset_structure):
            results = self._program.run(self._trees.tensors(args, kwargs))
        self.__dict__["_called"] = True
        note_results(self._program.output_axes(), results, self._domain)
        results = [x if held is None else held[0] if held else x.item() for x, held in zip(results, self._numbers)]
        return self._trees.result(results)

    def save(self, path: Any) -> None:
        """Writes the network with its present weights; torch.export.load reads it. By one rank."""
        self._program.save(str(path))

    def to(self, *args: Any, **kwargs: Any) -> "Program":
        """As `Module.to`: another device or real type, in which the graph computes, too."""
        device, dtype, _, _ = torch._C._nn._parse_to(*args, **kwargs)
        self._program.move(device, dtype)
        return self

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        raise Error("Unsupported", "a program changes its device and type by to(...)", "argument")

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        raise TypeError("a Program is copied by its file: save it, and open it again")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a Program belongs to its ranks and is not saved by pickle: see Program.save")
