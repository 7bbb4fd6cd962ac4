# SPDX-License-Identifier: BSD-3-Clause
"""Captures the forward of a module as the graph of an exported program, without running it.

Needs torch alone: scripts/export.py loads this file by its path.
"""
from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import gc
import inspect
import io
import itertools
import logging
import operator
import os
import re
import sys
import traceback
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch.utils import _pytree as pytree


_TORCH = os.path.dirname(torch.__file__) + os.sep


class CaptureError(RuntimeError):
    """torch.export cannot take a module: the line of its code, the cause and the way out."""


@dataclasses.dataclass(frozen=True)
class Captured:
    """The graph of a forward, as text, and the tensors of the module that it reads.

    outputs: for each leaf of the result True where it is a tensor that the program returns, else (value,), a constant.
    masks: tensors whose values the graph has as constants. attributes: of modules, by name, whose values it has as constants.
    counters: attributes to which each call adds a number, and which it does not use.
    """
    json: str
    tensors: Dict[str, torch.Tensor]
    outputs: Tuple[Any, ...]
    out_spec: Any
    num_inputs: int
    masks: Tuple[torch.Tensor, ...] = ()
    attributes: Tuple[Tuple[torch.nn.Module, str], ...] = ()
    counters: Tuple[Tuple[torch.nn.Module, str, Any], ...] = ()


# --- Corrections of what torch.export does ---

def detach_parts_without_gradients(graph_module: torch.fx.GraphModule) -> None:
    """run_decompositions drops the mark of torch.no_grad, so that gradients would flow through such parts: detaches their results."""
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        for argument in node.args:
            if isinstance(argument, torch.fx.Node) and argument.op == "get_attr":
                part = getattr(graph_module, argument.target)
                if isinstance(part, torch.fx.GraphModule):
                    detach_parts_without_gradients(part)
                    if "set_grad_enabled" in str(node.target) and node.args[0] is False:
                        _detach_results(part)


def _detach_results(part: torch.fx.GraphModule) -> None:
    end = next(node for node in part.graph.nodes if node.op == "output")

    def detached(value: torch.fx.Node) -> torch.fx.Node:
        if not isinstance(value.meta.get("val"), torch.Tensor):
            return value
        with part.graph.inserting_before(end):
            result = part.graph.call_function(torch.ops.aten.detach.default, (value,))
        result.meta = dict(value.meta)
        return result

    end.args = (torch.fx.map_arg(end.args[0], detached),)
    part.recompile()


@functools.lru_cache(maxsize=None)
def _decompositions() -> Dict[Any, Callable[..., Any]]:
    return dict(torch.export.default_decompositions())


def cells_of_recurrent_layers() -> Dict[Any, Callable[..., Any]]:
    """Rules that turn GRUCell, LSTMCell and RNNCell into products and sums, which shards run; torch keeps them as operators."""
    if not hasattr(torch.export, "default_decompositions"):
        return {}
    return {operator: rule for operator, rule in _decompositions().items() if operator.name().endswith("_cell")}


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of a class, for as long as the context is entered."""
    own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before) if own else delattr(owner, name)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Nothing unreachable ends within: the end of a generator in `torch.no_grad`, which switches gradients on again, would be recorded."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def collected() -> Iterator[None]:
    """What has been made within, and cannot be reached behind it, is gone then. All that was there before is not looked at, which takes
    longer than a small capture."""
    own = gc.get_freeze_count() == 0
    if own:
        gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if own:
            gc.unfreeze()


def detached_data() -> Any:
    """torch.export takes `x.data` of a value for a constant without values: the model's own code gets the value without its gradient."""
    plain = torch._C.TensorBase.data

    def data(x: torch.Tensor) -> torch.Tensor:
        return plain.__get__(x) if sys._getframe(1).f_code.co_filename.startswith(_TORCH) else x.detach()

    return replaced(torch.Tensor, "data", property(data, plain.__set__))


def kept_class() -> Any:
    """`x.as_subclass(torch.Tensor)` of a fake tensor would be one without memory that is not known to be fake: it stays as it is."""
    plain = torch._C.TensorBase.as_subclass

    def as_subclass(x: torch.Tensor, kind: type) -> torch.Tensor:
        if _is_plain(x):
            return plain(x, kind)
        if kind is not torch.Tensor:
            raise CaptureError(f"the network makes a {kind.__name__} of a tensor: a program has tensors of PyTorch's own class")
        return x

    return replaced(torch.Tensor, "as_subclass", as_subclass)


@contextlib.contextmanager
def own_gradients() -> Iterator[None]:
    """Gradients that the network itself takes by torch.autograd.grad, without create_graph, and `x.data`: no gradients flow through them."""
    plain = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def run(outputs: Any, gradients: Any, retain_graph: bool, create_graph: bool, *arguments: Any, **named: Any) -> Any:
        found = plain(outputs, gradients, retain_graph, create_graph, *arguments, **named)
        return found if create_graph or found is None else tuple(x if x is None else x.detach() for x in found)

    with replaced(torch.autograd, "_engine_run_backward", run), detached_data(), kept_class():
        yield


@contextlib.contextmanager
def written_buffers(module: torch.nn.Module) -> Iterator[None]:
    """A buffer that the forward replaces, `self.mean = 0.9 * self.mean + x`, is written to when it ends: torch.export keeps writes alone."""
    before: List[Tuple[torch.nn.Module, str, torch.Tensor]] = []

    def begin(part: torch.nn.Module, *_: Any) -> None:
        if part is module:
            before[:] = [(one, name, x) for one in module.modules() for name, x in one._buffers.items() if x is not None]

    def end(part: torch.nn.Module, *_: Any) -> None:
        if part is not module:
            return
        new = [(one, name, x, one._buffers[name]) for one, name, x in before if one._buffers.get(name) is not None and one._buffers[name] is not x]
        for one, name, x, value in new:
            if value.shape != x.shape or value.dtype != x.dtype or sum(x is other for _, _, other in before) > 1:
                raise CaptureError(f"the forward makes the buffer {type(one).__name__}.{name}, {list(x.shape)} of {x.dtype}, {list(value.shape)} of {value.dtype}, "
                                   "or another module has it, too: give it its final sizes and type when the module is made, and write to it by copy_")
        for (one, name, x, _), value in zip(new, [value.detach().clone() for *_, value in new]):
            x.copy_(value)
            one._buffers[name] = x

    hooks = [torch.nn.modules.module.register_module_forward_pre_hook(begin), torch.nn.modules.module.register_module_forward_hook(end)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def ended_transforms() -> Iterator[None]:
    """Ends the transforms of torch.func that an error has left open, as PyTorch 2.13 does: the process would stay within them."""
    from torch.autograd import forward_ad
    functorch = torch._C._functorch
    depth = len(functorch.get_interpreter_stack() or ())
    try:
        yield
    except Exception:
        while len(functorch.get_interpreter_stack() or ()) > depth:
            functorch.pop_dynamic_layer_stack()
        if forward_ad._current_level < 0:  # not of the caller; a graph that runs does not count it there
            with contextlib.suppress(RuntimeError):
                torch._C._enter_dual_level()  # type: ignore[attr-defined]
            torch._C._exit_dual_level(0)  # type: ignore[attr-defined]
        raise


# --- Regions whose activations the backward computes again ---

RECOMPUTED = "graticule_recompute"  # in the metadata "custom" of a node: the number of its region


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern names this path, or what it is a part of."""
    return path == pattern or path.startswith(pattern + ".") or fnmatch.fnmatchcase(path, pattern)


def blocks_of(module: torch.nn.Module, patterns: Sequence[str]) -> Dict[str, torch.nn.Module]:
    """The submodules that patterns name. Raises ValueError for a pattern that names none, with those that there are."""
    blocks = {name: part for name, part in module.named_modules() if name and any(matches(name, pattern) for pattern in patterns)}
    for pattern in patterns:
        if not any(matches(name, pattern) for name in blocks):
            there = list(dict.fromkeys(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name) for name, _ in module.named_modules() if name))
            there.sort(key=lambda name: name.count("."))
            more = f", and {len(there) - 30} more" if len(there) > 30 else ""
            raise ValueError(f"checkpoint_blocks: '{pattern}' is none of the modules of {type(module).__name__}: {', '.join(there[:30]) or 'none'}{more}")
    return blocks


class Regions:
    """Marks the operators of regions. One within another is a part of it."""

    def __init__(self) -> None:
        self.number, self.entered = 0, False

    @contextlib.contextmanager
    def region(self) -> Iterator[None]:
        """The operators within are one region."""
        if self.entered:
            yield
            return
        self.entered, self.number = True, self.number + 1
        try:
            with torch.fx.traceback.annotate({RECOMPUTED: self.number}):
                yield
        finally:
            self.entered = False

    def generator(self, *_: Any, **__: Any) -> Iterator[None]:
        """In the place of PyTorch's, which a checkpoint advances before and after its function."""
        with self.region():
            yield

    def function(self, function: Callable[..., Any], preserve: bool, *arguments: Any) -> Any:
        """In the place of a re-entrant checkpoint, behind which torch.export drops every gradient."""
        with self.region():
            return function(*arguments)

    def forward(self, part: torch.nn.Module, called: Set[int]) -> Callable[..., Any]:
        """The forward of a submodule, as a region."""
        own = part.forward

        @functools.wraps(own)
        def forward(*args: Any, **kwargs: Any) -> Any:
            called.add(id(part))
            with self.region():
                return own(*args, **kwargs)
        return forward


def _node_by_node(call: Callable[..., Any]) -> Callable[..., Any]:
    """Of an operator that runs a graph, which PyTorch would call as one function: the nodes that come of it lose their marks then."""
    def by_node(self: Any, *arguments: Any, **named: Any) -> Any:
        return call(self, *[torch.fx.Interpreter(one).run if isinstance(one, torch.fx.GraphModule) else one for one in arguments], **named)
    return by_node


def drop_other_marks(graph_module: torch.fx.GraphModule) -> None:
    """Keeps the marks of regions, and drops what else is noted about nodes: PyTorch's own notes, and the user's, which need not have a text.

    Those on what a node came of have addresses, which differ between ranks; parts without gradients are detached in the graph.
    """
    for part in graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("from_node", None)
            if custom := node.meta.pop("custom", None):
                node.meta["custom"] = {key: value for key, value in custom.items() if key == RECOMPUTED}


@contextlib.contextmanager
def marked_regions(module: torch.nn.Module, patterns: Sequence[str] = ()) -> Iterator[None]:
    """Runs torch.utils.checkpoint, and the submodules that patterns name, as they are, and marks their operators in a capture."""
    import torch.utils.checkpoint as checkpoints
    from torch._higher_order_ops import wrap
    regions, blocks, called = Regions(), blocks_of(module, patterns), set()  # type: ignore[var-annotated]
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.fx.traceback.preserve_node_meta())
        stack.enter_context(replaced(checkpoints.CheckpointFunction, "apply", staticmethod(regions.function)))
        for owner in (checkpoints, sys.modules.get("torch.distributed._composable.checkpoint_activation")):
            if owner is not None:
                stack.enter_context(replaced(owner, "_checkpoint_without_reentrant_generator", regions.generator))
        for operator in ("WrapWithAutocast", "WrapWithSetGradEnabled"):
            if hasattr(wrap, operator):
                stack.enter_context(replaced(getattr(wrap, operator), "__call__", _node_by_node(getattr(wrap, operator).__call__)))
        for part in {id(part): part for part in blocks.values()}.values():
            stack.enter_context(replaced(part, "forward", regions.forward(part, called)))
        yield
    for pattern in patterns:
        named = [name for name, part in blocks.items() if matches(name, pattern)]
        if not any(id(blocks[name]) in called for name in named):
            raise CaptureError(f"checkpoint_blocks: the network does not call '{named[0]}' ({type(blocks[named[0]]).__name__}), which '{pattern}' names")


# --- What torch.export does not keep: gradients that are not those of operators ---

# Of other packages: their backward is the derivative of their forward.
DERIVED_FUNCTIONS = ("torch_harmonics.utils._EnsureContiguous",)
KEPT_FUNCTIONS = ("CheckpointFunction", "_NoopSaveInputs", "BackwardHookFunction", "CondAutogradOp")  # PyTorch's own: run as they are, and named by the hook


def kept(function: type) -> bool:
    """PyTorch's own Functions, and the backward that an operator of another library was registered with, which is a node of the graph."""
    return function.__name__ in KEPT_FUNCTIONS or function.__module__ == "torch._library.autograd"


class Region:
    """Where Python code runs: the innermost module of the network, and the line outside of PyTorch."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.names = {id(part): name or "the network" for name, part in module.named_modules()}
        self.path: List[str] = []

    def line(self) -> str:
        """`net.py:27` of the call that runs."""
        for frame in reversed(traceback.extract_stack()):
            if not frame.filename.startswith((_TORCH, "<")) and os.path.abspath(frame.filename) != os.path.abspath(__file__):
                return f"{frame.filename}:{frame.lineno}"
        return "an unknown line"

    def __str__(self) -> str:
        return f"{self.line()}, in {self.path[-1] if self.path else 'the network'}"

    @contextlib.contextmanager
    def followed(self) -> Iterator["Region"]:
        """Follows the calls of modules."""
        def enter(part: torch.nn.Module, _: Any) -> None:
            self.path.append(f"{self.names.get(id(part), '?')} ({type(part).__name__})")

        def leave(part: torch.nn.Module, *_: Any) -> None:
            self.path.pop()

        handles = [torch.nn.modules.module.register_module_forward_pre_hook(enter),
                   torch.nn.modules.module.register_module_forward_hook(leave, always_call=True)]
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()


def name_of(function: type) -> str:
    """`net.Reverse`"""
    return f"{function.__module__}.{function.__qualname__}"


@contextlib.contextmanager
def noted_causes(module: torch.nn.Module, causes: Set[str], allowed: Sequence[str] = (), parameters: bool = True) -> Iterator[None]:
    """Notes what runs in the network that torch.export does not keep.

    allowed: names of classes that are no causes. parameters: whether hooks on parameters are.
    """
    function_apply = vars(torch.autograd.Function)["apply"]

    def apply(function: Any, *arguments: Any, **named: Any) -> Any:
        if not kept(function) and name_of(function) not in (*DERIVED_FUNCTIONS, *allowed):
            causes.add(f"class {name_of(function)}, a torch.autograd.Function with a backward of its own, at {region}")
        return function_apply.__get__(None, function)(*arguments, **named)

    def noting(method: Any, what: str) -> Any:
        def wrapper(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
            causes.add(f"{what} at {region}")
            return method(tensor, *arguments, **named)
        return wrapper

    for name, part in module.named_modules():
        for hooks, what in (("_backward_hooks", "a full backward hook"), ("_backward_pre_hooks", "a full backward pre-hook")):
            for hook in getattr(part, hooks, {}).values():
                code = getattr(hook, "__code__", None)
                place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
                causes.add(f"{what} on the module {name or 'of the network itself'} ({type(part).__name__}){place}")
    for name, parameter in module.named_parameters() if parameters else ():
        if getattr(parameter, "_backward_hooks", None):
            causes.add(f"a hook on the parameter {name}")
    with contextlib.ExitStack() as stack:
        region = stack.enter_context(Region(module).followed())
        stack.enter_context(replaced(torch.autograd.Function, "apply", classmethod(apply)))
        for name in ("register_hook", "register_post_accumulate_grad_hook"):
            stack.enter_context(replaced(torch.Tensor, name, noting(getattr(torch.Tensor, name), "a hook on a tensor (Tensor." + name + ")")))
        yield


def functions_behind(outputs: Sequence[torch.Tensor]) -> Set[type]:
    """The classes of torch.autograd.Function in the graph of the outputs, also those whose `apply` was bound before the network ran."""
    todo, done, classes = [one.grad_fn for one in outputs if one.grad_fn is not None], set(), set()
    while todo:
        node = todo.pop()
        if node is None or node in done:
            continue
        done.add(node)
        classes.add(getattr(type(node), "_forward_cls", None))
        todo += [one for one, _ in node.next_functions]
    return {one for one in classes if one is not None and not kept(one)}


def add_functions(causes: Set[str], functions: Iterable[type]) -> None:
    """Adds the classes that are not among the causes yet, with their place."""
    for one in functions:
        if not any(cause.startswith(f"class {name_of(one)},") for cause in causes):
            code = one.forward.__code__  # type: ignore[attr-defined]
            causes.add(f"class {name_of(one)}, a torch.autograd.Function with a backward of its own ({code.co_filename}:{code.co_firstlineno})")


def _require_own_gradients(module: torch.nn.Module, args: Any, kwargs: Any, allowed: Sequence[str]) -> None:
    """Runs the forward on fake tensors, and refuses what the graph of a program would lack."""
    causes: Set[str] = set()

    def leaf(x: torch.Tensor) -> torch.Tensor:
        # Others have no gradients in the program either; operators refuse them where they write, as to running statistics.
        return x.detach().requires_grad_().clone() if x.requires_grad else x.clone()

    own: Dict[int, torch.Tensor] = {}
    for part in module.modules():  # put back by `unchanged`; those of the model are not to be written to
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = own.setdefault(id(buffer), buffer.detach().clone())
    with noted_causes(module, causes, allowed, parameters=False):
        args, kwargs = pytree.tree_map_only(torch.Tensor, leaf, (args, kwargs))
        outputs = [x for x in pytree.tree_leaves(module(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    add_functions(causes, [one for one in functions_behind(outputs) if name_of(one) not in (*DERIVED_FUNCTIONS, *allowed)])
    if causes:
        raise CaptureError(f"{type(module).__name__} has gradients of its own, which a captured graph would lack: {'; '.join(sorted(causes))}. "
                           "Write it with operators that have the gradients that are meant (x + (f(x) - x).detach() has f's values and x's "
                           "gradient); a Function whose backward is the derivative of its forward can be named in `allowed_functions`")


# --- Code that reads values of tensors, and can be written without ---

def _averaged_over_batches(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The forward of batch norms, where `momentum=None` takes the number of batches so far from a tensor."""
    def forward(norm: Any, x: torch.Tensor) -> torch.Tensor:
        counted = norm.momentum is None and norm.training and norm.track_running_stats and norm.num_batches_tracked is not None
        if not counted:
            return plain(norm, x)
        norm._check_input_dim(x)
        norm.num_batches_tracked.add_(1)
        with torch.no_grad():
            kind = norm.running_mean.dtype
            share = norm.num_batches_tracked.to(kind).reciprocal()
            variance, mean = torch.var_mean(x.detach().to(kind), [0, *range(2, x.dim())])
            for held, latest in ((norm.running_mean, mean), (norm.running_var, variance)):
                held.add_((latest - held) * share)
        return torch.nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, True, 0.0, norm.eps)
    return forward


def _unchecked_variance(plain: Callable[..., Any]) -> Callable[..., Any]:
    """gaussian_nll_loss without its look at the values of the variance: a negative one gives NaN in place of an error."""
    def loss(input: Any, target: Any, var: Any, *arguments: Any, **named: Any) -> Any:
        if not isinstance(var, torch.Tensor):
            return plain(input, target, var, *arguments, **named)
        with replaced(torch.nn.functional, "gaussian_nll_loss", plain), replaced(torch, "any", lambda *_, **__: False):
            return plain(input, target, var.masked_fill(var < 0, float("nan")), *arguments, **named)
    return loss


def covariance(x: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    """torch.cov without its look at the values of weights: where PyTorch raises an error for them, the result is not finite."""
    if x.dim() > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {x.dim()} dimensions")
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    total = rows.shape[1] if weights is None else weights.sum()
    weighted = rows if weights is None else rows * weights
    if weights is None:
        factor = max(total - correction, 0)
    else:
        given = 1 if aweights is None or correction == 0 else (weights * aweights).sum() / total
        factor = (total - correction * given).clamp(min=0)
    rows = rows - (weighted.sum(1) / total).unsqueeze(1)
    product = rows @ (rows if weights is None else rows * weights).mT.conj()
    return (product / factor if weights is not None or factor else product * float("inf")).squeeze()


def correlation(x: torch.Tensor) -> torch.Tensor:
    """torch.corrcoef, by `covariance`."""
    found = covariance(x)
    if found.dim() == 0:
        return found / found
    deviation = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / deviation[:, None] / deviation[None, :]
    return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1)) if found.is_complex() else found.clip(-1, 1)


# Functions that read values of tensors, and those that do not.
WITHOUT_VALUES = {torch.cov: covariance, torch.Tensor.cov: covariance, torch.corrcoef: correlation, torch.Tensor.corrcoef: correlation}


class Masks:
    """Boolean masks whose values are known, as indices of their true places: `x[mask]` has a size then.

    Known are plain tensors, lists and arrays, and buffers of the module. `read` lists the tensors among them, and those whose values
    the code has asked for.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.parts = list(module.modules())
        self.buffers = {(number, name): buffer for number, part in enumerate(self.parts) for name, buffer in part._buffers.items()
                        if buffer is not None and buffer.dtype == torch.bool}
        self.read: Dict[int, torch.Tensor] = {}

    def values_of(self, mask: Any) -> Any:
        """The mask with its values, or None."""
        if _is_plain(mask):
            self.read[id(mask)] = mask
            return mask
        for (number, name), values in self.buffers.items():
            if self.parts[number]._buffers.get(name) is mask:
                self.read[id(values)] = values
                return values
        return None

    def opened(self, index: Any) -> Any:
        """An index, in which integers stand for the masks that are known."""
        if not isinstance(index, tuple):
            index = (index,)
        if not any(_is_mask(one) for one in index):
            return None
        result: List[Any] = []
        for one in index:
            values = None
            if _is_mask(one):
                with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
                    values = self.values_of(one if isinstance(one, torch.Tensor) else torch.as_tensor(one))
                    places = None if values is None else values.nonzero(as_tuple=True)
            result.extend([one] if values is None else places)
        return tuple(result)

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Opens the masks of `x[...]` and `x[...] = y`, and lists the plain tensors whose values become numbers of Python."""
        base = torch._C.TensorBase
        read, write = base.__getitem__, base.__setitem__  # type: ignore[attr-defined]

        def get(x: torch.Tensor, index: Any) -> torch.Tensor:
            opened = self.opened(index)
            return read(x, index if opened is None else opened)

        def put(x: torch.Tensor, index: Any, value: Any) -> None:
            opened = self.opened(index)
            write(x, index if opened is None else opened, value)

        def listed(method: Any) -> Any:
            def values(x: torch.Tensor, *arguments: Any, **named: Any) -> Any:
                if _is_plain(x):
                    self.read[id(x)] = x
                return method(x, *arguments, **named)
            return values

        with contextlib.ExitStack() as stack:
            stack.enter_context(replaced(torch.Tensor, "__getitem__", get))
            stack.enter_context(replaced(torch.Tensor, "__setitem__", put))
            for name in ("item", "tolist", "numpy", "__array__"):
                stack.enter_context(replaced(torch.Tensor, name, listed(getattr(torch.Tensor, name))))
            yield


def _is_plain(x: Any) -> bool:
    """Whether a tensor has values and is no part of a graph."""
    return type(x) is torch.Tensor and not torch._is_functional_tensor(x)


def _is_mask(one: Any) -> bool:
    if isinstance(one, torch.Tensor) or hasattr(one, "__array_interface__"):
        return str(one.dtype).removeprefix("torch.") == "bool" and one.ndim > 0
    return isinstance(one, list) and bool(one) and all(isinstance(flag, bool) for flag in one)


@contextlib.contextmanager
def known_values(module: torch.nn.Module) -> Iterator[Masks]:
    """Runs code that decides by values of tensors without them: batch norms with momentum=None, gaussian_nll_loss, covariances, masks."""
    norms = torch.nn.modules.batchnorm._BatchNorm
    functions = torch.nn.functional
    masks = Masks(module)
    with (replaced(torch, "cov", covariance), replaced(torch.Tensor, "cov", covariance), replaced(torch, "corrcoef", correlation),
          replaced(torch.Tensor, "corrcoef", correlation), replaced(norms, "forward", _averaged_over_batches(norms.forward)),
          replaced(functions, "gaussian_nll_loss", _unchecked_variance(functions.gaussian_nll_loss)), masks.followed()):
        yield masks


# --- Capture ---

_NORMS_WITH_STATISTICS = ("batch_norm", "instance_norm")
_WITH_DROPOUT = {"dropout": "train", "scaled_dot_product_attention": "dropout_p"}


def needs_no_decompositions(graph_module: torch.fx.GraphModule, known: Callable[[str], bool]) -> bool:
    """Whether decompositions, which take most of the time of a capture, would change nothing: all operators are known, change no tensor, draw no
    numbers, and run no graphs. They write the casts of torch.autocast into the graph."""
    if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
        return False
    for node in graph_module.graph.nodes:
        target = node.target
        if node.op == "get_attr":
            return False
        if node.op != "call_function" or target is operator.getitem:
            continue
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or not known(str(target)):
            return False
        given = dict(zip((one.name for one in target._schema.arguments), node.args), **node.kwargs)
        name = target._schema.name.partition("::")[2]
        if target._schema.is_mutable or (name in _NORMS_WITH_STATISTICS and given.get("running_mean") is not None):
            return False
        if torch.Tag.nondeterministic_seeded in target.tags and (name not in _WITH_DROPOUT or given.get(_WITH_DROPOUT[name])):
            return False
    return True


def capture(module: torch.nn.Module, args: Sequence[Any], kwargs: Dict[str, Any], allowed: Sequence[str] = (),
            blocks: Sequence[str] = (), known: Callable[[str], bool] = lambda target: False, caches: Optional[Sequence[Any]] = None) -> Captured:
    """The graph of `module(*args, **kwargs)`, whose tensors are replaced by fake ones: no memory of a field is used.

    args, kwargs: with `Like` in the place of each tensor. The module is left as it was. allowed: classes of torch.autograd.Function,
    as "net.Swish", whose backward is the derivative of their forward. blocks: patterns of submodules whose activations the backward
    computes again. known: whether shards run an operator, as "aten.conv2d.default". caches: `function_caches()`, of all that there are.
    Raises CaptureError. Cost: 4 to 10 ms per operator, independent of the sizes.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    with mode:
        args, kwargs = pytree.tree_map_only(Like, Like.empty, (tuple(args), dict(kwargs)))
    from ._states import Attributes, Effects, unchanged  # which scripts/export.py does not need
    attributes, counters = Attributes(), {}
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise CaptureError(f"{name or 'the network'} is a module of torch.jit.script, which torch.export does not take: use the module that it is made of")
    with (no_collection(), unchanged(module), _named_errors(module), ended_transforms(), _quiet(), marked_regions(module, blocks), own_gradients(),
          known_values(module) as masks, attributes.followed(), written_buffers(module)):
        prefer_operators(module)  # put back by `unchanged`
        caches = function_caches() if caches is None else caches
        if torch.is_grad_enabled():
            with mode:
                with unchanged(module, attributes), _emptied_caches(caches):
                    _require_own_gradients(module, args, kwargs, allowed)
        with unchanged(module, attributes), _emptied_caches(caches):
            program = torch.export.export(module, args, kwargs, strict=False)
        if needs_no_decompositions(program.graph_module, known):
            program.graph_module.graph.eliminate_dead_code()
        else:
            detach_parts_without_gradients(program.graph_module)
            program = program.run_decompositions(cells_of_recurrent_layers())
        drop_other_marks(program.graph_module)
        if attributes.changed:
            with _emptied_caches(caches):
                effects = Effects(module, attributes, mode, args, kwargs)
            effects.check()
            counters = effects.added
            attributes.counts.update(counters)
    content = dataclasses.replace(_content(module, program), masks=tuple(masks.read.values()), attributes=attributes.held(),
                                  counters=tuple((attributes.read[key], key[1], step) for key, step in counters.items()))
    _forget_graph()
    return content


def _forget_graph() -> None:
    """Lets go of the graph: PyTorch 2.13 keeps its nodes, by the addresses of fake tensors, until the next export."""
    from torch.fx.experimental import proxy_tensor
    getattr(proxy_tensor, "_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT", {}).clear()


def prefer_operators(module: torch.nn.Module) -> None:
    """Makes convolutions of torch-harmonics run their operator, for which there is a rule, instead of a Function around others."""
    for part in module.modules():
        if "_save_x_spatial_first_ok" in vars(part):
            part._save_x_spatial_first_ok = part.fused = False


@dataclasses.dataclass(frozen=True)
class Like:
    """Stands for a tensor of these sizes. requires_grad: what the network's own code reads."""
    shape: Tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool = False

    def empty(self) -> torch.Tensor:
        """A tensor of these sizes, which is fake within a FakeTensorMode."""
        return torch.empty(self.shape, dtype=self.dtype, device=self.device, requires_grad=self.requires_grad)


def _content(module: torch.nn.Module, program: Any) -> Captured:
    from torch._export.serde.serialize import serialize
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if isinstance(made := node.meta.get("val"), torch.Tensor) and made.layout is not torch.strided:
                    raise CaptureError(f"{node.target} makes a sparse tensor: use a dense one, or index_add and gather")
    _refuse_objects(module, program)
    out_spec = program.call_spec.out_spec
    program._module_call_graph = []  # classes of the result need not have names in files
    signature = program.graph_signature
    for output in signature.output_specs:
        if output.kind == OutputKind.USER_OUTPUT and not isinstance(output.arg, (TensorArgument, ConstantArgument)):
            raise CaptureError("the model returns a number that depends on the values or sizes of its inputs; return a tensor")
    with _not_sorted():
        text = serialize(program, serialize_state_dict=False, serialize_constants=False, serialize_example_inputs=False).exported_program
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    tensors = {}
    for given in signature.input_specs:
        if given.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            found = own.get(given.target) if given.kind != InputKind.CONSTANT_TENSOR else None
            if found is None:
                found = program.constants.get(given.target, program.state_dict.get(given.target))
            if isinstance(found, FakeTensor):
                raise CaptureError(f"{type(module).__name__} cannot be captured: '{given.target}' would be a constant and depends on the inputs; "
                                   f"where the network uses torch.func: {_OF_TRANSFORMS}")
            tensors[given.target] = found
    outputs = tuple(True if isinstance(one.arg, TensorArgument) else (one.arg.value,) for one in signature.output_specs
                    if one.kind == OutputKind.USER_OUTPUT)
    inputs = sum(one.kind == InputKind.USER_INPUT and isinstance(one.arg, TensorArgument) for one in signature.input_specs)
    return Captured(text.decode() if isinstance(text, bytes) else text, tensors, outputs, out_spec, inputs)


def _refuse_objects(module: torch.nn.Module, program: Any) -> None:
    """Names the call that takes an object that is neither a tensor nor a number, as a torch.Generator."""
    objects = {given.arg.name: given.arg.class_fqn for given in program.graph_signature.input_specs if given.kind.name == "CUSTOM_OBJ"}
    for node in program.graph.nodes:
        kind = next((objects[one.name] for one in node.all_input_nodes if one.name in objects), None)
        if kind is None or node.op == "output":
            continue
        frames = re.findall(r'File "(.*)", line (\d+), in .*\n\s*(.*)', node.meta.get("stack_trace") or "")
        where = f"{os.path.basename(frames[-1][0])}:{frames[-1][1]} ({frames[-1][2].strip()})" if frames else str(node.target)
        why = OF_GENERATORS if is_of_generators(kind) else f"an object of {kind}, which no program has"
        raise CaptureError(f"{type(module).__name__} cannot be captured: {where}: {why}")


def _not_sorted() -> Any:
    """PyTorch 2.13 sorts the nodes of a copy of the graph as a test of it, which takes a sixth of the time of a capture."""
    from torch._export.serde import serialize
    return replaced(serialize, "canonicalize", lambda program, *_: program)


@contextlib.contextmanager
def _emptied_caches(caches: Sequence[Any]) -> Iterator[None]:
    """Empties the functools.lru_cache of each function that has computed something within, as a mask of a window: it is a fake tensor."""
    before = [one.cache_info().misses for one in caches]
    try:
        yield
    finally:
        for one, misses in zip(caches, before):
            if one.cache_info().misses > misses:
                one.cache_clear()


def function_caches() -> List[Any]:
    """All functools.lru_cache but those of PyTorch. The type alone is looked at: weak references may have lost their object."""
    own = ("torch.", "sympy.", "functools")
    kind = type(functools.lru_cache(lambda: None))
    objects = gc.get_objects()
    found = itertools.compress(objects, map(operator.is_, map(type, objects), itertools.repeat(kind)))  # a third of the time of a loop
    return [one for one in found if not (str(getattr(one, "__module__", "")) + ".").startswith(own)]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps back the graphs and warnings that torch.export prints beside its errors."""
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level, output = log.level, io.StringIO()
    log.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(output), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec.*")  # of PyTorch 2.13's own code
            warnings.filterwarnings("ignore", "The tensor attribute.* assigned during export")  # which `unchanged` puts back
            yield
    finally:
        log.setLevel(level)
    sys.stderr.write(output.getvalue())


OF_GENERATORS = ("random numbers of a torch.Generator, which no program has: leave `generator` out (a program's numbers follow from its seed and their "
                 "place), or pass the numbers as an argument")


def is_of_generators(text: str) -> bool:
    """Whether an error says that a function cannot be captured with the torch.Generator that it was given."""
    return "torch._C.Generator" in text or "device type for generator" in text


_BY_VALUES = "the value of a tensor decides what is computed; use torch.where, or decide by sizes and options"
_TRANSFORMS = tuple(os.path.join("_functorch", name) for name in ("predispatch.py", "eager_transforms.py", "vmap.py"))
_OF_TRANSFORMS = ("torch.export captures torch.vmap along the first axis, and no other transform of torch.func: take gradients by "
                  "torch.autograd.grad(..., create_graph=True), and the other axes by operators or loops")
_WAYS_OUT = {
    "GuardOnDataDependentSymNode": _BY_VALUES,
    "DataDependentOutputException": _BY_VALUES,
    "DynamicOutputShapeException": _BY_VALUES,
    "PendingUnbackedSymbolNotFound": _BY_VALUES,
    "UserError": "",
    "TorchRuntimeError": "",
}


@contextlib.contextmanager
def _named_errors(module: torch.nn.Module) -> Iterator[None]:
    try:
        yield
    except CaptureError:
        raise
    except Exception as error:  # of torch.export, or of the model
        raise CaptureError(_described(module, error)) from error


def _described(module: torch.nn.Module, error: BaseException) -> str:
    where = _users_line(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    way_out = _BY_VALUES if "its data is not allocated" in text else OF_GENERATORS if is_of_generators(text) else _WAYS_OUT.get(type(error).__name__)
    if way_out is None and ("TensorWrapper" in text or any(frame.filename.endswith(_TRANSFORMS) for frame in traceback.extract_tb(error.__traceback__))):
        way_out = _OF_TRANSFORMS
    if way_out is None:
        text = f"{type(error).__name__}: {text}"
    elif way_out:
        text = f"{way_out} ({text})"
    return f"{type(module).__name__} cannot be captured: {where}{text}"


def _users_line(error: BaseException) -> str:
    """`net.py:27 (if h.sum() > 0:): `: the innermost line outside of torch and this package."""
    outside = (_TORCH, os.path.dirname(os.path.abspath(__file__)) + os.sep)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not os.path.abspath(frame.filename).startswith(outside) and not frame.filename.startswith("<")
              and "contextlib" not in frame.filename]
    if not frames:
        return ""
    last = frames[-1]
    code = f" ({last.line.strip()})" if last.line else ""
    return f"{os.path.basename(last.filename)}:{last.lineno}{code}: "


def bound(module: torch.nn.Module, args: Sequence[Any], kwargs: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any], List[str]]:
    """The arguments by position where the signature of `forward` allows it, the others by keyword, and the names of the former.

    So calls that differ in their spelling alone are one structure. Raises TypeError as the call would.
    """
    signature = inspect.signature(module.forward)
    given = signature.bind(*args, **kwargs)
    names: List[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and name in given.arguments:
            names.append(name)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            names.extend(f"{name}.{i}" for i in range(len(given.arguments.get(name, ()))))
    return given.args, given.kwargs, names[:len(given.args)]
