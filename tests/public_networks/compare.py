# SPDX-License-Identifier: BSD-3-Clause
"""mpiexec -n RANKS compare.py [--shard] NAME...: networks of networks.py through graticule.shard_program against the serial model, in f64.
With --shard through graticule.shard.

Rank 0 writes one line of JSON for each network: the result ("exact", "refused", "wrong", "cannot be captured", "fails serially",
"not installed"), the largest differences, nodes and seconds. Each rank computes the serial model itself. Modules are in training;
dropout and stochastic depth drop nothing.
"""
import importlib.util
import json
import logging
import sys
import time
import warnings

import torch
import torch._export.serde.serialize  # with the names of types as they are, see networks.wide_casts
from mpi4py import MPI
from torch.utils import _pytree as pytree

import graticule
import networks

COMM = MPI.COMM_WORLD
NUM_STEPS = 4
SHARD = "--shard" in sys.argv


def declare_vision_operators():
    """torchvision's wheel on PyPI is built for CUDA: beside a torch for CPUs its operators, which no network here needs, do not load."""
    kept = []
    if importlib.util.find_spec("torchvision") is not None:
        try:
            import torchvision  # noqa: F401
        except RuntimeError:
            for name in list(sys.modules):
                if name.split(".")[0] == "torchvision":
                    del sys.modules[name]
            for name in ("nms", "qnms"):
                kept.append(torch.library.Library("torchvision", "FRAGMENT"))
                kept[-1].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return kept


def without_drops(module):
    for part in module.modules():
        name = type(part).__name__
        for attribute in ("p", "drop_prob", "dropout_p", "attn_drop_p", "dropout_prob", "_drop_connect_rate"):
            if isinstance(getattr(part, attribute, None), float) and ("Drop" in name or "StochasticDepth" in name or attribute != "p"):
                setattr(part, attribute, 0.0)
        if hasattr(getattr(part, "_global_params", None), "drop_connect_rate"):  # a named tuple
            part._global_params = part._global_params._replace(drop_connect_rate=0.0)


def uneven(rows):
    """Sizes of parts: the first rank has the most, and no two have the same; a rank may have few rows, none is empty."""
    parts = COMM.size
    if parts == 1:
        return [rows]
    sizes = [max(1, rows * (parts - i) // (parts * (parts + 1) // 2) - i) for i in range(1, parts)]
    return [rows - sum(sizes), *sizes]


def tensors_of(result):
    return [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def weighted(outputs):
    """The sum of real outputs times numbers that do not depend on the rank."""
    total = 0.0
    for number, y in enumerate(outputs):
        factors = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(100 + number))
        total = total + scaled(y, factors.to(y.real.dtype))
    return total


def scaled(y, factors):
    return (torch.view_as_real(y.resolve_conj()).sum(-1) * factors).sum() if y.is_complex() else (y * factors).sum()


def differentiable(outputs):
    return [y for y in outputs if y.is_floating_point() or y.is_complex()]


class Cut:
    """This rank's part of each output, which is cut along one axis or whole."""

    def __init__(self, outputs, axes, wanted):
        self.axes = axes
        self.ranges = []
        for y, axis, whole in zip(outputs, axes, wanted):
            if axis is None:
                self.ranges.append(None)
                continue
            sizes = COMM.allgather(y.shape[axis])
            if sum(sizes) != whole.shape[axis]:
                raise AssertionError(f"output axis {axis} has {sizes} of {whole.shape[axis]} rows")
            self.ranges.append((sum(sizes[:COMM.rank]), sizes[COMM.rank]))

    def part(self, whole, number):
        if self.axes[number] is None:
            return whole
        return whole.narrow(self.axes[number], *self.ranges[number])

    def loss(self, outputs, wanted):
        total = 0.0
        for number, (y, whole) in enumerate(zip(outputs, wanted)):
            factors = torch.randn(whole.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(100 + number))
            own = 1.0 if self.axes[number] is not None or COMM.rank == 0 else 0.0
            total = total + own * scaled(y, self.part(factors, number).to(y.real.dtype))
        return total


def gap(found, wanted, floor=0.0):
    """The largest difference, of that of the largest value."""
    if found.shape != wanted.shape:
        return float("inf")
    if wanted.numel() == 0:
        return 0.0
    found, wanted = found.detach(), wanted.detach()
    if not (wanted.is_floating_point() or wanted.is_complex()):
        return 0.0 if torch.equal(found, wanted) else float("inf")
    both = torch.isnan(found) & torch.isnan(wanted)
    difference = torch.where(both | (found == wanted), torch.zeros_like(wanted.abs()), (found - wanted).abs()).max().item()
    size = torch.nan_to_num(wanted.abs(), posinf=0.0).max().item()
    result = difference / max(size, floor, 1e-300) if difference else 0.0
    return result if result == result else float("inf")


def largest(x):
    return 0.0 if x is None or x.numel() == 0 else x.abs().max().item()


def everywhere(value):
    return COMM.allreduce(value, op=MPI.MAX)


def call(net, inputs):
    return net(**inputs) if isinstance(inputs, dict) else net(*inputs)


def leaves_of(inputs):
    """Inputs with gradients where they are real, and these leaves."""
    given = pytree.tree_map_only(torch.Tensor, lambda x: x.clone().requires_grad_(x.is_floating_point()), inputs)
    return given, [x for x in tensors_of(given) if x.requires_grad]


def steps(model, loss_of, rate, reduce):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for _ in range(NUM_STEPS):
        model.zero_grad()
        loss_of().backward()
        reduce()
        optimizer.step()


def gradients_of(model, inputs):
    """Leaves with gradients, outputs and gradients of parameters."""
    given, leaves = leaves_of(inputs)
    outputs = differentiable(tensors_of(call(model, given)))
    weighted(outputs).backward()
    return leaves, outputs, {name: p.grad for name, p in model.named_parameters()}


class Serial:
    """The serial model's results."""

    def __init__(self, model, inputs):
        self.leaves, self.outputs, self.gradients = gradients_of(model, inputs)
        self.largest = max([largest(one) for one in self.gradients.values()] + [1e-300])
        self.changes = {}
        self.eps = torch.finfo(torch.get_default_dtype()).eps
        self.rate = 1e-3 * max([largest(p) for p in model.parameters()] + [1e-300]) / self.largest

    def rounding(self, entry):
        """How far gradients are off where inputs alone differ by a unit in their last place. Sums in another order round in each
        operator, so that ten times as much is none of their faults."""
        if not self.changes:
            for seed in range(4):
                model, inputs = made(entry)
                numbers = torch.Generator().manual_seed(seed)
                inputs = pytree.tree_map_only(torch.Tensor, lambda x: x * (1 + self.eps * torch.randint(-1, 2, x.shape, generator=numbers))
                                              if x.is_floating_point() else x, inputs)
                for name, other in gradients_of(model, inputs)[2].items():
                    if other is not None:
                        self.changes[name] = max(self.changes.get(name, 0.0), gap(other, self.gradients[name], self.floor(name)))
        return self.changes

    def floor(self, name):
        """The size that a difference of a gradient is measured by at least: of one that vanishes but for rounding, as that of a bias
        before a norm, the largest gradient."""
        vanishes = largest(self.gradients[name]) < 1e5 * self.eps * self.largest
        return self.largest if vanishes else 1e-4 * self.largest


def run(name):
    entry = networks.NETWORKS[name]
    with networks.wide_casts(entry.casts):
        return run_entry(entry)


def made(entry):
    """The module, the same on every call, and its inputs."""
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float32 if entry.single else torch.float64)
    model, inputs = entry.make()
    without_drops(model)
    if entry.single:
        return model.train(), pytree.tree_map_only(torch.Tensor, lambda x: x.float() if x.is_floating_point() else x, inputs)
    return networks.in_double(model).train(), inputs


def run_entry(entry):
    found = {}
    try:
        entry.make()  # some packages draw random numbers when they are imported
        model, inputs = made(entry)
        found["parameters"] = sum(p.numel() for p in model.parameters())
        serial = Serial(model, inputs)
    except ImportError:
        raise
    except Exception as error:
        return {**found, "result": "fails serially", "reason": f"{type(error).__name__}: {error}"}
    return {**found, **compare(entry, inputs, serial)}


def compare(entry, inputs, serial):
    domain = graticule.Domain(COMM)
    net = made(entry)[0]
    if SHARD:
        try:
            graticule.shard(net, domain, whole=entry.options.get("whole", ()))
        except graticule.Error as error:
            return {"result": "refused", "reason": str(error)}
    else:
        net = graticule.shard_program(net, domain, **entry.options)
    shape = next(x.shape for x in tensors_of(inputs) if x.dim() >= 3)
    cuts = uneven(shape[-2])
    whole_places = set()

    def part(x):
        if x.dim() < 2 or x.shape[-2:] != shape[-2:]:
            whole_places.add(id(x))
            return x
        return graticule.shard_of(x, domain, rows=cuts)

    local = pytree.tree_map_only(torch.Tensor, part, inputs)
    given, leaves = leaves_of(local)
    begin = time.time()
    try:
        outputs = differentiable(tensors_of(call(net, given)))
    except graticule.Error as error:
        kind = "cannot be captured" if "cannot be captured" in str(error) else "refused"
        return {"result": kind, "reason": str(error)}
    seconds = time.time() - begin
    if SHARD:
        axes = [y.dim() - 2 if hasattr(y, "_graticule_cuts") else None for y in outputs]
    else:
        axes = [axis for axis, y in zip(net.report.outputs, tensors_of(outputs))]
    gradients, steps = (1e-4, 1e-4) if entry.single else (1e-10, 1e-9)
    result = {"seconds": round(seconds, 1)}
    if not SHARD:
        result.update(nodes=len(net.report.nodes), gathered=sum(one.gathered for one in net.report.nodes))
    cut = Cut(outputs, axes, serial.outputs)
    out = everywhere(max(gap(y, cut.part(whole, i)) for i, (y, whole) in enumerate(zip(outputs, serial.outputs))))
    sync = graticule.GradientSync(net, [(COMM, "sum")])
    cut.loss(outputs, serial.outputs).backward()
    sync.reduce()
    wrong, rounded = [], []
    worst = 0.0
    for name, p in (net if SHARD else net.model).named_parameters():
        wanted = serial.gradients[name]
        if (p.grad is None) != (wanted is None):
            if largest(p.grad if wanted is None else wanted) > 0:
                wrong.append(f"{name} has {'no' if p.grad is None else 'a'} gradient")
            continue
        if wanted is not None:
            one = gap(p.grad, wanted, serial.floor(name))
            worst = max(worst, one)
            if one > gradients:
                rounding = serial.rounding(entry)[name]
                if one > 10 * rounding:
                    wrong.append(f"gradient of {name}: {one:.1e}")
                else:
                    rounded.append(f"{name} {one:.1e}, by rounding of the input {rounding:.1e}")
    inputs_gap = 0.0
    size = max([largest(x.grad) for x in serial.leaves] + [1e-300])
    for x, whole in zip(leaves, serial.leaves):
        if whole.grad is None:
            continue
        grad = torch.zeros_like(x) if x.grad is None else x.grad
        if x.shape == whole.shape and COMM.size > 1:
            grad = COMM.allreduce(grad)
            wanted = whole.grad
        else:
            begin = sum(cuts[:COMM.rank])
            wanted = whole.grad.narrow(-2, begin, cuts[COMM.rank])
        inputs_gap = max(inputs_gap, gap(grad, wanted, 1e-4 * size))
    inputs_gap = everywhere(inputs_gap)
    worst = everywhere(worst)
    result.update(output=out, parameters_gradient=worst, input_gradient=inputs_gap)
    result.update(after_steps(net, made(entry)[0], serial, inputs, local, cut, sync))
    if out > gradients:
        wrong.insert(0, f"output: {out:.1e}")
    if inputs_gap > gradients:
        wrong.append(f"gradient of the input: {inputs_gap:.1e}")
    if result["steps"] > steps:
        wrong.append(f"after {NUM_STEPS} steps: {result['steps']:.1e}")
    wrong = sum(COMM.allgather(wrong), [])
    return {**result, "result": "wrong" if wrong else "exact", "reason": "; ".join(dict.fromkeys(wrong or rounded))[:600]}


def after_steps(net, alone, serial, inputs, local, cut, sync):
    """The largest difference of a parameter or buffer after some steps of an optimizer, from the state at the start."""
    net.load_state_dict(alone.state_dict())
    steps(alone, lambda: weighted(differentiable(tensors_of(call(alone, inputs)))), serial.rate, lambda: None)
    steps(net, lambda: cut.loss(differentiable(tensors_of(call(net, local))), serial.outputs), serial.rate, sync.reduce)
    wanted = alone.state_dict()
    scale = max([largest(p) for p in alone.parameters()] + [1e-300])
    return {"steps": everywhere(max([gap(value, wanted[name], 1e-3 * scale) for name, value in net.state_dict().items()
                                     if isinstance(value, torch.Tensor)] + [0.0]))}


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    kept = declare_vision_operators()  # noqa: F841
    for name in [name for name in sys.argv[1:] if not name.startswith("--")]:
        if COMM.rank == 0:
            print(json.dumps({"name": name, "result": "started"}), flush=True)
        begin = time.time()
        try:
            found = run(name)
        except ImportError as error:
            found = {"result": "not installed", "reason": str(error)}
        found = {"name": name, **found, "total": round(time.time() - begin, 1)}
        if COMM.rank == 0:
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
