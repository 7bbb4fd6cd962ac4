# SPDX-License-Identifier: BSD-3-Clause
"""torch.utils.checkpoint within and around sharded models: the second run is that of the first."""
from __future__ import annotations

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.utils.checkpoint as checkpoints

from ._cuts import Active, is_of_cells, is_whole, mark_whole
from ._domain import Domain
from ._placed import Mark, mark_of, place

_domains: "weakref.WeakSet[Domain]" = weakref.WeakSet()


class Again:
    """Runs a function as it ran first: in the code of the same model, with the same marks and the same masks of dropouts."""

    def __init__(self, function: Callable[..., Any], args: Tuple[Any, ...]) -> None:
        self.function = function
        self.mode = None if Active.mode is None else Active.mode.again()
        self.marks = [(mark_of(x), is_whole(x), is_of_cells(x)) for x in args]
        self.num_draws: Dict[Domain, int] = {d: d.num_draws for d in list(_domains)}

    def first(self, *args: Any, **kwargs: Any) -> Any:
        """The first run, where torch has taken the marks from the arguments."""
        args = tuple(_marked(x, *marks) for x, marks in zip(args, self.marks))
        if self.mode is None:
            return self.function(*args, **kwargs)
        # A mode within another one would see sizes of the globe where it asks for those of a shard.
        with torch._C._EnableTorchFunction(), self.mode.again() if Active.mode is None else contextlib.nullcontext():
            return self.function(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        later = {d: d.num_draws for d in self.num_draws}
        for domain, number in self.num_draws.items():
            domain.num_draws = number
        try:
            return self.first(*args, **kwargs)
        finally:
            for domain, number in later.items():
                domain.num_draws = number


class RandomStates:
    """The states of torch's generators, for a second run."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.host = torch.get_rng_state()
        self.devices, self.states = checkpoints.get_device_states(*inputs) if torch.cuda.is_initialized() else ([], [])

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Within: as at first."""
        with torch.random.fork_rng(devices=self.devices):
            torch.set_rng_state(self.host)
            checkpoints.set_device_states(self.devices, self.states)
            yield


def _marked(x: Any, at: Optional[Mark], whole: bool, of_cells: bool) -> Any:
    if at is not None:
        return place(x, at)
    return mark_whole(x, of_cells) if whole and isinstance(x, torch.Tensor) and not isinstance(x, torch.nn.Parameter) else x


class _FirstThenAgain:
    """A function that is run once, and later again."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.again = function, None

    def __call__(self, *args: Any) -> Any:
        if self.again is not None:
            return self.again(*args)
        self.again = Again(self.function, args)
        return self.function(*args)


def guard_checkpoints(domain: Domain) -> None:
    """Makes torch.utils.checkpoint run sharded models again as they ran first. Once."""
    module: Any = checkpoints
    _domains.add(domain)
    if getattr(module._checkpoint_without_reentrant_generator, "graticule", False):
        return
    described = module._allowed_determinism_checks_to_fns["default"]

    def description(x: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunction():  # sizes of this rank in both runs
            return described(x)

    module._allowed_determinism_checks_to_fns["default"] = description
    without, function = module._checkpoint_without_reentrant_generator, module.CheckpointFunction

    def generator(fn: Callable[..., Any], preserve: bool, *rest: Any, **kwargs: Any) -> Iterator[None]:
        given = rest[4:]  # behind context_fn, determinism_check, debug and early_stop
        steps = without(Again(fn, given), preserve, *rest, **kwargs)
        with module.set_checkpoint_early_stop(False):  # ranks would stop before different messages
            next(steps)
        try:
            yield
        except BaseException as error:
            steps.throw(error)
            raise
        yield from steps

    class CheckpointFunction(function):  # type: ignore[misc, valid-type]
        @classmethod
        def apply(cls, run: Callable[..., Any], preserve: bool, *args: Any) -> Any:
            if Active.mode is None:
                return super().apply(_FirstThenAgain(run), preserve, *args)
            return _reentrant(Active.mode.domain, run, preserve, args)

    generator.graticule = True  # type: ignore[attr-defined]
    module._checkpoint_without_reentrant_generator = generator
    module.CheckpointFunction = CheckpointFunction


def _reentrant(domain: Domain, run: Callable[..., Any], preserve: bool, args: Tuple[Any, ...]) -> Any:
    """The re-entrant checkpoint by that of graticule, whose second run is one of all ranks, also where a rank has no gradient."""
    from ._collectives import checkpoint
    at = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor)]
    shape: List[Any] = []

    def segment(*given: torch.Tensor) -> List[torch.Tensor]:
        filled = list(args)
        for i, x in zip(at, given):
            filled[i] = x
        y = run(*filled)
        shape[:] = [y]
        return [x for x in (y if isinstance(y, (tuple, list)) else [y]) if isinstance(x, torch.Tensor)]

    results = checkpoint(domain, segment, *[args[i] for i in at], preserve_rng_state=preserve)
    left = list(results)
    y = shape.pop()
    if isinstance(y, torch.Tensor):
        return left[0]
    return tuple(left.pop(0) if isinstance(x, torch.Tensor) else x for x in y)
