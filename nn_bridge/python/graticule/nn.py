# SPDX-License-Identifier: BSD-3-Clause
"""Layers of sharded fields. Those of torch.nn have its arguments and parameters, and `domain`.

`padding_by`, where a layer has it: values beyond the edges of the globe by torch.nn's rule ("mode") or by the domain ("domain":
poles, periodic longitude). `odd_channels`, with "domain": components of vectors, which change sign across a pole.
All forwards are collective; the ranks' calls are compared, and a disagreement is one error on all ranks.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

import torch as _torch
from torch import nn as _nn

from ._domain import Domain
from ._errors import Error as _Error
from ._layer import TorchLayer
from ._library import uncompiled
from ._losses import (BCEWithLogitsLoss, CRPSLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss,
                      PoissonNLLLoss, SmoothL1Loss, SpectralLoss)
from ._native import (AllSum, AllToAll, Broadcast, ChannelSplitConv1d, ChannelSplitConv2d, ChannelSplitConv3d,
                      ConservationFixer, CoordinateFeatures, CopyToRegion, DropPath, FourierConvolution, FourierTransform, Gather,
                      GlobalMean, HaloExchange, LevelEmbedding, Linear, MatchCuts, PaddedHaloExchange, PositionEmbedding,
                      ReduceScatter, Repartition, Scatter, SelfAttention, SphericalConvolution, SphericalTransform,
                      SumToRoot, TimeEmbedding, WindowAttention)
from ._shard import OF_TORCH, RANDOM, _BASE, Forward

__all__ = ["AllSum", "AllToAll", "BCEWithLogitsLoss", "Broadcast", "CRPSLoss", "ChannelSplitConv1d",
           "ChannelSplitConv2d", "ChannelSplitConv3d", "ConservationFixer", "CoordinateFeatures", "CopyToRegion",
           "CrossEntropyLoss", "DropPath", "FourierConvolution", "FourierTransform", "Gather", "GlobalMean",
           "HaloExchange", "HuberLoss", "KLDivLoss", "L1Loss", "LevelEmbedding", "Linear", "MSELoss", "MatchCuts",
           "NLLLoss", "Pad1d", "Pad2d", "Pad3d", "PaddedHaloExchange", "PoissonNLLLoss", "PositionEmbedding",
           "ReduceScatter", "Repartition", "Resize", "Scatter", "SelfAttention", "SmoothL1Loss", "SpectralLoss",
           "SphericalConvolution", "SphericalTransform", "SumToRoot", "TimeEmbedding", "Trim1d", "Trim2d", "Trim3d",
           "WindowAttention"]

_BY_DOMAIN = ("Conv", "ConvTranspose", "MaxPool", "AvgPool", "LPPool", "Upsample")
_LAST_AXES = ("LayerNorm", "RMSNorm")


def _options(name: str) -> List[str]:
    """Arguments that torch.nn's layer does not have."""
    extra = ["padding_by", "odd_channels"] if name.rstrip("123d") in _BY_DOMAIN else []
    extra += ["seed", "layer", "first_sample"] if name in RANDOM else []
    return extra + (["sharding_axes"] if name in _LAST_AXES or name in ("Dropout", "AlphaDropout") else [])


def _of_torch(name: str) -> type:
    """torch.nn's layer with a domain."""
    serial = getattr(_nn, name)
    extra = _options(name)

    def __init__(self, *args: Any, domain: Domain, **kwargs: Any) -> None:
        options = {key: kwargs.pop(key) for key in extra if key in kwargs}
        serial.__init__(self, *args, **kwargs)
        if name in RANDOM:
            options.setdefault("layer", _next_layer())
        options = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}
        _check_odd(name, options.get("odd_channels"), "padding_by", options.get("padding_by", "mode"))
        self.__dict__["_graticule_layer"] = TorchLayer(_BASE.get(name, name), "", domain, options)
        self.__dict__["_graticule_layer"].make(self)

    return type(name, (Forward, serial), {
        "__init__": __init__, "__module__": __name__, "__qualname__": name,
        "__doc__": f"`torch.nn.{name}` of the whole field. Its arguments, and domain" + "".join(f", {e}" for e in extra) + "."})


def _check_odd(name: str, odd_channels: Optional[Sequence[int]], option: str, value: str) -> None:
    if odd_channels is not None and len(odd_channels) > 0 and value != "domain":
        raise _Error("BadOption", f"{name}: odd_channels = {list(odd_channels)} with {option} = {value!r}: signs change across a pole, which "
                     f"only {option} = 'domain' knows", "argument")


_layers = 0


def _next_layer() -> int:
    """Masks of a dropout that names no `layer`: in order of construction."""
    global _layers
    _layers += 1
    return _layers


if TYPE_CHECKING:
    from . import _of_torch  # for type checkers and editors; made by scripts/bindings --stubs
    from ._of_torch import *
    __all__ += _of_torch.__all__
else:
    __all__ += OF_TORCH
    globals().update({_name: _of_torch(_name) for _name in OF_TORCH})


class _Fixed(_nn.Module):
    """A layer without parameters that torch.nn lacks."""

    def __init__(self, kind: str, domain: Domain, **options: Any) -> None:
        super().__init__()
        options = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items() if value is not None}
        self.__dict__["_graticule_layer"] = TorchLayer(kind, "", domain, options)
        self.__dict__["_graticule_layer"].make(self)

    @uncompiled
    def forward(self, x: _torch.Tensor) -> _torch.Tensor:
        """Collective. x: this rank's shard."""
        return self.__dict__["_graticule_layer"].call(self, "forward", x)


class Resize(_Fixed):
    """`torch.nn.functional.interpolate` of the whole field. `forward_like(x, like)` takes sizes and cuts from another field.

    size: of the whole field, one per axis, -1 for the input's. Other arguments as torch's. Errors: BadOption,
    Unsupported, LongitudeIsCut.
    """

    def __init__(self, domain: Domain, size: Optional[Sequence[int]] = None, scale_factor: Any = None, mode: str = "nearest",
                 align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None, padding_by: str = "mode",
                 odd_channels: Sequence[int] = ()) -> None:
        _check_odd("Resize", odd_channels, "padding_by", padding_by)
        super().__init__("Resize", domain, size=size, scale_factor=scale_factor, mode=mode, align_corners=align_corners,
                         recompute_scale_factor=recompute_scale_factor, padding_by=padding_by, odd_channels=list(odd_channels))

    @uncompiled
    def forward_like(self, x: _torch.Tensor, like: _torch.Tensor) -> _torch.Tensor:
        """Collective. The sizes and cuts of `like`."""
        return self.__dict__["_graticule_layer"].call(self, "forward_like", x, like)


class _Pad(_Fixed):
    def __init__(self, padding: Union[int, Sequence[int]], domain: Domain, mode: str = "constant", value: float = 0.0,
                 cuts: str = "extend_edges", odd_channels: Sequence[int] = ()) -> None:
        _check_odd(type(self).__name__, odd_channels, "mode", mode)
        super().__init__(type(self).__name__, domain, padding=padding, mode=mode, value=value, cuts=cuts,
                         odd_channels=list(odd_channels))


class Pad1d(_Pad):
    """Pads the whole field, not the shards. padding: widths in torch's order, the last axis first; negative ones crop.

    mode: "constant", "reflect", "replicate", "circular", or "domain" (poles and the date line). cuts: who owns the padding:
    "extend_edges" or "balanced". Errors: BadHaloWidth, LongitudeIsCut.
    """


class Pad2d(_Pad):
    """As `Pad1d`, for [batch, channels, rows, columns]: west, east, north, south."""


class Pad3d(_Pad):
    """As `Pad1d`, with levels before the rows."""


class _Trim(_Fixed):
    def __init__(self, padding: Union[int, Sequence[int]], domain: Domain) -> None:
        super().__init__(type(self).__name__, domain, padding=padding)


class Trim1d(_Trim):
    """Removes widths from the edges of the whole field: the inverse of a pad. Errors: BadHaloWidth."""


class Trim2d(_Trim):
    """As `Trim1d`, for [batch, channels, rows, columns]."""


class Trim3d(_Trim):
    """As `Trim1d`, with levels before the rows."""


__all__ = sorted(name for name, value in list(globals().items())
                 if isinstance(value, type) and issubclass(value, _nn.Module) and not name.startswith("_"))
