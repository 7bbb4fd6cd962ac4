# SPDX-License-Identifier: BSD-3-Clause
"""What is done around steps of torch's optimizers: checks, and agreement where a rank sees some rows of gradients only.

torch calls hooks before the step of any of its optimizers. It has none in GradScaler and in clip_grad_norm_, which read `.grad`
(torch 2.13): three functions of theirs are replaced once the first object is watched, and act as before on all other tensors.
"""
from __future__ import annotations

import functools
import inspect
import math
import weakref
from typing import Any, Dict, List, Set

import torch
from torch.amp import GradScaler
from torch.nn.utils import clip_grad
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ._errors import Error

#: Each of them updates an element from this element's own gradients, whatever its options.
ELEMENTWISE = {getattr(torch.optim, name) for name in
               ("ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD")}

_watched: List["weakref.ref[Any]"] = []  # in the order in which they were made, which is that of all ranks


def _alive() -> List[Any]:
    _watched[:] = [one for one in _watched if one() is not None]
    return [owner for owner in (one() for one in _watched) if owner is not None]


def watch(owner: Any) -> None:
    """From now on `owner._before_step(optimizer, ids of its tensors, has_closure)` is called before each step."""
    _install()
    _watched.append(weakref.ref(owner))


def reduced_by_others(tensors: Set[int]) -> bool:
    """Whether a GradientSync, DataParallel or Daso sees to the gradients of some of these."""
    return any(tensors & owner._parameters.ids for owner in _alive() if hasattr(owner, "_parameters"))


def needs_closure(optimizer: Any) -> bool:
    """Whether its step cannot do without one, as that of LBFGS."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _tensors_of(optimizer: Any) -> Set[int]:
    return {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> Any:
    if not _alive():
        return None

    def tell(has_closure: bool) -> None:
        tensors = _tensors_of(optimizer)
        for owner in _alive():
            owner._before_step(optimizer, tensors, has_closure)

    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    tell(closure is not None)
    if closure is None:
        return None

    def told() -> Any:
        loss = closure()
        tell(False)  # its gradients are those that the optimizer uses
        return loss

    return ((args[0], told, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": told})


def _agreed_unscale(unscale: Any) -> Any:
    @functools.wraps(unscale)
    def unscale_grads(scaler: Any, optimizer: Any, inv_scale: torch.Tensor, found_inf: torch.Tensor, *more: Any) -> Any:
        found = unscale(scaler, optimizer, inv_scale, found_inf, *more)
        tensors = _tensors_of(optimizer)
        for owner in _alive():
            if not hasattr(owner, "_agree_on_infinite"):
                continue
            own = max((value.item() for value in found.values()), default=0.0)
            every = owner._agree_on_infinite(tensors, own)
            if every > own:
                found = {device: torch.full_like(value, every) for device, value in found.items()} or {
                    inv_scale.device: torch.full_like(found_inf, every)}
        return found
    return unscale_grads


def _combined_norm(owner: Any, own: float, norm_type: float) -> float:
    """The norm of what all ranks have, from those of their parts."""
    if math.isinf(norm_type) and norm_type > 0:
        largest = owner._object.largest(0.0 if math.isnan(own) else own)
        return math.nan if owner._object.largest(float(math.isnan(own))) else largest
    if not norm_type > 0:
        raise Error("Unsupported", f"a norm of type {norm_type} of gradients that are sharded; take a positive one")
    return owner._object.total(own ** norm_type) ** (1 / norm_type)


def _agreed_norm(total_norm: Any) -> Any:
    @functools.wraps(total_norm)
    def norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None) -> torch.Tensor:
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        owner_of: Dict[int, Any] = {}
        for owner in _alive():
            for row in getattr(owner, "_rows", {}).values():
                if row.grad is not None:
                    owner_of[id(row.grad)] = owner
                owner_of[id(row)] = owner
        owners = [owner for owner in _alive() if any(owner_of.get(id(one)) is owner for one in given)]
        if not owners:
            return total_norm(given, norm_type, error_if_nonfinite, foreach)
        whole = [one for one in given if id(one) not in owner_of]
        norms = [total_norm(whole, norm_type, False, foreach)] if whole else []
        for owner in owners:
            part = [one for one in given if owner_of.get(id(one)) is owner and one.numel() > 0]
            own = total_norm(part, norm_type, False, foreach) if part else given[0].new_zeros((), dtype=given[0].abs().dtype)
            norms.append(own.new_tensor(_combined_norm(owner, own.item(), float(norm_type))))
        return total_norm(norms, norm_type, error_if_nonfinite, foreach)
    return norm


def _of_rows(clip: Any) -> Any:
    @functools.wraps(clip)
    def scale(parameters: Any, *args: Any, **kwargs: Any) -> None:
        given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        for owner in _alive():
            if hasattr(owner, "_whole") and owner._whole.ids & {id(one) for one in given}:
                raise Error("WrongState", "gradients of the model's own parameters were to be clipped, and their rows have them while they "
                            "are sharded: clip those of parameters() of the ShardedParameters")
        clip(given, *args, **kwargs)
        for owner in _alive():
            if hasattr(owner, "_note_clip"):
                owner._note_clip(given)
    return scale


@functools.lru_cache(maxsize=None)
def _install() -> None:
    register_optimizer_step_pre_hook(_before_step)
    GradScaler._unscale_grads_ = _agreed_unscale(GradScaler._unscale_grads_)  # type: ignore[method-assign]
    if hasattr(clip_grad, "_get_total_norm"):
        clip_grad._get_total_norm = torch.nn.utils.get_total_norm = _agreed_norm(clip_grad._get_total_norm)
        clip_grad._clip_grads_with_norm_ = torch.nn.utils.clip_grads_with_norm_ = _of_rows(clip_grad._clip_grads_with_norm_)
