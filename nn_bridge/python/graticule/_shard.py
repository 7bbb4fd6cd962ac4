# SPDX-License-Identifier: BSD-3-Clause
"""Gives the layers of a PyTorch model sharded forwards, in place."""
from __future__ import annotations

import dataclasses
import functools
import zlib
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from . import _core
from ._capture import prefer_operators
from ._cuts import Active, NotSharded, cuts, extents, is_of_cells, is_whole, mark_whole
from ._domain import Domain
from ._entry import run_code
from ._errors import Error
from ._joins import guard_functions, guard_scripts
from ._layer import NativeLayer, TorchLayer, layers_of
from ._library import uncompiled
from ._outside import guard_backward
from ._placed import at, mark_of
from ._recompute import guard_checkpoints
from ._training import expect_reductions


@dataclasses.dataclass(frozen=True)
class ShardedModule:
    """What became of one module.

    verdict: "sharded" (has a sharded forward), "local" (correct as it is), "functions" (its functions are planned when they run),
    "children only" (the same, and its children were examined) or "refused".
    """
    path: str
    type: str
    verdict: str
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class ShardReport:
    """The modules of a model, depth first."""
    modules: Tuple[ShardedModule, ...]

    def num(self, verdict: str) -> int:
        """Modules with a verdict."""
        return sum(m.verdict == verdict for m in self.modules)

    def text(self) -> str:
        """One line per module, as C++ `ShardReport::text` writes it."""
        lines = [("path", "type", "verdict", "why")] + [(m.path or ".", m.type, m.verdict, m.reason) for m in self.modules]
        wide = [max(len(line[i]) for line in lines) + 2 for i in range(3)]
        return "".join(f"{path:{wide[0]}}{kind:{wide[1]}}{verdict:{wide[2]}}{why}".rstrip() + "\n" for path, kind, verdict, why in lines)


_CONTAINERS = {"Sequential", "ModuleList", "ModuleDict"}
_PARAMETERS = {"ParameterList", "ParameterDict"}
# What a class may define without being another layer.
_FREE = {"__init__", "__module__", "__doc__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "__constants__", "__repr__",
         "__deepcopy__", "__getstate__", "__firstlineno__", "__static_attributes__", "__parameters__", "__orig_bases__", "extra_repr",
         "reset_parameters", "_graticule_made"}
_OWN_CODE = "planned when it runs"


_BASE = {"UpsamplingNearest2d": "Upsample", "UpsamplingBilinear2d": "Upsample"}
#: Those that drop values at random.
RANDOM = ("Dropout", "Dropout2d", "Dropout3d", "AlphaDropout")
#: The layers of torch.nn that have a sharded counterpart.
OF_TORCH = tuple(sorted(name for name in (*_core.serial_types(), *_BASE) if hasattr(nn, name)))


class Forward:
    """The forward of a torch.nn layer on shards, for its class."""

    @uncompiled
    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        layer: TorchLayer = self.__dict__["_graticule_layer"]
        if at(x) is not None:
            x = Active.mode.as_field(x)
        if Active.mode is not None and isinstance(x, torch.Tensor) and cuts(x) is None and (at(x) or is_whole(x) or x.dim() <= 2):
            if at(x) is not None and layer.options.get("padding_by") == "domain" and hasattr(self, "padding"):
                raise NotSharded(f"{layer.path} ({layer.type}) with padding by the domain needs a field, [..., rows, columns]: its input is "
                                 f"{list(at(x).shape)} on the globe, cut along axis {at(x).axis}")
            if layer.type in RANDOM:
                return _drop(self, layer, super().forward, x)
            y = super().forward(x, *args, **kwargs)  # of its functions, which are seen; of what is whole, all of it is on each rank
            return mark_whole(y) if isinstance(y, torch.Tensor) and mark_of(y) is None else y
        output_size = kwargs.get("output_size", args[0] if args else None)
        if output_size is not None:
            if layer.type.startswith("MaxUnpool"):
                return layer.call(self, "forward", x, output_size)  # its second argument: the indices
            return layer.call(self, "forward", x, output_padding=_output_padding(self, layer, x, output_size))
        return layer.call(self, "forward_with_indices" if getattr(self, "return_indices", False) else "forward", x)

    @uncompiled
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """The output with the sizes and the cuts of `like`: transposed convolutions and `Upsample`. Collective."""
        return self.__dict__["_graticule_layer"].call(self, "forward_like", x, like)


def _drop(module: Any, layer: TorchLayer, forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """A dropout of a tensor that is cut along any axis: the values that the layer would drop of a field. Of whole ones that no shard
    has entered: PyTorch's."""
    mode, p = Active.mode, module.p
    if at(x) is None and not is_of_cells(x):
        return mark_whole(forward(x))
    if not module.training or p == 0:
        return x
    mode.masks = (layer.options.get("seed") or 0, layer.options.get("layer") or 0)
    try:
        if layer.type == "Dropout":
            return forward(x)
        channels = layer.type != "AlphaDropout"
        if channels and x.dim() != int(layer.type[-2]) + 2:
            return forward(x)  # of one sample: of whole tensors by PyTorch's numbers, of shards refused by the function
        cells = x[(..., *[0] * (x.dim() - 2))] if channels else x
        kept = nn.functional.dropout((cells != cells).to(x.dtype) * 0 + 1, p)  # ones that are cut as x
    finally:
        mode.masks = None
    if channels:
        factor, shift = kept[(..., *[None] * (x.dim() - 2))], 0.0
    else:  # as in AlphaDropoutImpl::forward
        alpha = 1.7580993408473766
        mask, a = (kept != 0).to(x.dtype), 0.0 if p == 1 else ((alpha * alpha * p + 1) * (1 - p)) ** -0.5
        factor, shift = (mask, 0.0) if p == 1 else (mask * a, (mask - 1) * (alpha * a) + alpha * a * p)
    return x.mul_(factor).add_(shift) if module.inplace else x * factor + shift


def _output_padding(module: Any, layer: TorchLayer, x: torch.Tensor, output_size: Sequence[int]) -> Tuple[int, ...]:
    of = cuts(x)
    if of is None:
        raise NotSharded(f"{layer.path} ({layer.type}): output_size needs a call within the model given to shard; forward_like does not")
    with torch._C.DisableTorchFunction():
        whole = torch.empty([*x.shape[:-2], *extents(of)], device="meta")
        dims = len(module.kernel_size)
        return tuple(module._output_padding(whole, list(output_size), module.stride, module.padding, module.kernel_size, dims,
                                            module.dilation))


@functools.lru_cache(maxsize=None)
def _layer_class(base: type) -> type:
    return type(base.__name__, (Forward, base), {"__module__": base.__module__, "__doc__": base.__doc__})


def torch_type(module: nn.Module) -> str:
    """The layer of torch.nn that a module is: of its class, or of a class that changes no function that torch.nn's calls; or ""."""
    kind = type(module)
    own = [name for name in ("parametrizations",) if parametrize.is_parametrized(module)]
    for base in kind.__mro__:
        if getattr(nn, base.__name__, None) is base:
            changed = set().union(*(vars(k) for k in kind.__mro__[:kind.__mro__.index(base)])) - _FREE
            held = set(module.parametrizations) if own else set()
            return "" if base is nn.Module or any(hasattr(base, name) and name not in held for name in changed) else base.__name__
    return ""


def is_parametrizations(module: nn.Module, child: str) -> bool:
    """Whether a child holds parametrizations of the module's parameters."""
    return child == "parametrizations" and parametrize.is_parametrized(module)


class _Sharder:
    def __init__(self, domain: Domain, local: Sequence[str], padding: str, seed: int, shardings: Mapping[str, Sequence[int]],
                 whole: Sequence[str]) -> None:
        self.domain, self.local, self.shardings, self.whole = domain, set(local), shardings, tuple(whole)
        self.options = {"padding_by": padding, "seed": seed}
        self.report: List[ShardedModule] = []
        self.changes: List[Callable[[], None]] = []

    def add(self, path: str, kind: str, verdict: str, reason: str = "") -> None:
        self.report.append(ShardedModule(path, kind, verdict, reason))

    def visit(self, module: nn.Module, path: str) -> None:
        kind, name = torch_type(module), type(module).__name__
        if path and (path in self.local or name in self.local):
            return self.add(path, name, "local", "named in `local`")
        if "_graticule_layer" in module.__dict__:
            return self.add(path, name, "local", "is sharded")
        if any(is_lazy(t) for t in (*module._parameters.values(), *module._buffers.values())):
            return self.add(path, name, "refused", "is lazy: its parameters have no sizes before a first call. Call the serial model once, with "
                                                   "a small field, before shard")
        if isinstance(module, torch.jit.ScriptModule):
            return self.add(path, name, "refused", "is a module of torch.jit.script: what it does with a shard cannot be seen; use the module that it is made of")
        if isinstance(module, NativeLayer):
            return self.visit_native(module, path, name)
        if kind in _CONTAINERS:
            self.add(path, name, "children only")
            if kind == "Sequential":
                self.changes.append(lambda: run_code(module, self.domain, self.whole))
        elif kind in _PARAMETERS:
            return self.add(path, name, "local", "holds parameters")
        elif kind in OF_TORCH and not kind.startswith("MaxUnpool"):
            return self.visit_layer(module, path, kind)
        else:
            own = any(True for _ in module.children())
            self.add(path, name, "children only" if own else "functions", _OWN_CODE)
            if kind and path and not own:
                return  # an activation of torch.nn, which other models may share: seen within the forward of this one
            self.changes.append(lambda: run_code(module, self.domain, self.whole))
        for child, part in module.named_children():
            if not isinstance(part, parametrize.ParametrizationList) and not is_parametrizations(module, child):
                self.visit(part, f"{path}.{child}" if path else child)

    def visit_native(self, module: NativeLayer, path: str, name: str) -> None:
        if module.domain is None and module._layer_communicates():
            self.changes.append(lambda: module._move_to(self.domain) if module.domain is None else None)
            return self.add(path, name, "sharded", "a layer of graticule.nn, made without a domain")
        self.add(path, name, "local", "a layer of graticule.nn")

    def visit_layer(self, module: nn.Module, path: str, kind: str) -> None:
        name = type(module).__name__
        if getattr(module, "return_indices", False):
            return self.add(path, name, "refused", "return_indices: the indices are those of the whole field; use graticule.nn")
        options = {**self.options, "layer": zlib.crc32(path.encode())}
        if path in self.shardings:
            options["sharding_axes"] = list(self.shardings[path])
        layer = TorchLayer(_BASE.get(kind, kind), path, self.domain, options)
        try:
            layer.make(module)
        except RuntimeError as error:
            return self.add(path, name, "refused", str(error).splitlines()[0])
        self.changes.append(lambda: give_layer(module, layer))
        self.add(path, name, "sharded")


def give_layer(module: nn.Module, layer: TorchLayer) -> None:
    """Gives a module of torch.nn its sharded forward, once."""
    if "_graticule_layer" not in module.__dict__:
        module.__dict__["_graticule_layer"] = layer
        module.__class__ = _layer_class(type(module))


def shard(model: nn.Module, domain: Domain, *, local: Sequence[str] = (), padding: str = "mode", seed: int = 0,
          shardings: Optional[Mapping[str, Sequence[int]]] = None, whole: Sequence[str] = (), on_refusal: str = "fail") -> ShardReport:
    """Gives the layers of a PyTorch model sharded forwards, in place. Collective.

    Parameters and buffers stay the same tensors with the same names, so optimizers and files stay valid. The model's own code
    runs as it is, in forward and in all methods that are called with tensors of two axes or more: such calls are collective. Where
    it joins fields with other cuts, they are moved to the cuts that fields of this size had first; sizes are those of the globe; a
    function that would be wrong on a shard is refused by name when it is called. Shards are found in dicts, lists, tuples,
    dataclasses and objects; a tensor with the same values on all ranks is whole.

    local: paths or types that are correct on shards as they are, with their children. padding: values beyond the edges of the
    globe by PyTorch's padding "mode", or by the "domain" (poles, periodic longitude). seed: of dropout masks. shardings: the
    cut axes of layers with another order of axes, for normalisations over the last axes and `Dropout`: {"norm": (-3, -2)}.
    whole: names of arguments, or of what they hold ("batch.tokens"), that are no fields, as `graticule.whole` says of one tensor.
    on_refusal: "fail" or "report".
    Raises NotSharded, on all ranks, with path, type and reason of every refused module; the model is left as it was.
    Errors: ArgumentDisagreement where ranks hold different models, BadOption; in calls ReplicaMismatch where parameters, or buffers
    of torch.nn's layers, differ between ranks.
    """
    if not isinstance(model, nn.Module) or not isinstance(domain, Domain):
        raise TypeError(f"shard takes a torch.nn.Module and a graticule.Domain, not {type(model).__name__} and {type(domain).__name__}")
    for name, value, allowed in (("padding", padding, ("mode", "domain")), ("on_refusal", on_refusal, ("fail", "report"))):
        if value not in allowed:
            raise Error("BadOption", f"{name} = {value!r} is none of {', '.join(map(repr, allowed))}", "argument")
    sharder = _Sharder(domain, local, padding, seed, shardings or {}, (whole,) if isinstance(whole, str) else whole)
    sharder.visit(model, "")
    first = sharder.report[0]
    if first.verdict in ("sharded", "local"):
        sharder.report = [dataclasses.replace(first, verdict="refused",
                                              reason="a single layer: put it into a Sequential, or use the layer of graticule.nn")]
    report = ShardReport(tuple(sharder.report))
    parts = {path: module for path, module in model.named_modules() if torch_type(module)}
    state = "".join(f"{name} {() if is_lazy(p) else tuple(p.shape)} {p.dtype}\n" for name, p in model.named_parameters())
    options = "".join(f"{m.path}: {parts[m.path].extra_repr()}\n" for m in report.modules if m.verdict == "sharded" and m.path in parts)
    domain._object.require_same("ArgumentDisagreement", report.text() + state + options)
    refused = [m for m in report.modules if m.verdict == "refused"]
    if refused and on_refusal == "fail":
        raise NotSharded("; ".join(f"{m.path or 'the model'} ({m.type}): {m.reason}" for m in refused))
    guard_scripts()
    guard_functions()
    guard_checkpoints(domain)
    guard_backward()
    prefer_operators(model)
    for change in sharder.changes:
        change()
    run_code(model, domain, sharder.whole)
    expect_reductions(model, domain)
    return report


def reset_structure(model: nn.Module) -> None:
    """Forgets how fields were cut: the next forward may come with other cuts. On all ranks, between the same forwards."""
    for layer in layers_of(model):
        layer.reset_structure()


@dataclasses.dataclass(frozen=True)
class Trial:
    """Differences of a sharded model from the serial one, relative; infinite where sizes differ. text: a table of the calls."""
    output_difference: float
    gradient_difference: float
    text: str


@uncompiled
def try_sharded(reference: Callable[[torch.Tensor], torch.Tensor], sharded: Callable[[torch.Tensor], torch.Tensor],
                x: torch.Tensor, domain: Domain, cuts: Optional[Tuple[Sequence[int], Sequence[int]]] = None,
                tolerance: float = 1e-6) -> Trial:
    """Runs a model on the whole input on every rank and its sharded copy on shards, and compares, forward and backward.

    x: the whole input, equal on all ranks. cuts: sizes of rows and columns; default: balanced. Collective; for small inputs.
    """
    sizes = None if cuts is None else (list(cuts[0]), list(cuts[1]))
    return Trial(*_core.try_sharded(reference, sharded, x, domain._object, sizes, tolerance))
