# SPDX-License-Identifier: BSD-3-Clause
"""What the code of a sharded model does between its layers."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from . import _core, _cells
from ._cuts import Active, NotSharded, ask, cuts, extents, mark, tensors
from ._domain import Domain
from ._errors import Error
from ._layer import TorchLayer

# Along whole axes they are right on shards: along these alone they are let through, by their argument `dim`.
_OF_AXES = {"softmax", "log_softmax", "softmin", "cumsum", "cumprod", "flip", "sort", "normalize", "mean", "sum", "std", "var",
            "prod", "norm", "amax", "amin", "max", "min", "argmax", "argmin", "median", "logsumexp", "nansum", "nanmean",
            "all", "any", "topk", "unbind", "chunk", "split", "roll", "cosine_similarity", "vector_norm", "argsort", "cummax",
            "cummin", "logcumsumexp", "var_mean", "std_mean", "quantile", "nanquantile", "nanmedian", "kthvalue", "mode", "aminmax",
            "count_nonzero", "diff", "renorm", "gather", "index_select", "take_along_dim", "linalg_vector_norm"}
# Wrong on shards, or their arguments are sizes or axes of a whole field.
_REFUSED = {"layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm", "conv1d", "conv2d", "conv3d",
            "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "max_pool1d", "max_pool3d", "avg_pool1d", "avg_pool3d",
            "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "lp_pool2d",
            "pixel_shuffle", "pixel_unshuffle", "unfold", "fold", "grid_sample", "scaled_dot_product_attention",
            "multi_head_attention_forward", "dropout", "dropout2d", "alpha_dropout", "feature_dropout", "bernoulli",
            "rand_like", "randn_like", "randint_like", "normal_", "uniform_", "matmul", "bmm", "mm", "einsum", "__matmul__",
            "cumulative_trapezoid", "trapezoid", "gradient", "rot90", "fliplr", "flipud", "tensordot", "msort", "tril", "triu",
            "cross", "inverse", "pinverse", "matrix_exp", "matrix_power", "baddbmm", "addmm", "addbmm", "cdist", "scatter",
            "scatter_add", "index_add", "index_copy", "index_fill", "masked_scatter", "H", "mH", "adjoint", "dropout1d", "dropout3d",
            "feature_alpha_dropout", "rrelu", "embedding_bag", "_transformer_encoder_layer_fwd", "_native_multi_head_attention"}
_REFUSED_FAMILIES = ("fft_", "linalg_", "special_log_softmax", "special_softmax")
_PLAIN = {"__get__", "__set__", "dim", "ndim", "numel", "data_ptr", "backward", "register_hook", "is_floating_point",
          "requires_grad_", "is_complex", "__repr__", "retain_grad", "get_device", "__delete__"}
_VIEWS = {"data", "real"}  # of the same cells
_PAD_MODES = {"constant", "reflect", "replicate", "circular"}


class Joins(TorchFunctionMode):
    """Sees the functions that a model's own code calls on shards.

    Shards carry the cuts of their rows and columns. Where a function joins shards with the same extents and other cuts, the
    later ones are moved to the cuts of the first. Sizes are those of the globe. `interpolate`, `pad`, `max_pool2d` and
    `avg_pool2d` are those of the whole field. A function that would mix rows or columns within a shard is refused by its name.
    """

    def __init__(self, domain: Domain, layers: Dict[Any, Any]) -> None:
        super().__init__()
        self.domain, self.layers = domain, layers
        self._outer: Optional[Joins] = None

    def __enter__(self) -> "Joins":
        self._outer, Active.mode = Active.mode, self
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        Active.mode = self._outer
        super().__exit__(*error)

    def marked(self, value: Any) -> Any:
        """An argument of the model: a view of its own that carries its cuts, so that the caller's tensor has no mark. Collective."""
        if isinstance(value, torch.Tensor) and value.dim() >= 3 and cuts(value) is None:
            return mark(value.view_as(value), ask(value, self.domain))
        return value

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = [x for x in tensors((args, kwargs)) if _cells.placed(x) is not None]
        if not given:
            return func(*args, **kwargs)
        first = given[0]
        name = getattr(func, "__name__", str(func))
        if func == torch.Tensor.shape.__get__ or func is torch.Tensor.size:
            shape = torch.Size(_cells.shape_of(first, _cells.placed(first)))
            where = args[1] if len(args) > 1 else kwargs.get("dim")
            return shape if where is None else shape[where]
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
            if name in _VIEWS:
                return _cells.place(func(*args, **kwargs), _cells.placed(first))
            if name not in _cells.MOVES and name not in _REFUSED:
                return func(*args, **kwargs)
        if name in _PLAIN:
            return func(*args, **kwargs)
        if name in _cells.MOVES or name in _cells.REGROUPS or any(_cells.cells(x) is not None for x in given):
            return _cells.call(self, func, name, _name(func, name), given, args, kwargs)
        if name in _FIELDS:
            return _FIELDS[name](self, *args, **kwargs)
        if self.is_refused(name) or name in _OF_AXES and not self.along_whole_axes(name, first, args, kwargs, (-2, -1)):
            raise NotSharded(f"{_name(func, name)} of a shard would mix its rows and columns, or take them for a whole field: use "
                             "the layer of torch.nn or graticule.nn")
        args, kwargs = self._matched(first, name, (args, kwargs))
        local, of = tuple(first.shape[-2:]), cuts(first)
        result = func(*args, **kwargs)
        for y in tensors(result):
            if y.dim() < 2 or tuple(y.shape[-2:]) != local:
                raise NotSharded(f"{_name(func, name)} of a shard of {tuple(first.shape)} gives {tuple(y.shape)}: it reduces or "
                                 "selects rows or columns, which are cut")
            mark(y, of)
        return result

    of_axes = _OF_AXES

    @staticmethod
    def is_refused(name: str) -> bool:
        """Whether a function is wrong on shards, whatever its arguments."""
        return name in _REFUSED or name in _FIELDS or name.startswith(_REFUSED_FAMILIES) and name not in _OF_AXES

    @staticmethod
    def along_whole_axes(name: str, x: torch.Tensor, args: tuple, kwargs: dict, cut: Tuple[int, ...]) -> bool:
        """Whether the axes that a function of `_OF_AXES` works along are none of those that are cut."""
        if name in ("max", "min") and len(args) > 1 and isinstance(args[1], torch.Tensor):
            return True
        at = {"chunk": 2, "split": 2, "roll": 2, "norm": 2, "topk": 2, "normalize": 2, "vector_norm": 2, "cosine_similarity": 2,
              "quantile": 2, "nanquantile": 2, "kthvalue": 2, "diff": 2, "renorm": 2, "take_along_dim": 2,
              "linalg_vector_norm": 2}.get(name, 1)
        given = kwargs.get("dim", kwargs.get("dims", kwargs.get("axis", args[at] if len(args) > at else None)))
        if given is None and name in ("chunk", "split", "unbind"):
            given = 0
        if given is None and name in ("normalize", "cosine_similarity"):
            given = 1
        axes = given if isinstance(given, (tuple, list)) else [given]
        whole = [a % x.dim() for a in axes if isinstance(a, int)]
        return bool(axes) and len(whole) == len(axes) and not {c % x.dim() for c in cut} & set(whole)

    def _matched(self, first: torch.Tensor, name: str, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(self._matched(first, name, v) for v in value) if type(value) in (tuple, list) else value
        if isinstance(value, dict):
            return {key: self._matched(first, name, v) for key, v in value.items()}
        here, there = cuts(value), cuts(first)
        if here is None or here == there:
            return value
        if extents(here) != extents(there):
            (a, b), (c, d) = extents(there), extents(here)
            raise Error("ShapeMismatch", f"{name} of fields of {a} x {b} and {c} x {d} cells", "argument")
        key = ("match", here, there)
        if key not in self.layers:
            self.layers[key] = _core.Layer.native("MatchCuts", {}, self.domain._object)
        moved = self.layers[key].call("", "forward", [value, first], [None] * 5, True)[0]
        return mark(moved, there)

    def layer(self, type_name: str, x: torch.Tensor, **options: Any) -> torch.Tensor:
        """A layer without parameters on a marked field. Collective."""
        key = (type_name, tuple(sorted((n, tuple(v) if isinstance(v, (list, torch.Size)) else v) for n, v in options.items())))
        if key not in self.layers:
            self.layers[key] = TorchLayer(type_name, type_name, self.domain, options, ())
        return self.layers[key].call(_NOTHING, "forward", x)


_NOTHING = torch.nn.Module()


def _name(func: Any, name: str) -> str:
    return resolve_name(func) or name


def _pair(value: Any) -> Tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _interpolate(joins: Joins, input: torch.Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                 align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False) -> torch.Tensor:
    options = {"size": size, "scale_factor": scale_factor, "mode": mode, "align_corners": align_corners,
               "recompute_scale_factor": recompute_scale_factor, "antialias": antialias or None}
    return joins.layer("Resize", input, **options)


def _pad(joins: Joins, input: torch.Tensor, pad: Any, mode: str = "constant", value: Any = None) -> torch.Tensor:
    pad = [int(p) for p in pad]
    if mode not in _PAD_MODES or len(pad) not in (2, 4) or input.dim() not in (3, 4):
        raise NotSharded(f"torch.nn.functional.pad of a shard by {pad} in mode {mode!r}: 2 or 4 widths of a field with 3 or 4 axes")
    if not any(pad):
        return mark(input.view_as(input), cuts(input))
    return joins.layer("Pad2d", input, padding=pad + [0] * (4 - len(pad)), mode=mode, value=0.0 if value is None else float(value))


def _max_pool2d(joins: Joins, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                ceil_mode: bool = False, return_indices: bool = False) -> torch.Tensor:
    if return_indices:
        raise NotSharded("torch.nn.functional.max_pool2d with return_indices: indices of a shard")
    return joins.layer("MaxPool2d", input, kernel_size=_pair(kernel_size), stride=_pair(stride or kernel_size),
                      padding=_pair(padding), dilation=_pair(dilation), ceil_mode=ceil_mode)


def _avg_pool2d(joins: Joins, input: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
                ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None) -> torch.Tensor:
    return joins.layer("AvgPool2d", input, kernel_size=_pair(kernel_size), stride=_pair(stride or kernel_size),
                      padding=_pair(padding), ceil_mode=ceil_mode, count_include_pad=count_include_pad,
                      divisor_override=divisor_override)


_FIELDS = {"interpolate": _interpolate, "upsample": _interpolate, "pad": _pad, "max_pool2d": _max_pool2d,
           "_max_pool2d": _max_pool2d, "boolean_dispatch": _max_pool2d, "avg_pool2d": _avg_pool2d}
