# SPDX-License-Identifier: BSD-3-Clause
"""Training on several ranks: gradients, data parallelism, DASO, sharded parameters, checkpoints."""
from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch import nn

from . import _core
from ._errors import Error
from ._library import handle_of, start

Team = Any  # an mpi4py communicator, its py2f(), or None for all ranks
Rules = Sequence[Tuple[Team, str]]


def _rules(rules: Rules) -> List[Tuple[int, str]]:
    return [(handle_of(team), reduction) for team, reduction in rules]


def _mirror(module: nn.Module) -> _core.Mirror:
    """A C++ module of the same tensors."""
    start()
    return _core.Mirror(list(module.named_parameters()), list(module.named_buffers()))


class GradientSync:
    """Keeps parameters and gradients of a module equal over teams.

    rules: (communicator, "sum" or "mean"), applied in order: "sum" over the ranks of a domain, whose gradients are partial
    sums; "mean" over data-parallel teams. Collective. Errors: ReplicaMismatch, BadOption.
    """

    def __init__(self, module: nn.Module, rules: Rules) -> None:
        self._object = _core.GradientSync(_mirror(module), _rules(rules))

    def set_rules(self, parameter: str, rules: Rules) -> None:
        """Rules for one parameter that replace the common ones. Errors: UnknownName."""
        self._object.set_rules(parameter, _rules(rules))

    def broadcast(self) -> None:
        """Copies parameters and buffers of the first rank of each team to the others."""
        self._object.broadcast()

    def reduce(self) -> None:
        """Reduces all gradients, in place, to bitwise equal values on all ranks of a team."""
        self._object.reduce()


class _Wrapper:
    _object: Any

    def close(self) -> None:
        """Takes the hooks from the model. On all ranks."""
        self._object.close()

    def __enter__(self):
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class DataParallel(_Wrapper):
    """Trains replicas of a module on the ranks of teams: gradients are reduced by rules while the backward runs.

    module: its parameters and buffers become those of each team's first rank. optimizer: for `step`; or None, to step it
    oneself. rules: as `GradientSync`. unused: parameters without a gradient are "refused" or "allowed". wire: "own", "bf16" or
    "f16" in messages. order: "by_rank" (the same bits in every run) or "any". buffers: "leave", "broadcast" or "mean".
    Errors: ReplicaMismatch, NoParameters, BadOption, WrongState, UnusedParameter.
    Example: two ranks with gradients 1 and 3 under "mean": both hold 2 after `backward()`.
    """

    def __init__(self, module: nn.Module, rules: Rules, optimizer: Optional[torch.optim.Optimizer] = None, *,
                 unused: str = "refused", wire: str = "own", order: str = "by_rank", buffers: str = "leave") -> None:
        step = None if optimizer is None else (lambda: optimizer.step() and None)
        self._object = _core.DataParallel(_mirror(module), step, _rules(rules),
                                          {"unused": unused, "wire": wire, "order": order, "buffers": buffers})

    def step(self) -> None:
        """Steps the optimizer with reduced gradients, then applies the policy for buffers. Errors: WrongState."""
        self._object.step()

    def synchronize(self) -> None:
        """Waits until `.grad` holds reduced gradients."""
        self._object.synchronize()

    def reduce(self) -> None:
        """Reduces the current `.grad`, without a backward. Collective."""
        self._object.reduce()

    def sync_buffers(self) -> None:
        """Applies the policy for buffers. Collective."""
        self._object.sync_buffers()

    def run(self, training_pass: Callable[[], None]) -> None:
        """Runs a forward and backward. Where it raises on one rank, the others get PeerFailed, and the next pass works."""
        self._object.run(training_pass)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Keeps gradients local within: the next backward outside reduces their total."""
        scope = self._object.no_sync()
        try:
            yield
        finally:
            del scope

    def clip_gradients(self, max_norm: float, norm_type: float = 2.0) -> float:
        """Scales the reduced gradients to a norm of at most max_norm. Returns the norm before."""
        return self._object.clip_gradients(max_norm, norm_type)


class Daso(_Wrapper):
    """Data parallelism that averages gradients within nodes, and parameters between nodes from time to time without waiting.

    world: the ranks with the same parameters and different samples. total_epochs, warmup_epochs, ...: of the schedule.
    node: number of this rank's node; default: ranks that share memory. gradient_rules: applied before the mean within a node.
    buffers: "leave", "average" or "copy_sender". Errors: ReplicaMismatch, ArgumentDisagreement, NoParameters, BadOption.
    """

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, total_epochs: int, world: Team = None, *,
                 warmup_epochs: int = 4, cooldown_epochs: int = 4, stability: float = 0.05, patience: int = 2,
                 max_global_skips: int = 8, skip_reduction_factor: int = 2, local_skip_factor: int = 4,
                 node: Optional[int] = None, gradient_rules: Rules = (), buffers: str = "average") -> None:
        options = {"total_epochs": total_epochs, "warmup_epochs": warmup_epochs, "cooldown_epochs": cooldown_epochs,
                   "stability": stability, "patience": patience, "max_global_skips": max_global_skips,
                   "skip_reduction_factor": skip_reduction_factor, "local_skip_factor": local_skip_factor, "node": node,
                   "buffers": buffers}
        self._object = _core.Daso(_mirror(module), lambda: optimizer.step() and None, handle_of(world), _rules(gradient_rules),
                                  options)

    def set_last_batch(self, last_batch: int) -> None:
        """Index of an epoch's last batch, before the first step. Errors: ArgumentDisagreement."""
        self._object.set_last_batch(last_batch)

    def zero_grad(self) -> None:
        """Zeroes gradients."""
        self._object.zero_grad()

    def step(self) -> None:
        """Steps the optimizer, then communicates by the schedule. Errors: NotFinite, WrongState, PeerFailed."""
        self._object.step()

    def epoch_loss(self, loss: float) -> None:
        """To be called after the last step of an epoch, with this rank's mean loss. Errors: WrongState."""
        self._object.epoch_loss(float(loss))

    def drain(self) -> None:
        """Completes and merges messages in flight."""
        self._object.drain()

    def synchronize(self) -> None:
        """Drains, and sets the parameters of all ranks to the mean of all nodes: before a checkpoint within an epoch."""
        self._object.synchronize()

    @property
    def num_sent(self) -> int:
        """Messages sent so far by this rank."""
        return self._object.num_sent()


class ShardedParameters:
    """Each rank keeps some rows of every parameter, of its gradient and of the optimizer's state.

    The model is one unit: whole parameters exist from the beginning of a forward to the end of its backward, in the model's
    own parameters. team: ranks; reduction: "mean" if they have their own samples, "sum" if their losses are parts of one.
    replicas: teams over which everything is replicated, with their rules. Errors: NoParameters, ReplicaMismatch, WrongState.
    Example:
        sharded = graticule.ShardedParameters(model, team)
        optimizer = torch.optim.Adam(sharded.parameters())
        loss_of(sharded(x), y).backward()
        optimizer.step()
    """

    def __init__(self, model: nn.Module, team: Team = None, reduction: str = "mean", replicas: Rules = ()) -> None:
        self._model = model
        self._object = _core.ShardedParameters(_mirror(model), handle_of(team), reduction, _rules(replicas))

    def __call__(self, *args: Any, **kwargs: Any) -> Union[torch.Tensor, List[torch.Tensor]]:
        """The model's forward; it returns a tensor or a list of tensors. Collective."""
        single: List[bool] = []

        def forward() -> List[torch.Tensor]:
            y = self._model(*args, **kwargs)
            single[:] = [isinstance(y, torch.Tensor)]
            return [y] if single[0] else list(y)

        outputs = self._object.forward(forward)
        return outputs[0] if single[0] else outputs

    def named_parameters(self) -> List[Tuple[str, torch.Tensor]]:
        """Leaf tensors with this rank's rows, under the names of the model's parameters."""
        return self._object.named_parameters()

    def parameters(self) -> List[torch.Tensor]:
        """The same without names, for an optimizer."""
        return [tensor for _, tensor in self.named_parameters()]

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Within, all whole parameters can be read; values written to them are lost. Collective."""
        scope = self._object.gathered()
        try:
            yield
        finally:
            scope.close()

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scales all gradients to a norm of at most max_norm. Returns the norm before. Collective."""
        return self._object.clip_grad_norm(max_norm)

    def unwrap(self) -> None:
        """Gives the model its whole parameters back; the object cannot be used any more. Collective."""
        self._object.unwrap()

    @property
    def shard_bytes(self) -> int:
        """Memory of this rank's rows."""
        return self._object.shard_bytes()


def load_model(path: Any, model: nn.Module, comm: Team = None, prefix: str = "model") -> None:
    """Fills parameters and buffers of a model, in place, from a checkpoint of graticule-train or of `save_model`. Collective.

    Names are those of the serial model; the checkpoint may come from any number of ranks. prefix: of the names in the file.
    Errors: NoSuchFile, BrokenFile, StateMismatch with all names, shapes and types that differ.
    """
    try:
        _core.load_model(handle_of(comm), str(path), _mirror(model), prefix)
    except Error as error:
        if error.rule != "UnreadableFile" or not os.path.isdir(path):
            raise
        newest = max((name for name in os.listdir(path) if name.endswith(".h5")), default=None)
        advice = "it has none" if newest is None else f"the newest one is {os.path.join(path, newest)}"
        raise Error(error.rule, f"{error.text}; load_model takes one checkpoint of a folder: {advice}", error.fault) from None


def save_model(folder: Any, step: int, model: nn.Module, comm: Team = None, keep: int = 3, prefix: str = "model") -> None:
    """Writes a checkpoint with a model's parameters and buffers, equal on all ranks, which graticule-train can read. Collective.

    folder: of the checkpoints of a run, of which the newest `keep` remain. Errors: ReplicaMismatch, OutputError, BadOption.
    """
    _core.save_model(handle_of(comm), str(folder), step, keep, _mirror(model), prefix)
