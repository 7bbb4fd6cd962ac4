# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers that the code of a sharded model draws for tensors that are no shards: those of the domain's first rank, on all ranks."""
from __future__ import annotations

import ctypes
import random
import sys
import zlib
from typing import Any, Callable, List, Optional, Tuple

import torch

from . import _core, _functions as known
from ._cuts import tensors
from ._domain import Domain


_SLOPES = ("rrelu", "rrelu_")


def draws(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether a call of a function of torch draws random numbers."""
    if name in known.DROPOUTS or name in _SLOPES:
        names = ("p", "training") if name not in _SLOPES else ("lower", "upper", "training")
        given = dict(zip(names, args[1:]), **kwargs)
        default = name not in (*_SLOPES, "alpha_dropout", "feature_alpha_dropout")
        return given.get("p", 0.5) != 0 and bool(given.get("training", given.get("train", default)))
    if name == "scaled_dot_product_attention":
        return bool(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0))
    if name == "multi_head_attention_forward":
        return bool(kwargs.get("training", True)) and bool(kwargs.get("dropout_p", args[9] if len(args) > 9 else 0))
    if name.startswith("fractional_max_pool"):
        return kwargs.get("_random_samples") is None
    return name in known.RANDOM


def of_python() -> Tuple[int, int]:
    """The states of Python's and of numpy's random numbers, as numbers that change where they are drawn."""
    words = random.getstate()[1]
    own = hash((words[:4], words[-4:])) & 0x7FFFFFFF
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return own, 0
    return own, _of_numpy(numpy)


def _of_numpy(numpy: Any) -> int:
    """Of the generator behind numpy.random. Its memory, because numpy copies a state word by word, which takes 30 microseconds."""
    generator = getattr(numpy.random.mtrand._rand, "_bit_generator", None)
    if type(generator).__name__ != "MT19937":
        return zlib.crc32(repr(numpy.random.get_state()).encode())
    if _held[:1] != [generator]:
        # Of 624 words and a position in them.
        _held[:] = [generator, memoryview((ctypes.c_uint32 * 625).from_address(generator.ctypes.state_address))]
    return zlib.crc32(_held[1])


_held: List[Any] = []


def agreed(domain: Domain, func: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    """Calls a function that draws random numbers on the numbers of the first rank. Collective.

    Ranks whose generator was in the state of the first rank's stay in step with it; the others keep their own numbers for later.
    """
    if domain.num_ranks == 1:
        return func(*args, **kwargs)
    generator = next((x for x in (*args, *kwargs.values()) if isinstance(x, torch.Generator)), None)
    with torch._C.DisableTorchFunction():
        generator = generator or _default(args, kwargs)
        own = generator.get_state()
        first = _core.broadcast(own if domain.rank == 0 else None, 0, domain._object)
        generator.set_state(first)
        try:
            return func(*args, **kwargs)
        finally:
            if not torch.equal(own, first):
                generator.set_state(own)


def _default(args: tuple, kwargs: dict) -> torch.Generator:
    """The generator that a call without one uses."""
    given: Optional[Any] = kwargs.get("device")
    held = tensors((args, kwargs))
    device = torch.device(given) if given is not None else held[0].device if held else torch.get_default_device()
    if device.type == "cuda":
        torch.cuda.init()
        return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.default_generator
