# SPDX-License-Identifier: BSD-3-Clause
"""Modules whose forward is a C++ layer."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn

from . import _casts, _core
from ._cuts import Active, NotSharded, cuts, follow, mark
from ._domain import AxisPart, Domain
from ._errors import Error, tensor_of
from ._library import require_eager, start
from ._placed import at

_OPTIONS = (type(None), bool, int, float, str, tuple)
_STATE = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


class TorchLayer:
    """The sharded forward of one torch.nn module, which keeps its parameters and buffers.

    C++ layers are made at the first call, so that copies of a model have layers of their own: one for each way in which fields are
    cut that the module is called with in turn, because a shard that changes on some ranks only is an error there.
    """

    _capacity = 8

    def __init__(self, type_name: str, path: str, domain: Domain, options: Dict[str, Any]) -> None:
        self.type, self.path, self.domain, self.options = type_name, path, domain, options
        self._made: Dict[Any, _core.Layer] = {}
        self._numbers: Dict[Any, int] = {}  # of cuts, the earliest first
        self._results: Dict[Any, Any] = {}
        self._watch: Optional[Any] = None  # of the attributes that the layers are made of

    def __deepcopy__(self, memo: dict) -> "TorchLayer":
        return TorchLayer(self.type, self.path, self.domain, self.options)

    def _number(self, of: Any) -> int:
        """Of the layers for inputs with these cuts, which all ranks know."""
        if of not in self._numbers:
            number = len(self._numbers)
            if number == self._capacity:
                number = self._numbers.pop(next(iter(self._numbers)))
                for (others, _), layer in self._made.items():
                    if others == number:
                        layer.reset_structure()
            self._numbers[of] = number
        return self._numbers[of]

    def make(self, module: nn.Module, number: int = 0, **changes: Any) -> _core.Layer:
        """A C++ layer of the module's present attributes; options and `changes` replace some of them."""
        if self._watch is None or not self._watch.unchanged():
            self._made.clear()
            self._results.clear()
            own = module.__dict__
            self._watch = _core.WatchValues([(own, name, value) for name, value in own.items() if isinstance(value, _OPTIONS) and name != "training"])
        key = (number, tuple(sorted(changes.items())))
        found = self._made.get(key)
        if found is None:
            values = {**self.options, **changes}
            if self.type.startswith("Conv"):
                values["bias"] = module.bias is not None
            for name in ("affine", "elementwise_affine"):
                if getattr(module, name, False):  # a module may have given up its parameters
                    values[name] = any(getattr(module, held, None) is not None for held in ("weight", "bias"))
            found = self._made[key] = _core.Layer.of_torch(self.type, values, self.domain._object, module)
        return found

    def call(self, module: nn.Module, method: str, *inputs: Optional[torch.Tensor], **changes: Any) -> Any:
        """Collective."""
        what = f"{self.path} ({self.type})" if self.path else self.type
        require_eager(what)
        for x in inputs:
            if x is not None and not isinstance(x, torch.Tensor):
                refuse_call(self.make(module), self.path, method, len(inputs))
                tensor_of(x, what)
        if self.type in ("Upsample", "Resize"):
            changes.update(self._sizes(module, inputs[0]))
        layer = self.make(module, self._number(tuple(cuts(x) for x in inputs)), **changes)

        def run() -> Any:
            state = _state(module, self.type)
            outputs = _casts.of_torch(self.type, {**self.options, **changes, **_modes(module)}, inputs, state, lambda given, held: tuple(
                layer.call(self.path, method, given, held, module.training)))
            return outputs[0] if len(outputs) == 1 else outputs

        key = (method, tuple(sorted(changes.items())), tuple(cuts(x) for x in inputs[1:]))
        return follow(self._results, key, self.domain, inputs[0], run)

    def _sizes(self, module: nn.Module, x: Optional[torch.Tensor]) -> Dict[str, Any]:
        """One size or factor for each spatial axis where one is given for all."""
        given = {name: getattr(module, name, self.options.get(name)) for name in ("size", "scale_factor")}
        axes = 0 if x is None else x.dim() - 2
        return {name: (value,) * axes for name, value in given.items() if isinstance(value, (int, float))}

    def reset_structure(self) -> None:
        """For other cuts at the next call."""
        self._results.clear()
        self._numbers.clear()
        for layer in self._made.values():
            layer.reset_structure()


def _state(module: nn.Module, type_name: str) -> List[Optional[torch.Tensor]]:
    """Parameters and buffers. A norm that has one of weight and bias gets the other as what changes nothing."""
    state = [getattr(module, name, None) for name in _STATE]
    weight, bias = state[:2]
    if "Norm" in type_name and type_name != "RMSNorm" and (weight is None) != (bias is None):
        state[:2] = (torch.ones_like(bias), bias) if weight is None else (weight, torch.zeros_like(weight))
    return state


def _modes(module: nn.Module) -> Dict[str, Any]:
    return {"mode": module.mode} if isinstance(getattr(module, "mode", None), str) else {}


def refuse_call(layer: _core.Layer, path: str, method: str, count: int) -> None:
    """Calls a layer without tensors, which it refuses: so the other ranks, which may wait in it, get an error too. Collective."""
    with torch._C.DisableTorchFunction():
        try:
            layer.call(path, method, [None] * count, [None] * 5, True)
        except RuntimeError:
            pass  # the caller's own error follows


class NativeLayer(nn.Module):
    """A layer of graticule. Its parameters are the tensors of the C++ layer, under their names there.

    Optimizers, `load_state_dict`, `to` and all that changes parameters in place work as for other modules. A parameter that
    is replaced by another tensor is refused at the next forward: ParametersChanged.
    """

    _serial_without_domain = False
    _keeps_cuts = False  # a field in, a field with the same cuts out

    def __init__(self, domain: Optional[Domain] = None, **options: Any) -> None:
        super().__init__()
        if domain is None and not self._serial_without_domain:
            raise Error("WrongState", f"{type(self).__name__} needs a domain", "argument")
        start()
        self.__dict__["_options"] = {name: _plain(value) for name, value in options.items() if value is not None}
        self._connect(domain)

    def _connect(self, domain: Optional[Domain]) -> None:
        of = _core.Domain.serial() if domain is None else domain._object
        layer = _core.Layer.native(type(self).__name__, self._options, of)
        self.__dict__.update(_layer=layer, _domain=domain, _own={})
        for name, tensor in layer.parameters():
            needs = tensor.requires_grad
            tensor.__class__ = nn.Parameter
            tensor.requires_grad_(needs)
            _place(self, name, tensor)
            self._own[name] = tensor
        for name, tensor in layer.buffers():
            module, last = parent_of(self, name)
            module.register_buffer(last, tensor)

    @property
    def domain(self) -> Optional[Domain]:
        """The ranks that share a sample; None for a layer that is serial until `shard` moves it to the model's domain."""
        return self._domain

    def _layer_communicates(self) -> bool:
        return self._layer.communicates

    def _move_to(self, domain: Domain) -> None:
        self._layer.move_to(domain._object)
        self.__dict__["_domain"] = domain

    def reset_structure(self) -> None:
        """For other cuts at the next forward; on all ranks."""
        self._layer.reset_structure()

    def _call(self, method: str, *inputs: Optional[torch.Tensor]) -> torch.Tensor:
        require_eager(type(self).__name__)
        for x in inputs:
            if x is not None and not isinstance(x, torch.Tensor):
                refuse_call(self._layer, "", method, len(inputs))
                tensor_of(x, type(self).__name__)
        inputs = tuple(self._as_field(x) for x in inputs)
        for name, tensor in self._own.items():
            if _find(self, name) is not tensor:
                raise Error("ParametersChanged", f"{type(self).__name__}.{name} is another tensor than at first: copy values "
                            "into it instead", "argument")
        with torch._C.DisableTorchFunction():
            y = _casts.native(type(self).__name__, list(self._own.values()), inputs, lambda given: self._layer.call(
                "", method, given, [None] * 5, self.training)[0])
            if Active.mode is not None and self._keeps_cuts and y.shape[-2:] == inputs[0].shape[-2:]:
                mark(y, cuts(inputs[0]))
            return y

    def _as_field(self, x: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
        """What is cut otherwise, in the cuts of fields of its extents."""
        where = at(x)
        y = x if where is None or Active.mode is None else Active.mode.as_field(x)
        if at(y) is not None:
            raise NotSharded(f"{type(self).__name__} of graticule.nn needs a field, [..., rows, columns]: its input is "
                             f"{list(where.shape)} on the globe, cut along axis {where.axis}")
        return y

    def _part(self, name: str, axis: int = 0) -> AxisPart:
        part, sizes = self._layer.part(name, axis)
        return AxisPart(part, tuple(sizes))

    def __deepcopy__(self, memo: dict) -> "NativeLayer":
        copy = type(self).__new__(type(self))
        nn.Module.__init__(copy)
        copy.__dict__["_options"] = self._options
        copy._connect(self._domain)
        copy.train(self.training)
        mine, theirs = dict(self.named_parameters()), dict(copy.named_parameters())
        for name, parameter in mine.items():
            theirs[name].data = parameter.detach().clone()
            theirs[name].requires_grad_(parameter.requires_grad)
            memo[id(parameter)] = theirs[name]
        return copy

    def __reduce_ex__(self, protocol: int):
        raise TypeError(f"{type(self).__name__} belongs to its ranks: save the state_dict() of the model")

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._options.items() if not isinstance(value, list))


def _plain(value: Any) -> Any:
    """Lists of numbers for numpy arrays and tensors."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, (tuple, range)) else value


def parent_of(module: nn.Module, name: str) -> Tuple[nn.Module, str]:
    """The module that holds what has this name, made where it is missing, and the last part of the name."""
    *parents, last = name.split(".")
    for part in parents:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]  # type: ignore[assignment]
    return module, last


def _place(module: nn.Module, name: str, tensor: nn.Parameter) -> None:
    parent, last = parent_of(module, name)
    parent.register_parameter(last, tensor)


def _find(module: nn.Module, name: str) -> Optional[torch.Tensor]:
    *parents, last = name.split(".")
    for part in parents:
        module = module._modules[part]
    return module._parameters.get(last)


def layers_of(module: nn.Module) -> List[Any]:
    """All objects in a model that remember how their input is cut."""
    found: List[Any] = []
    for part in module.modules():
        if isinstance(part, NativeLayer):
            found.append(part)
        elif "_graticule_layer" in part.__dict__:
            found.append(part.__dict__["_graticule_layer"])
        if "_graticule_code" in part.__dict__:
            found.append(part.__dict__["_graticule_code"])
    return found
