# SPDX-License-Identifier: BSD-3-Clause
"""Training on several ranks: gradients, data parallelism, DASO, sharded parameters, checkpoints."""
from __future__ import annotations

import contextlib
import os
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Type

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree

from . import _core
from ._errors import Error
from ._failures import recovered
from ._library import handle_of, start
from ._optimizers import ELEMENTWISE, needs_closure, reduced_by_others, watch

Team = Any  # an mpi4py communicator, its py2f(), or None for all ranks
Rules = Sequence[Tuple[Team, str]]


def _rules(rules: Rules) -> List[Tuple[int, str]]:
    return [(handle_of(team), reduction) for team, reduction in rules]


def _is_dtensor(tensor: Any) -> bool:
    return hasattr(tensor, "placements") and hasattr(tensor, "to_local")


class _Part:
    """This rank's part of a parameter that is a DTensor, as `fully_shard` makes them: the same memory, and its gradient's."""

    def __init__(self, name: str, parameter: Any) -> None:
        self._parameter = parameter
        self.tensor = parameter.to_local().detach().requires_grad_(parameter.requires_grad)
        # Ranks compare names, and only equal parts are to be reduced.
        axes = zip(parameter.placements, parameter.device_mesh.get_coordinate(), parameter.device_mesh.mesh.shape)
        parts = ", ".join(f"part {index} of {number} along axis {getattr(place, 'dim', '?')}" for place, index, number in axes
                          if not place.is_replicate())
        self.name = f"{name} [{parts}]" if parts else name

    def take_gradient(self) -> None:
        """Gives the part the memory of the parameter's gradient."""
        gradient = self._parameter.grad
        if gradient is not None and any(place.is_partial() for place in gradient.placements):
            gradient = self._parameter.grad = gradient.redistribute(placements=self._parameter.placements)
        self.tensor.grad = None if gradient is None else gradient.to_local().detach()


def _mirror(module: nn.Module, parts: Optional[Mapping[str, _Part]] = None) -> _core.Mirror:
    """A C++ module of the same tensors. One of a lazy module that has not run is without values, as on the meta device.

    parts: of parameters that are DTensors, which are refused without.
    """
    start()
    if parts is not None:
        named = [(parts[name].name, parts[name].tensor) if name in parts else (name, tensor) for name, tensor in module.named_parameters()]
        return _core.Mirror(named, [(name, tensor.to_local() if _is_dtensor(tensor) else tensor) for name, tensor in module.named_buffers()])
    for name, tensor in module.named_parameters():
        if _is_dtensor(tensor):
            raise Error("UnsupportedTensor", f"the parameter '{name}' is a DTensor, of which each rank holds a part: fully_shard reduces its gradients "
                        "along its mesh, a GradientSync along other teams, and torch.distributed.checkpoint saves and loads it", "argument")

    def held(named: Any) -> List[Tuple[str, torch.Tensor]]:
        return [(name, torch.empty(0, device="meta") if is_lazy(tensor) else tensor) for name, tensor in named]
    return _core.Mirror(held(module.named_parameters()), held(module.named_buffers()))


class _Parameters:
    """The parameters of a module when `owner` was made, by which it is told whether they still are its parameters."""

    def __init__(self, module: nn.Module, owner: str) -> None:
        self._module, self._owner = module, owner
        self._known = dict(module.named_parameters())
        self.ids = {id(tensor) for tensor in self._known.values()}

    def require_same(self) -> None:
        for name, tensor in self._module.named_parameters():
            if self._known.get(name) is not tensor:
                raise Error("ParametersChanged", f"the parameter '{name}' was replaced or added after the {self._owner} was made, "
                            f"which does not know it: make the {self._owner} again")


class GradientSync:
    """Keeps parameters and gradients of a module equal over teams.

    rules: (communicator, "sum" or "mean"), applied in order: "sum" over the ranks of a domain, whose gradients are partial
    sums; "mean" over data-parallel teams. Collective. A step of an optimizer of torch without a `reduce()` since its last
    one compares the gradients. Parameters that are DTensors, as those of `fully_shard`, are reduced over teams whose ranks hold the
    same part: those of the domain, not those of its mesh. Errors: ReplicaMismatch, BadOption, UnsupportedTensor, ParametersChanged.
    """

    def __init__(self, module: nn.Module, rules: Rules) -> None:
        self._parts = {name: _Part(name, tensor) for name, tensor in module.named_parameters() if _is_dtensor(tensor)}
        given = _rules(rules)
        self._object = _core.GradientSync(_mirror(module, self._parts if self._parts else None), given)
        self._parameters = _Parameters(module, "GradientSync")
        self._sums = any(reduction == "sum" for _, reduction in given)
        self._clipped: Optional[Tuple["weakref.ref[Any]", torch.Tensor, int]] = None  # a parameter, its gradient when that was clipped last
        self._reductions = 0
        self._compared = 0
        self._at_last_step: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
        watch(self)

    def set_rules(self, parameter: str, rules: Rules) -> None:
        """Rules for one parameter that replace the common ones. Errors: UnknownName."""
        part = self._parts.get(parameter)
        self._object.set_rules(parameter if part is None else part.name, _rules(rules))

    def broadcast(self) -> None:
        """Copies parameters and buffers of the first rank of each team to the others."""
        self._parameters.require_same()
        self._object.broadcast()

    def reduce(self) -> None:
        """Reduces all gradients, in place, to bitwise equal values on all ranks of a team.

        Errors: ParametersChanged; WrongState where gradients that are to be summed have been clipped before.
        """
        self._parameters.require_same()
        if self._sums and self._clipped is not None and self._is_clipped(*self._clipped):
            raise Error("WrongState", "gradients were clipped before reduce(): they are parts of a sum over the ranks of a domain, and each rank has "
                        "scaled its own by another factor; clip after reduce()", "usage")
        self._take_gradients()
        self._object.reduce()
        self._reductions += 1

    def _note_clip(self, clipped: Sequence[torch.Tensor]) -> None:
        own = [p for p in clipped if id(p) in self._parameters.ids and p.grad is not None]
        smallest = min(own, key=torch.Tensor.numel, default=None)
        self._clipped = None if smallest is None else (weakref.ref(smallest), smallest.grad, smallest.grad._version)

    @staticmethod
    def _is_clipped(parameter: "weakref.ref[Any]", grad: torch.Tensor, version: int) -> bool:
        """No backward has given the parameter a gradient since."""
        there = parameter()
        return there is not None and there.grad is grad and grad._version == version

    def _take_gradients(self) -> None:
        for part in self._parts.values():
            part.take_gradient()

    def require_equal(self) -> None:
        """Checks that parameters and gradients are bitwise equal over the teams of their rules, as before an optimizer's step.

        Collective. With GRATICULE_CHECK=comm each step of an optimizer of torch does it. Errors: ReplicaMismatch.
        """
        self._take_gradients()
        self._object.require_equal()

    def _before_step(self, optimizer: Any, tensors: Set[int], has_closure: bool) -> None:
        if has_closure or not tensors & self._parameters.ids:
            return
        forgotten = self._at_last_step.get(optimizer, 0) == self._reductions
        self._at_last_step[optimizer] = self._reductions
        # Who makes gradients equal by other means is not slowed down for ever.
        if _core.checks_calls() or (forgotten and self._compared < 10):
            self._compared += 1
            self.require_equal()

    def _agree_on_infinite(self, tensors: Set[int], own: float) -> float:
        # Gradients may be unscaled before they are reduced, and those of rules of their own differ.
        return self._object.largest(own) if tensors & self._parameters.ids else own


class _PartialGradients:
    """Compares gradients of a sharded model, which are partial sums, at steps of an optimizer where nothing reduces them."""

    def __init__(self, model: nn.Module, domain: Any) -> None:
        self._known, self._domain, self._compared = dict(model.named_parameters()), domain, 0
        watch(self)

    def _before_step(self, optimizer: Any, tensors: Set[int], has_closure: bool) -> None:
        stepped = {name: tensor for name, tensor in self._known.items() if id(tensor) in tensors}
        if has_closure or not stepped or (self._compared >= 10 and not _core.checks_calls()):
            return
        if reduced_by_others(set(map(id, stepped.values()))):
            return
        self._compared += 1
        _core.require_equal(_core.Mirror(list(stepped.items()), []), self._domain._object)

    def _agree_on_infinite(self, tensors: Set[int], own: float) -> float:
        # Those who reduce gradients themselves may do so after they are unscaled.
        if not tensors & {id(tensor) for tensor in self._known.values()} or reduced_by_others(tensors):
            return own
        return max(float(number[0]) for number in _core.gather_numbers(self._domain._object, [int(own != 0)]))


_sharded: "weakref.WeakKeyDictionary[nn.Module, _PartialGradients]" = weakref.WeakKeyDictionary()


def expect_reductions(model: nn.Module, domain: Any) -> None:
    """From now on a step of an optimizer with gradients of a sharded model that were not reduced is an error."""
    _sharded[model] = _PartialGradients(model, domain)


class _Wrapper:
    _object: Any

    def close(self) -> None:
        """Takes the hooks from the model. On all ranks."""
        self._object.close()

    def __enter__(self):
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _step_of(optimizer: Any) -> Callable[[Any], None]:
    """How C++ steps an optimizer: with a closure, which returns the loss reduced by the rules, or with None."""
    def step(closure: Any) -> None:
        if closure is None:
            optimizer.step()
        else:
            optimizer.step(closure)
    return step


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
        mirror = _mirror(module)
        self._object = _core.DataParallel(mirror, None if optimizer is None else _step_of(optimizer), _rules(rules),
                                          {"unused": unused, "wire": wire, "order": order, "buffers": buffers})
        self._parameters = _Parameters(module, "DataParallel")
        self._optimizer = optimizer
        self._joining = False
        self._comparison = _core.GradientSync(mirror, _rules(rules)) if _core.checks_calls() else None
        watch(self)

    def step(self, closure: Optional[Callable[[], torch.Tensor]] = None) -> Optional[float]:
        """Steps the optimizer with reduced gradients, then applies the policy for buffers. Errors: WrongState.

        closure: for optimizers that run forwards and backwards themselves (LBFGS): zeroes the gradients, runs a forward and
        backward, and returns the loss. The optimizer gets the loss reduced by the rules, so that all ranks search alike; the first
        one is returned. A loss that is the same on all ranks of teams with the rule "sum", as those of `graticule.nn`, is whole already.
        """
        self._parameters.require_same()
        if closure is not None:
            return self._object.step_by(closure)
        if self._optimizer is not None and needs_closure(self._optimizer):
            raise Error("WrongState", f"{type(self._optimizer).__name__} runs forwards and backwards itself: call step(closure) "
                        "with a function that zeroes the gradients, runs them and returns this rank's loss")
        self._object.step()
        return None

    def _before_step(self, optimizer: Any, tensors: Set[int], has_closure: bool) -> None:
        # Ranks without batches make no steps.
        if self._comparison and not has_closure and not self._joining and tensors & self._parameters.ids:
            self._comparison.require_equal()

    def close(self) -> None:
        """Takes the hooks from the model. On all ranks."""
        self._comparison = None
        super().close()

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
        with recovered():
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


class Join:
    """Lets the ranks of a `DataParallel` have different numbers of batches: ranks without batches follow the others.

    divisor: of means, "all_ranks" or the "active_ranks" that have batches. early_end: "replayed", or "refused": UnevenInputs on
    all ranks. In the end parameters and buffers are those of the rank that finished last; the optimizer's state stays each
    rank's own. Collective. Errors: Unsupported where buffers are kept equal at each step, UnevenInputs.
    Example:
        with graticule.Join(parallel):
            for x, y in batches_of_this_rank:
                optimizer.zero_grad()
                loss_of(model(x), y).backward()
                parallel.step()
    """

    def __init__(self, parallel: DataParallel, divisor: str = "all_ranks", early_end: str = "replayed") -> None:
        self._parallel = parallel
        self._object = _core.Join(parallel._object, {"divisor": divisor, "early_end": early_end})
        parallel._joining = True

    def finish(self) -> None:
        """To be called when this rank has no more batches: returns on all ranks when all have finished. Errors: WrongState."""
        self._parallel._joining = False
        self._object.finish()

    def __enter__(self) -> "Join":
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            self.finish()
        else:
            self._parallel._joining = False
            self._object.leave()


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
        if needs_closure(optimizer):
            raise Error("Unsupported", f"{type(optimizer).__name__} runs forwards and backwards within a step, which DASO does not "
                        "support")
        self._object = _core.Daso(_mirror(module), _step_of(optimizer), handle_of(world), _rules(gradient_rules), options)
        self._parameters = _Parameters(module, "Daso")
        self._stepping = False
        watch(self)

    def set_last_batch(self, last_batch: int) -> None:
        """Index of an epoch's last batch, before the first step. Errors: ArgumentDisagreement."""
        self._object.set_last_batch(last_batch)

    def zero_grad(self) -> None:
        """Zeroes gradients."""
        self._object.zero_grad()

    def step(self) -> None:
        """Steps the optimizer, then communicates by the schedule. Errors: NotFinite, WrongState, PeerFailed, ParametersChanged."""
        self._parameters.require_same()
        self._stepping = True
        try:
            self._object.step()
        finally:
            self._stepping = False

    def _before_step(self, optimizer: Any, tensors: Set[int], has_closure: bool) -> None:
        if not self._stepping and tensors & self._parameters.ids:
            raise Error("WrongState", f"{type(optimizer).__name__} was stepped beside the Daso of its parameters, whose schedule counts "
                        "steps: call step() of the Daso, without a GradScaler")

    def close(self) -> None:
        """Takes the hooks from the model. On all ranks."""
        self._parameters.ids = set()
        super().close()

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


def _guard_of(sharded: "weakref.ref[ShardedParameters]") -> Callable[..., None]:
    """Refuses calls of a sharded model and its parts beside the ShardedParameters; a backward may run parts again."""
    def guard(module: nn.Module, inputs: Any) -> None:
        owner = sharded()
        if owner is None:
            raise Error("ParametersChanged", f"{type(module).__name__} has no values: its ShardedParameters was destroyed without "
                        "unwrap()")
        if not owner._whole_now and torch._C._current_graph_task_id() < 0:
            raise Error("WrongState", f"{type(module).__name__} was called beside the ShardedParameters of the model, and its parameters "
                        "are not there: call the ShardedParameters, or use gathered() or unwrap(), on all ranks")
    return guard


def _require_open_output(leaf: Any) -> None:
    """Refuses objects that hold tensors which would go unnoticed, and their backward with them."""
    inside: List[Any] = []
    if not isinstance(leaf, (torch.Tensor, str, bytes)):
        names = [name for kind in type(leaf).__mro__ for name in getattr(kind, "__slots__", ())]
        inside += [getattr(leaf, name, None) for name in names] + list(getattr(leaf, "__dict__", {}).values())
        inside += leaf.values() if isinstance(leaf, Mapping) else leaf if isinstance(leaf, (list, tuple, set)) else ()
    if any(isinstance(one, torch.Tensor) and one.requires_grad for one in _pytree.tree_leaves(inside)):
        raise Error("Unsupported", f"the model returns a {type(leaf).__name__} that holds tensors, whose backward cannot be observed: "
                    "return tensors, or lists, tuples and dicts of them")


class ShardedParameters:
    """Each rank keeps some rows of every parameter, of its gradient and of the optimizer's state.

    The model is one unit: whole parameters exist from the beginning of a forward to the end of its backward, in the model's
    own parameters. team: ranks; reduction: "mean" if they have their own samples, "sum" if their losses are parts of one.
    replicas: teams over which everything is replicated, with their rules. elementwise: classes of optimizers of your own that
    update each element from its own gradient; those of torch.optim are known, and all others are refused, because a rank has
    some rows only. torch.amp.GradScaler and torch.nn.utils.clip_grad_norm_ act as on whole parameters.
    Errors: NoParameters, ReplicaMismatch, WrongState, UnsupportedTensor; Unsupported from the step of an optimizer.
    Example:
        sharded = graticule.ShardedParameters(model, team)
        optimizer = torch.optim.Adam(sharded.parameters())
        loss_of(sharded(x), y).backward()
        optimizer.step()
    """

    def __init__(self, model: nn.Module, team: Team = None, reduction: str = "mean", replicas: Rules = (), *,
                 elementwise: Sequence[Type[Any]] = ()) -> None:
        self._model = model
        self._whole = _Parameters(model, "ShardedParameters")
        self._object = _core.ShardedParameters(_mirror(model), handle_of(team), reduction, _rules(replicas))
        self._rows: Dict[int, torch.Tensor] = {id(row): row for _, row in self._object.named_parameters()}
        self._elementwise = tuple(elementwise)
        self._whole_now = 0
        guard = _guard_of(weakref.ref(self))
        self._guards = [module.register_forward_pre_hook(guard) for module in model.modules()]
        watch(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's forward; it returns tensors, or lists, tuples and dicts of them. Collective."""
        self._require_open()
        self._whole.require_same()
        leaves: List[Any] = []
        spec: List[Any] = []

        def forward() -> List[torch.Tensor]:
            with self._being_whole():
                found, structure = _pytree.tree_flatten(self._model(*args, **kwargs))
            for leaf in found:
                _require_open_output(leaf)
            leaves[:], spec[:] = found, [structure]
            return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]

        outputs = iter(self._object.forward(forward))
        return _pytree.tree_unflatten([next(outputs) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec[0])

    @contextlib.contextmanager
    def _being_whole(self) -> Iterator[None]:
        self._whole_now += 1
        try:
            yield
        finally:
            self._whole_now -= 1

    def _require_open(self) -> None:
        if not self._rows:
            raise Error("WrongState", "the model was unwrapped: its parameters are whole again")

    def _before_step(self, optimizer: Any, tensors: Set[int], has_closure: bool) -> None:
        kind = type(optimizer)
        if tensors & self._whole.ids:
            raise Error("WrongState", f"{kind.__name__} was made of the model's own parameters, which get no gradients while their "
                        "rows are sharded: make it of parameters() of the ShardedParameters")
        if tensors & self._rows.keys() and kind not in ELEMENTWISE and not isinstance(optimizer, self._elementwise):
            raise Error("Unsupported", f"{kind.__name__} may use more of a parameter than the element that it updates, and this rank has "
                        "some rows only: use another optimizer of torch.optim, such as AdamW, or name the class in `elementwise` of "
                        "ShardedParameters if it updates each element from its own gradient alone")

    def _agree_on_infinite(self, tensors: Set[int], own: float) -> float:
        return self._object.largest(own) if tensors & self._rows.keys() else own

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
            with self._being_whole():
                yield
        finally:
            scope.close()

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scales all gradients to a norm of at most max_norm. Returns the norm before. Collective."""
        return self._object.clip_grad_norm(max_norm)

    def unwrap(self) -> None:
        """Gives the model its whole parameters back; the object cannot be used any more. Collective."""
        self._require_open()
        self._object.unwrap()
        for guard in self._guards:
            guard.remove()
        self._rows = {}
        self._whole.ids = set()

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
