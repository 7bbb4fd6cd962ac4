# SPDX-License-Identifier: BSD-3-Clause
"""torch.autocast for sharded layers: the types that torch.nn's layer would have, found by a call of its function on four cells."""
from __future__ import annotations

import contextlib
import re
import warnings
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F

_results: Dict[Any, torch.dtype] = {}
# Layers of graticule.nn whose products of matrices autocast runs in its type; and those it runs in f32.
_PRODUCTS = {"SelfAttention", "WindowAttention", "Linear", "ChannelSplitConv1d", "ChannelSplitConv2d", "ChannelSplitConv3d"}
_WIDE = {"FourierTransform", "FourierConvolution", "SphericalTransform", "SphericalConvolution"}


def is_on(x: Any) -> bool:
    """Whether autocast acts on a tensor."""
    return isinstance(x, torch.Tensor) and torch.is_autocast_enabled(x.device.type) and x.is_floating_point() and x.dtype is not torch.double


def off(x: torch.Tensor) -> ContextManager[Any]:
    """Without autocast: the layer's own calls are in the types that were chosen."""
    return torch.autocast(x.device.type, enabled=False) if torch.is_autocast_enabled(x.device.type) else contextlib.nullcontext()


def _functions(kind: str, d: int, of: Optional[torch.dtype], options: Dict[str, Any], x: torch.Tensor) -> Optional[Callable[[], torch.Tensor]]:
    """torch's function of a layer, on a small tensor."""
    def state(*sizes: int) -> torch.Tensor:
        return x.new_ones(sizes, dtype=of or x.dtype)

    if kind == "Pad" or kind.endswith("Pad"):
        modes = {"ReflectionPad": "reflect", "ReplicationPad": "replicate", "CircularPad": "circular"}
        mode = options.get("mode", modes.get(kind, "constant"))
        return lambda: F.pad(x, [1] * (2 * d), mode="constant" if mode == "domain" else mode)
    if kind in ("Upsample", "Resize"):
        return lambda: F.interpolate(x, scale_factor=2.0, mode=options.get("mode", "nearest"))
    named: Dict[str, Callable[[], torch.Tensor]] = {
        "Conv": lambda: getattr(F, f"conv{d}d")(x, state(4, 4, *[1] * d)),
        "ConvTranspose": lambda: getattr(F, f"conv_transpose{d}d")(x, state(4, 4, *[1] * d)),
        "BatchNorm": lambda: F.batch_norm(x, None, None, state(4), state(4), training=True),
        "InstanceNorm": lambda: F.instance_norm(x, None, None, None if of is None else state(4), None if of is None else state(4)),
        "GroupNorm": lambda: F.group_norm(x, 2, state(4), state(4)),
        "LayerNorm": lambda: F.layer_norm(x, (4,), state(4), state(4)), "RMSNorm": lambda: F.rms_norm(x, (4,), state(4)),
        "LocalResponseNorm": lambda: F.local_response_norm(x, 2),
        "MaxPool": lambda: getattr(F, f"max_pool{d}d")(x, 2), "AvgPool": lambda: getattr(F, f"avg_pool{d}d")(x, 2),
        "LPPool": lambda: getattr(F, f"lp_pool{d}d")(x, 2.0, 2), "AdaptiveAvgPool": lambda: getattr(F, f"adaptive_avg_pool{d}d")(x, 2),
        "AdaptiveMaxPool": lambda: getattr(F, f"adaptive_max_pool{d}d")(x, 2),
        "MaxUnpool": lambda: getattr(F, f"max_unpool{d}d")(x, torch.zeros_like(x, dtype=torch.long), 1)}
    return named.get(kind)


def type_of(name: str, x: torch.Tensor, of: Optional[torch.dtype], options: Dict[str, Any]) -> torch.dtype:
    """The type of the result of torch.nn's layer under the autocast that is on."""
    kind, d = re.sub(r"[123]d$", "", name), x.dim() - 2
    key = (name, d, x.dtype, of, x.device.type, torch.get_autocast_dtype(x.device.type), options.get("mode"))
    if key not in _results:
        with torch._C.DisableTorchFunction(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = _functions(kind, d, of, options, torch.ones([1, 4, *[4] * d], dtype=x.dtype, device=x.device))
            try:
                _results[key] = x.dtype if call is None else call().dtype
            except (RuntimeError, NotImplementedError, AttributeError, ValueError):
                _results[key] = x.dtype  # which torch.nn's layer refuses as well
    return _results[key]


def _to(x: Any, dtype: torch.dtype) -> Any:
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype is not torch.double else x


def of_torch(name: str, options: Dict[str, Any], inputs: Sequence[Any], state: Sequence[Optional[torch.Tensor]],
             run: Callable[[List[Any], List[Any]], Tuple[torch.Tensor, ...]]) -> Tuple[torch.Tensor, ...]:
    """Runs the sharded layer of a layer of torch.nn as autocast runs that. A norm computes in the type of its weights."""
    x = inputs[0]
    if not is_on(x):
        with off(x) if isinstance(x, torch.Tensor) else contextlib.nullcontext():
            return run(list(inputs), list(state))
    held = next((s.dtype for s in state if s is not None and s.is_floating_point()), None)
    result = type_of(name, x, held, options)
    compute = result if name.startswith("Conv") or held is None else held
    parameters = [_to(s, compute) if name.startswith("Conv") else s for s in state]
    with off(x):
        outputs = run([_to(i, compute) for i in inputs], parameters)
        return tuple(_to(y, result) for y in outputs)


def native(name: str, parameters: Sequence[torch.Tensor], inputs: Sequence[Any], run: Callable[[List[Any]], torch.Tensor]) -> torch.Tensor:
    """Runs a layer of graticule.nn, which computes in the type of its own parameters, or in f32 where autocast does."""
    x = inputs[0]
    if not is_on(x):
        with off(x) if isinstance(x, torch.Tensor) else contextlib.nullcontext():
            return run(list(inputs))
    held = next((p.dtype for p in parameters if p.is_floating_point()), torch.float32 if name in _WIDE or name.endswith("Loss") else None)
    with off(x):
        y = run([i if held is None else _to(i, held) for i in inputs])
    return _to(y, torch.get_autocast_dtype(x.device.type)) if name in _PRODUCTS else y
