# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers, scalers and clipping of torch beside GradientSync, DataParallel, Daso and ShardedParameters, against one process."""
import copy
import os

import torch
from support import COMM, RANK, RANKS, close, main, raises, skip
from torch import nn

import graticule

OPTIMIZERS = {name: kind for name, kind in vars(torch.optim).items()
              if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer}
REFUSED = {"Adafactor", "LBFGS", "Muon", "SparseAdam"}
OPTIONS = {"SGD": [{"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"lr": 0.1, "fused": True}],
           "Adam": [{"amsgrad": True}, {"fused": True}, {"foreach": True}, {"maximize": True}],
           "AdamW": [{"amsgrad": True}, {"fused": True}], "Adagrad": [{"initial_accumulator_value": 0.1}, {"fused": True}],
           "RMSprop": [{"momentum": 0.9, "centered": True}], "NAdam": [{"decoupled_weight_decay": True, "weight_decay": 0.1}],
           "ASGD": [{"t0": 1}], "Adadelta": [{"weight_decay": 0.1}]}


class Net(nn.Module):
    """Parameters of fewer rows than ranks, of one element, and of rows that the ranks do not divide."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(4, 7, bias=False), nn.Linear(7, 2)
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.leave(torch.tanh(self.enter(x))) * self.gain


def nets():
    torch.manual_seed(0)
    net = Net().double()
    return net, copy.deepcopy(net)


def samples(step):
    torch.manual_seed(50 + step)
    x = torch.randn(3 * RANKS, 4, dtype=torch.double)
    return x, x[3 * RANK:3 * RANK + 3]


def same(net, serial, tolerance=1e-9):
    for (name, a), b in zip(net.named_parameters(), serial.parameters()):
        assert torch.isfinite(a).all(), name
        close(a, b, tolerance)


def train_rows(make, steps=4, **options):
    """Rows and whole parameters, trained alike."""
    net, serial = nets()
    sharded = graticule.ShardedParameters(net, COMM, "mean", **options)
    optimizer, other = make(sharded.parameters()), make(serial.parameters())
    for step in range(steps):
        x, mine = samples(step)
        optimizer.zero_grad()
        sharded(mine).square().mean().backward()
        optimizer.step()
        other.zero_grad()
        serial(x).square().mean().backward()
        other.step()
    sharded.unwrap()
    same(net, serial)


def test_optimizers_of_torch_train_rows_as_whole_parameters_or_are_refused():
    refused = set()
    for name, kind in OPTIMIZERS.items():
        for options in [{}] + OPTIONS.get(name, []):
            try:
                train_rows(lambda parameters: kind(parameters, **options))
            except graticule.Error as error:
                assert error.rule == "Unsupported" and name in str(error) and "rows" in str(error), error
                refused.add(name)
            except (RuntimeError, ValueError, TypeError) as error:  # matrices for Muon, sparse gradients for SparseAdam
                assert name in REFUSED and not isinstance(error, graticule.Error), (name, options, error)
                refused.add(name)
    assert refused == REFUSED & set(OPTIMIZERS), refused


def test_optimizers_that_use_whole_parameters_are_refused_by_name():
    kinds = [torch.optim.Adafactor, lambda p: torch.optim.Muon([t for t in p if t.dim() == 2]), torch.optim.LBFGS]
    for make in kinds:
        net = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False)).double()
        sharded = graticule.ShardedParameters(net, COMM)
        optimizer = make(sharded.parameters())
        sharded(samples(0)[1]).sum().backward()
        before = [row.detach().clone() for row in sharded.parameters()]
        error = raises("Unsupported", lambda: optimizer.step(lambda: torch.zeros(())), type(optimizer).__name__, "elementwise")
        assert "rows" in error.text
        assert all(torch.equal(a, b) for a, b in zip(before, sharded.parameters()))
        sharded.unwrap()


class Own(torch.optim.SGD):
    """One of a user's own."""


def test_an_optimizer_of_ones_own_is_vouched_for():
    raises("Unsupported", lambda: train_rows(lambda p: Own(p, 0.1)), "Own", "elementwise")
    train_rows(lambda p: Own(p, 0.1), elementwise=(Own,))


def test_an_optimizer_of_whole_parameters_of_a_sharded_model_is_refused():
    net, _ = nets()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    sharded = graticule.ShardedParameters(net, COMM)
    sharded(samples(0)[1]).sum().backward()
    raises("WrongState", optimizer.step, "SGD", "parameters()")
    sharded.unwrap()
    optimizer.step()


def scaled_training(overflows, make, clip=None):
    """With a GradScaler, over rows and whole parameters; overflows: the step's gradients of this row of the first weight."""
    net, serial = nets()
    sharded = graticule.ShardedParameters(net, COMM, "sum")
    optimizer, other = make(sharded.parameters()), make(serial.parameters())
    ours, theirs = (torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=2) for _ in range(2))
    for step in range(5):
        x, mine = samples(step)
        factor = torch.ones((), dtype=torch.double)
        for model, parameters, data, step_of, scaler in ((sharded, sharded.parameters(), mine, optimizer, ours),
                                                         (serial, list(serial.parameters()), x, other, theirs)):
            step_of.zero_grad()
            scaler.scale(model(data).square().sum() * factor).backward()
            weight = parameters[[name for name, _ in serial.named_parameters()].index("enter.weight")]
            row = overflows.get(step)
            if row is not None:
                each = -(-7 // RANKS)
                at = row - each * RANK if model is sharded else row
                if 0 <= at < weight.shape[0]:
                    weight.grad[at, 1] = float("inf")
            if clip is not None:
                scaler.unscale_(step_of)
                norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
                norms.append(norm.item())
            scaler.step(step_of)
            scaler.update()
        assert ours.get_scale() == theirs.get_scale(), (step, ours.get_scale(), theirs.get_scale())
    sharded.unwrap()
    same(net, serial)


norms = []


def test_a_scaler_skips_a_step_on_all_ranks_that_hold_rows():
    for row in range(7):
        scaled_training({1: row, 3: 6 - row}, lambda p: torch.optim.SGD(p, 0.01))
    scaled_training({0: 0, 1: 6}, lambda p: torch.optim.Adam(p, 0.01, fused=True))
    scaled_training({2: 3}, lambda p: torch.optim.Adam(p, 0.01), clip=0.1)


def test_a_scaler_of_rules_of_ones_own_skips_a_step_on_all_ranks():
    net, _ = nets()
    sync = graticule.GradientSync(net, [(COMM, "mean")])
    sync.set_rules("gain", [])
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    scaler.scale(net(samples(0)[1]).sum()).backward()
    sync.reduce()
    if RANK == 0:
        net.gain.grad.fill_(float("inf"))
    before = net.enter.weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 32.0 and torch.equal(net.enter.weight, before)


def test_a_scaler_beside_data_parallel_and_gradient_sync_stays_alike():
    for door in ("parallel", "sync"):
        net, serial = nets()
        held = graticule.DataParallel(net, [(COMM, "sum")]) if door == "parallel" else graticule.GradientSync(net, [(COMM, "sum")])
        optimizer, other = torch.optim.SGD(net.parameters(), 0.01), torch.optim.SGD(serial.parameters(), 0.01)
        ours, theirs = (torch.amp.GradScaler("cpu", init_scale=2.0 ** 10) for _ in range(2))
        for step in range(3):
            x, mine = samples(step)
            if step == 1:
                x[-1, 0] = float("inf")  # of the last rank alone
                mine = x[3 * RANK:3 * RANK + 3]
            for model, data, step_of, scaler in ((net, mine, optimizer, ours), (serial, x, other, theirs)):
                step_of.zero_grad()
                scaler.scale(model(data).square().sum()).backward()
                if model is net and door == "sync":
                    held.reduce()
                scaler.step(step_of)
                scaler.update()
            assert ours.get_scale() == theirs.get_scale()
        same(net, serial)
        if door == "parallel":
            held.close()


def test_a_scaler_that_unscales_before_the_reduction_skips_a_step_on_all_ranks():
    """Whoever reduces: a GradientSync, or the program by a sum of its own over the ranks of a sharded model."""
    domain = graticule.Domain(COMM)
    x = graticule.shard_of(torch.linspace(-1, 1, 24 * RANKS).reshape(1, 1, 4 * RANKS, 6), domain)
    for door in ("sync", "own sum"):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 1, 1))
        graticule.shard(net, domain)
        optimizer, scaler = torch.optim.SGD(net.parameters(), 0.01), torch.amp.GradScaler("cpu", init_scale=64.0)
        sync = graticule.GradientSync(net, [(COMM, "sum")]) if door == "sync" else None
        for step in range(3):
            before = net[0].weight.detach().clone()
            optimizer.zero_grad()
            scaler.scale(graticule.reduce_loss(net(x).square().sum(), domain)).backward()
            if step == 1 and RANK == RANKS - 1:
                net[0].weight.grad[0, 0, 0, 0] = float("inf")
            scaler.unscale_(optimizer)
            if sync is not None:
                sync.reduce()
            else:
                for p in net.parameters():
                    p.grad = graticule.all_sum(p.grad, domain).detach()
            scaler.step(optimizer)
            scaler.update()
            assert torch.equal(net[0].weight, before) == (step == 1), (door, step)
        assert scaler.get_scale() == 32.0


def test_norms_of_rows_are_those_of_whole_gradients():
    for norm_type in (1.0, 2.0, 3.5, float("inf")):
        net, serial = nets()
        sharded = graticule.ShardedParameters(net, COMM, "mean")
        x, mine = samples(3)
        beside = nn.Parameter(torch.tensor([2.0, -1.0], dtype=torch.double))  # whole on all ranks
        beside.grad = torch.tensor([0.25, 4.0], dtype=torch.double)
        other = copy.deepcopy(beside)
        other.grad = beside.grad.clone()
        sharded(mine).square().mean().backward()
        serial(x).square().mean().backward()
        rows, whole = sharded.parameters() + [beside], list(serial.parameters()) + [other]
        total = torch.nn.utils.get_total_norm([row.grad for row in rows], norm_type)
        norm = torch.nn.utils.clip_grad_norm_(iter(rows), 0.01, norm_type)
        expected = torch.nn.utils.clip_grad_norm_(whole, 0.01, norm_type)
        close(norm, expected)
        close(total, expected)
        close(beside.grad, other.grad)
        raises("WrongState", lambda: torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01), "parameters()")
        each = -(-7 // RANKS)
        close(dict(sharded.named_parameters())["enter.weight"].grad, serial.enter.weight.grad[each * RANK:each * RANK + each])
        sharded.unwrap()


def test_norms_of_rows_that_are_not_finite():
    for norm_type in (2.0, float("inf")):
        for bad in (float("nan"), float("inf")):
            net, _ = nets()
            sharded = graticule.ShardedParameters(net, COMM, "mean")
            sharded(samples(0)[1]).sum().backward()
            row = dict(sharded.named_parameters())["leave.bias"]  # of two elements
            if RANK == 0:
                row.grad[0] = bad
            try:
                torch.nn.utils.clip_grad_norm_(sharded.parameters(), 1.0, norm_type, error_if_nonfinite=True)
            except RuntimeError as error:
                assert "non-finite" in str(error)
            else:
                raise AssertionError("a norm that is not finite passed")
            sharded.unwrap()


def test_a_step_without_reduced_gradients_is_found():
    net, serial = nets()
    sync = graticule.GradientSync(net, [(COMM, "mean")])
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step(data, reduces=True):
        optimizer.zero_grad()
        net(data).square().mean().backward()
        if reduces:
            sync.reduce()
        optimizer.step()

    for number in range(3):
        step(samples(number)[1])
    if RANKS > 1:
        raises("ReplicaMismatch", lambda: step(samples(3)[1], reduces=False), "the gradient of", "reduced (GradientSync")
    step(samples(4)[0], reduces=False)  # equal by other means: the same samples on all ranks
    step(samples(5)[1])
    if RANKS > 1:
        never = graticule.GradientSync(serial, [(COMM, "sum")])
        other = torch.optim.Adam(serial.parameters())
        serial(samples(6)[1]).sum().backward()
        raises("ReplicaMismatch", other.step, "the gradient of 'gain'")
        del never


def test_a_step_of_a_sharded_model_that_nothing_reduces_is_found():
    domain = graticule.Domain(COMM)
    torch.manual_seed(3)
    x = graticule.shard_of(torch.randn(1, 1, 4 * RANKS, 6), domain)

    def sharded():
        net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh(), nn.Conv2d(2, 1, 1))
        with torch.no_grad():
            for p in net.parameters():
                p.fill_(0.1)
        graticule.shard(net, domain)
        return net, torch.optim.Adam(net.parameters(), 0.01)

    def backward(net):
        net.zero_grad()
        graticule.reduce_loss((net(x) - x).square().sum(), domain).backward()

    net, optimizer = sharded()
    backward(net)
    if RANKS > 1:
        raises("ReplicaMismatch", optimizer.step, "the gradient of '0.weight'", "GradientSync")
    for p in net.parameters():  # by other means
        p.grad = graticule.all_sum(p.grad, domain).detach()
    optimizer.step()
    for _ in range(2):
        backward(net)
        sync = graticule.GradientSync(net, [(COMM, "sum")])
        sync.reduce()
        optimizer.step()
    program = graticule.shard_program(nn.Sequential(nn.Conv2d(1, 1, 3, padding=1)), domain)
    with torch.no_grad():
        for p in program.parameters():
            p.fill_(0.1)
    optimizer = torch.optim.Adam(program.parameters(), 0.01)
    backward(program)
    if RANKS > 1:
        raises("ReplicaMismatch", optimizer.step, "the gradient of '0.weight'", "GradientSync")
    net, optimizer = sharded()
    with graticule.DataParallel(net, [(COMM, "sum")], optimizer) as parallel:
        backward(net)
        parallel.step()


def test_check_mode_compares_parameters_and_gradients_before_each_step():
    if os.environ.get("GRATICULE_CHECK") not in ("comm", "all"):
        skip("this claim is about check mode, GRATICULE_CHECK=comm")
    if RANKS == 1:
        skip("one rank has nothing to compare")
    net, serial = nets()
    with torch.no_grad():
        net.gain += RANK
    sync = graticule.GradientSync(net, [(COMM, "mean")])  # and no broadcast
    net(samples(0)[1]).sum().backward()
    sync.reduce()
    with torch.no_grad():
        for p in net.parameters():
            p.grad.zero_()
    raises("ReplicaMismatch", torch.optim.SGD(net.parameters(), 0.1).step, "gain", "broadcast")
    sync.broadcast()
    sync.reduce()
    sync.require_equal()
    net.gain.grad += RANK  # by an own clipping, say
    raises("ReplicaMismatch", torch.optim.SGD(net.parameters(), 0.1).step, "the gradient of 'gain'")
    with graticule.DataParallel(serial, [(COMM, "mean")]) as parallel:
        optimizer = torch.optim.SGD(serial.parameters(), 0.1)
        with parallel.no_sync():
            serial(samples(0)[1]).sum().backward()
        raises("ReplicaMismatch", optimizer.step, "the gradient of")


def test_gradients_and_parameters_are_compared_on_request():
    net, _ = nets()
    sync = graticule.GradientSync(net, [(COMM, "mean")])
    net(samples(0)[1]).sum().backward()
    if RANKS > 1:
        raises("ReplicaMismatch", sync.require_equal, "the gradient of")
    sync.reduce()
    sync.require_equal()


def test_a_step_beside_daso_is_refused():
    net, _ = nets()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    raises("Unsupported", lambda: graticule.Daso(net, torch.optim.LBFGS(net.parameters()), 3, COMM, warmup_epochs=1, cooldown_epochs=1),
           "LBFGS")
    with graticule.Daso(net, optimizer, 3, COMM, warmup_epochs=1, cooldown_epochs=1) as daso:
        daso.set_last_batch(3)
        net(samples(0)[1]).sum().backward()
        raises("WrongState", optimizer.step, "SGD", "Daso")
        daso.step()
    optimizer.step()


def test_lbfgs_searches_alike_on_all_ranks():
    net, serial = nets()
    optimizer, other = (torch.optim.LBFGS(m.parameters(), max_iter=5, line_search_fn="strong_wolfe") for m in (net, serial))
    x, mine = samples(0)

    def closure_of(model, step_of, data):
        def closure():
            step_of.zero_grad()
            loss = (model(data) - 1).square().mean()
            loss.backward()
            return loss
        return closure

    with graticule.DataParallel(net, [(COMM, "mean")], optimizer) as parallel:
        raises("WrongState", parallel.step, "LBFGS", "step(closure)")
        for _ in range(3):
            loss = parallel.step(closure_of(net, optimizer, mine))
            expected = other.step(closure_of(serial, other, x))
            assert abs(loss - expected.item()) < 1e-9, (loss, expected)
        same(net, serial, 1e-7)

        def fails():
            if RANK == 0:
                raise ValueError("on purpose")
            return closure_of(net, optimizer, mine)()

        try:
            parallel.step(fails)
        except (ValueError, RuntimeError) as error:
            assert "on purpose" in str(error), error
        else:
            raise AssertionError("no error")


def test_a_search_with_the_loss_of_a_whole_field():
    torch.manual_seed(3)
    serial, x, y = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 1, 1)).double(), torch.randn(2, 3, 2 * RANKS + 1, 5), 0.3
    x = x[:, :1].double()
    net, partial, by_sync = (copy.deepcopy(serial) for _ in range(3))
    domain = graticule.Domain(COMM)
    mine, loss_of = graticule.shard_of(x, domain), graticule.nn.MSELoss(domain)

    def closure_of(model, optimizer, loss, after=lambda: None):
        def closure():
            optimizer.zero_grad()
            value = loss(model)
            value.backward()
            after()
            return value
        return closure

    def search(model):
        return torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")

    other = search(serial)
    expected = [other.step(closure_of(serial, other, lambda model: (model(x) - y).square().mean())).item() for _ in range(3)]
    # The loss of graticule.nn is the whole field's on every rank; a sum over the cells of a rank is a part of it.
    for model, loss in ((net, lambda model: loss_of(model(mine), torch.full_like(mine, y))), (partial, lambda model: (model(mine) - y).square().sum() / x.numel())):
        sharded, optimizer = graticule.shard_program(model, domain), search(model)
        with graticule.DataParallel(model, [(COMM, "sum")], optimizer) as parallel:
            found = [parallel.step(closure_of(sharded, optimizer, loss)) for _ in range(3)]
        assert max(abs(a - b) for a, b in zip(found, expected)) < 1e-9, (found, expected)
        same(model, serial, 1e-7)
    # A reduction that is left out is found by the first closure, before ranks search for different lengths of time.
    sharded, optimizer = graticule.shard_program(by_sync, domain), search(by_sync)
    sync = graticule.GradientSync(by_sync, [(COMM, "sum")])
    whole = closure_of(sharded, optimizer, lambda model: loss_of(model(mine), torch.full_like(mine, y)), sync.reduce)
    assert max(abs(optimizer.step(whole).item() - b) for b in expected[:1]) < 1e-9
    if RANKS > 1:
        forgotten = closure_of(sharded, optimizer, lambda model: loss_of(model(mine), torch.full_like(mine, y)))
        raises("ReplicaMismatch", lambda: optimizer.step(forgotten), "gradient of")


def test_gradients_that_are_clipped_before_they_are_summed():
    net, _ = nets()
    x, mine = samples(0)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for reduction in ("sum", "mean"):
        sync = graticule.GradientSync(net, [(COMM, reduction)])
        for _ in range(2):  # the right order, and a step that is left out
            optimizer.zero_grad()
            net(mine).square().mean().backward()
            sync.reduce()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.zero_grad()
        net(mine).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        if reduction == "sum":
            raises("WrongState", sync.reduce, "clip after reduce()")
        else:
            sync.reduce()  # some train so: each rank's own gradient is bounded


def test_an_optimizer_with_a_closure_that_needs_none():
    net, serial = nets()
    x, mine = samples(0)
    optimizer, other = torch.optim.SGD(net.parameters(), 0.1), torch.optim.SGD(serial.parameters(), 0.1)

    def closure():
        optimizer.zero_grad()
        loss = net(mine).square().mean()
        loss.backward()
        return loss

    with graticule.DataParallel(net, [(COMM, "mean")], optimizer) as parallel:
        loss = parallel.step(closure)
    expected = serial(x).square().mean()
    expected.backward()
    other.step()
    assert abs(loss - expected.item()) < 1e-12
    same(net, serial)


def test_a_loss_without_a_gradient_has_no_backward():
    domain = graticule.Domain(COMM)
    torch.manual_seed(3)
    net, x = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1)), torch.randn(1, 1, 4 * RANKS, 6)
    sharded = copy.deepcopy(net)
    graticule.shard(sharded, domain)
    part = graticule.shard_of(x, domain)
    with torch.no_grad():
        y = sharded(part)
    losses = [graticule.reduce_loss(y.square().sum(), domain), graticule.reduce_loss(sharded(part).detach().sum(), domain),
              graticule.nn.MSELoss(domain)(y, torch.zeros_like(y))]
    for loss in losses:
        try:
            loss.backward()
        except RuntimeError as error:
            assert "does not require grad" in str(error), error
        else:
            raise AssertionError("a network without gradients trained without a word")
    weight = torch.ones(2, requires_grad=True)
    partial = weight.sum() if RANK == 0 else torch.ones(())  # of one rank alone
    graticule.reduce_loss(partial, domain).backward()
    assert (weight.grad is None) == (RANK != 0)


main(globals())
