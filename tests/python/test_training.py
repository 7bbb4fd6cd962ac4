# SPDX-License-Identifier: BSD-3-Clause
"""Data parallelism, DASO, sharded parameters and checkpoints on models of PyTorch."""
import collections
import copy
import dataclasses
import os
import shutil
import subprocess
import tempfile

import torch
from support import COMM, RANK, RANKS, close, main, raises, skip
from torch import nn

import graticule


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).double().eval()


def batch(step, rank=None):
    """Each rank's samples; those of all ranks with None."""
    torch.manual_seed(100 + step)
    x = torch.randn(RANKS * 4, 5, dtype=torch.double)
    y = torch.sin(x[:, :2]) + 0.3 * x[:, 2:4]
    return (x, y) if rank is None else (x[4 * rank:4 * rank + 4], y[4 * rank:4 * rank + 4])


def loss_of(net, data):
    return (net(data[0]) - data[1]).square().mean()


def serial_steps(steps=4):
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(net, batch(step)).backward()
        optimizer.step()
    return net


def same(net, other, tolerance=1e-12):
    for (name, a), b in zip(net.named_parameters(), other.parameters()):
        close(a, b, tolerance)


def test_data_parallel_is_training_on_the_whole_batch():
    net = model()
    if RANK:
        with torch.no_grad():
            net[0].weight.zero_()  # the first rank's counts
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    with graticule.DataParallel(net, [(COMM, "mean")], optimizer, buffers="broadcast") as parallel:
        for step in range(4):
            optimizer.zero_grad()
            loss_of(net, batch(step, RANK)).backward()
            parallel.synchronize()
            parallel.step()
        same(net, serial_steps())
        norm = parallel.clip_gradients(1e-3)
        assert norm > 1e-3
        assert abs(torch.sqrt(sum(p.grad.square().sum() for p in net.parameters())).item() - 1e-3) < 1e-6
        parallel.sync_buffers()
    raises("WrongState", parallel.step)


def test_gradients_wait_for_the_last_of_several_passes():
    net, other = model(), model()
    parallel = graticule.DataParallel(net, [(COMM, "mean")])
    with parallel.no_sync():
        loss_of(net, batch(0, RANK)).backward()
    loss_of(net, batch(1, RANK)).backward()
    (loss_of(other, batch(0)) + loss_of(other, batch(1))).backward()
    for a, b in zip(net.parameters(), other.parameters()):
        close(a.grad, b.grad)
    net.zero_grad()
    with parallel.no_sync():
        loss_of(net, batch(0, RANK)).backward()
        loss_of(net, batch(1, RANK)).backward()
    parallel.reduce()
    for a, b in zip(net.parameters(), other.parameters()):
        close(a.grad, b.grad)
    raises("WrongState", parallel.step)
    parallel.close()


def test_a_failed_pass_is_an_error_on_all_ranks():
    net = model()
    parallel = graticule.DataParallel(net, [(COMM, "mean")])

    def training_pass(fails):
        loss_of(net, batch(0, RANK)).backward()
        if fails and RANK == 0:
            raise ValueError("on purpose")

    parallel.run(lambda: training_pass(False))
    try:
        parallel.run(lambda: training_pass(True))
    except (ValueError, graticule.Error) as error:
        assert "on purpose" in str(error), error
    else:
        raise AssertionError("no error")
    parallel.run(lambda: training_pass(False))
    parallel.close()


def test_bad_arguments_of_data_parallel():
    net = model()
    raises("BadOption", lambda: graticule.DataParallel(net, [(COMM, "max")]), "reduction", "'max'")
    raises("BadOption", lambda: graticule.DataParallel(net, [(COMM, "mean")], wire="f8"), "wire", "'f8'")
    frozen = model().requires_grad_(False)
    raises("NoParameters", lambda: graticule.DataParallel(frozen, [(COMM, "mean")]))
    if RANKS > 1:
        raises("ReplicaMismatch", lambda: graticule.DataParallel(nn.Linear(2 + RANK, 2), [(COMM, "mean")]))


def test_gradient_sync():
    net = model()
    sync = graticule.GradientSync(net, [(COMM, "mean")])
    sync.set_rules("0.bias", [(COMM, "sum")])
    sync.broadcast()
    for p in net.parameters():
        p.grad = torch.full_like(p, RANK + 1.0)
    sync.reduce()
    mean = (RANKS + 1) / 2
    assert (net[0].weight.grad == mean).all() and (net[0].bias.grad == mean * RANKS).all()
    raises("UnknownName", lambda: sync.set_rules("7.weight", []), "7.weight")


def test_daso_trains_each_rank_as_a_node():
    net = model()
    means = []
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    with graticule.Daso(net, optimizer, 4, COMM, warmup_epochs=1, cooldown_epochs=1, node=RANK) as daso:
        daso.set_last_batch(7)
        for _ in range(4):
            losses = []
            for step in range(8):
                daso.zero_grad()
                loss = loss_of(net, batch(step, RANK))
                loss.backward()
                daso.step()
                losses.append(loss.item())
            means.append(sum(losses) / 8)
            daso.epoch_loss(means[-1])
        daso.drain()
        daso.synchronize()
        assert RANKS == 1 or daso.num_sent > 0
    assert means[-1] < means[0], means
    all_weights = COMM.allgather(net[0].weight.tolist())
    assert all(w == all_weights[0] for w in all_weights)
    raises("BadOption", lambda: graticule.Daso(net, optimizer, -1, COMM), "-1")


def test_sharded_parameters_train_as_whole_ones():
    net = model()
    sharded = graticule.ShardedParameters(net, COMM)
    optimizer = torch.optim.Adam(sharded.parameters(), 0.01)
    for step in range(4):
        optimizer.zero_grad()
        x, y = batch(step, RANK)
        (sharded(x) - y).square().mean().backward()
        optimizer.step()
    expected = serial_steps()
    with sharded.gathered():
        same(net, expected)
    total = sum(p.numel() * 8 for p in net.parameters())
    assert COMM.allreduce(sharded.shard_bytes) == total
    assert [name for name, _ in sharded.named_parameters()] == [name for name, _ in expected.named_parameters()]
    optimizer.zero_grad()
    x, y = batch(9, RANK)
    (sharded(x) - y).square().mean().backward()
    assert sharded.clip_grad_norm(1e-3) > 1e-3
    sharded.unwrap()
    same(net, expected)


def folder_of_all():
    return COMM.bcast(tempfile.mkdtemp(prefix="graticule-python-") if RANK == 0 else None)


def test_checkpoints_of_models():
    folder = folder_of_all()
    net = serial_steps()
    graticule.save_model(folder, 4, net, COMM)
    path = os.path.join(folder, sorted(os.listdir(folder))[-1])
    other = model()
    graticule.load_model(path, other, COMM)
    same(other, net, 0)
    close(other[1].running_mean, net[1].running_mean, 0)
    raises("StateMismatch", lambda: graticule.load_model(path, nn.Linear(5, 8).double(), COMM), "0.weight")
    raises("NoSuchFile", lambda: graticule.load_model(path + "x", other, COMM))
    with torch.no_grad():
        net[0].weight += RANK
    if RANKS > 1:
        raises("ReplicaMismatch", lambda: graticule.save_model(folder, 5, net, COMM), "0.weight")
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def test_a_sharded_model_saves_the_serial_one():
    folder = folder_of_all()
    domain = graticule.Domain(COMM)
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), graticule.nn.SelfAttention(2, 1))
    plain = copy.deepcopy(net)
    graticule.shard(net, domain)
    graticule.save_model(folder, 0, net, COMM)
    with torch.no_grad():
        for p in plain.parameters():
            p.zero_()
    graticule.load_model(os.path.join(folder, sorted(os.listdir(folder))[-1]), plain, COMM)
    same(plain, net, 0)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def test_a_folder_is_not_a_checkpoint():
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    raises("UnreadableFile", lambda: graticule.load_model(folder, model(), COMM), folder, "it has none")
    graticule.save_model(folder, 3, model(), COMM)
    error = raises("UnreadableFile", lambda: graticule.load_model(folder, model(), COMM), "the newest one is")
    graticule.load_model(error.text.rsplit(" ", 1)[1], model(), COMM)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


class Held(nn.Module):
    """With a module that has no values on some ranks."""

    def __init__(self, odd):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.odd = odd


def test_models_without_values_are_refused_on_all_ranks():
    makers = {"lazy": lambda: nn.LazyLinear(3), "lazy norm": lambda: nn.LazyBatchNorm1d(), "meta": lambda: nn.Linear(4, 3, device="meta"),
              "meta buffer": lambda: nn.BatchNorm1d(3, affine=False, device="meta")}
    folder = folder_of_all()
    path = saved(folder, model())
    for name, make in makers.items():
        for odd_one in (None, 0, RANKS - 1):
            if odd_one is not None and name.startswith("lazy"):
                continue  # of another shape: ReplicaMismatch
            other = {"meta": nn.Linear(4, 3), "meta buffer": nn.BatchNorm1d(3, affine=False)}.get(name)
            net = Held(make() if odd_one in (None, RANK) else other)
            optimizer = torch.optim.SGD(net.first.parameters(), 0.1)
            doors = [lambda: graticule.GradientSync(net, [(COMM, "mean")]), lambda: graticule.DataParallel(net, [(COMM, "mean")]),
                     lambda: graticule.ShardedParameters(net, COMM), lambda: graticule.Daso(net, optimizer, 3, COMM, warmup_epochs=1,
                                                                                           cooldown_epochs=1)]
            doors.append(lambda: graticule.save_model(folder, 9, net, COMM))
            if odd_one is None:
                doors.append(lambda: graticule.load_model(path, net, COMM))
            for door in doors:
                raises("UnsupportedTensor", door, "'odd.", "no values")
    net = Held(nn.LazyLinear(3))
    net.odd(torch.ones(1, 4))
    graticule.GradientSync(net, [(COMM, "mean")]).broadcast()
    same_on_all(net)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def saved(folder, net):
    graticule.save_model(folder, 0, net, COMM)
    return os.path.join(folder, sorted(os.listdir(folder))[-1])


def same_on_all(net):
    every = COMM.allgather([p.tolist() for p in net.parameters()])
    assert all(one == every[0] for one in every)


def test_a_lazy_module_that_has_run_on_some_ranks_is_refused_on_all():
    if RANKS == 1:
        skip("one rank has no other")
    net = Held(nn.LazyLinear(3))
    if RANK == 0:
        net.odd(torch.ones(1, 4))
    for door in (lambda: graticule.GradientSync(net, [(COMM, "mean")]), lambda: graticule.DataParallel(net, [(COMM, "mean")]),
                 lambda: graticule.ShardedParameters(net, COMM)):
        raises("UnsupportedTensor", door, "'odd.", "no values")


def test_parameters_that_are_replaced_or_added_are_found():
    def changes(net):
        net[0].weight = nn.Parameter(net[0].weight.detach() * 2)

    def adds(net):
        net.add_module("adapter", nn.Linear(2, 2).double())

    for change, name in ((changes, "0.weight"), (adds, "adapter.weight")):
        net = model()
        sync = graticule.GradientSync(net, [(COMM, "mean")])
        sync.broadcast()
        change(net)
        raises("ParametersChanged", sync.reduce, name)
        raises("ParametersChanged", sync.broadcast, name)
        net = model()
        with graticule.DataParallel(net, [(COMM, "mean")], torch.optim.SGD(net.parameters(), 0.1)) as parallel:
            loss_of(net, batch(0, RANK)).backward()
            change(net)
            raises("ParametersChanged", parallel.step, name)
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        with graticule.Daso(net, optimizer, 3, COMM, warmup_epochs=1, cooldown_epochs=1) as daso:
            daso.set_last_batch(2)
            change(net)
            raises("ParametersChanged", daso.step, name)
    net = model()
    sharded = graticule.ShardedParameters(net, COMM)
    adds(net)
    raises("ParametersChanged", lambda: sharded(batch(0, RANK)[0]), "adapter.weight")


def test_ranks_with_different_numbers_of_batches():
    num_batches = 2 + RANK % 3
    most = 2 + min(RANKS - 1, 2)
    for divisor in ("all_ranks", "active_ranks"):
        net, other = model(), model()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        serial = torch.optim.SGD(other.parameters(), 0.1)
        with graticule.DataParallel(net, [(COMM, "mean")], optimizer) as parallel:
            with graticule.Join(parallel, divisor=divisor) as join:
                for step in range(num_batches):
                    optimizer.zero_grad()
                    loss_of(net, batch(step, RANK)).backward()
                    parallel.step()
            raises("WrongState", join.finish)
            for step in range(most):
                active = [r for r in range(RANKS) if step < 2 + r % 3]
                serial.zero_grad()
                sum(loss_of(other, batch(step, r)) for r in active).div(RANKS if divisor == "all_ranks" else len(active)).backward()
                serial.step()
            same(net, other)
            optimizer.zero_grad()
            loss_of(net, batch(9, RANK)).backward()
            parallel.step()
            same_on_all(net)
            if RANKS > 1:
                join = graticule.Join(parallel, early_end="refused")
                try:
                    for step in range(1 + (RANK == 0)):
                        loss_of(net, batch(step, RANK)).backward()
                    join.finish()
                except RuntimeError as error:
                    assert "UnevenInputs" in str(error), error
                else:
                    raise AssertionError("uneven batches passed")
    raises("BadOption", lambda: graticule.Join(parallel_of(model()), divisor="some"), "divisor", "'some'")


def parallel_of(net):
    return graticule.DataParallel(net, [(COMM, "mean")])


Two = collections.namedtuple("Two", "y z")


class Opaque:
    def __init__(self, y):
        self.y = y


class Slots:
    __slots__ = ("y",)

    def __init__(self, y):
        self.y = y


@dataclasses.dataclass
class Record:
    y: torch.Tensor


class Named(dict):
    """A dict that torch does not know."""


class Returns(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.a, self.b, self.make = nn.Linear(5, 2).double(), nn.Linear(5, 2).double(), make

    def forward(self, x):
        return self.make(self.a(x), self.b(x))


def test_sharded_models_return_what_they_like():
    makers = {"dict": (lambda y, z: {"y": y, "more": [z, 3, None]}, lambda r: (r["y"], r["more"][0])),
              "named tuple": (lambda y, z: Two(y, z), lambda r: (r.y, r.z)),
              "tuple": (lambda y, z: (y, {"z": z}), lambda r: (r[0], r[1]["z"])),
              "ordered": (lambda y, z: collections.OrderedDict(b=z, a=y), lambda r: (r["a"], r["b"]))}
    for name, (make, parts) in makers.items():
        torch.manual_seed(4)
        net = Returns(make)
        other = copy.deepcopy(net)
        sharded = graticule.ShardedParameters(net, COMM)
        x = batch(0, RANK)[0]
        given = sharded(x)
        assert type(given) is type(other(x)), name
        sum(part.square().mean() for part in parts(given)).backward()
        sum(part.square().mean() for part in parts(other(batch(0)[0]))).backward()
        grads = dict(sharded.named_parameters())
        rows = slice(RANK * -(-2 // RANKS), (RANK + 1) * -(-2 // RANKS))
        for key, parameter in other.named_parameters():
            close(grads[key].grad, parameter.grad[rows])
        sharded.unwrap()
    for kind in (Opaque, Slots, Record, Named):
        sharded = graticule.ShardedParameters(Returns(lambda y, z: (y, kind(z) if kind is not Named else Named(z=z))), COMM)
        raises("Unsupported", lambda: sharded(batch(0, RANK)[0]), kind.__name__, "dicts")
    fine = graticule.ShardedParameters(Returns(lambda y, z: (y, Opaque(z.detach()), "text", torch.float32)), COMM)
    assert fine(batch(0, RANK)[0])[2:] == ("text", torch.float32)


def test_a_sharded_model_is_called_through_its_wrapper():
    net = model()
    x = batch(0, RANK)[0]
    expected = net(x)
    sharded = graticule.ShardedParameters(net, COMM)
    raises("WrongState", lambda: net(x), "Sequential", "ShardedParameters")
    raises("WrongState", lambda: net[0](x), "Linear", "ShardedParameters")
    close(sharded(x), expected)
    with sharded.gathered(), torch.no_grad():
        close(net(x), expected)
    raises("WrongState", lambda: net(x))
    sharded.unwrap()
    close(net(x), expected)
    raises("WrongState", lambda: sharded(x), "unwrapped")
    left = graticule.ShardedParameters(net, COMM)
    del left
    raises("ParametersChanged", lambda: net(batch(0, RANK)[0]), "unwrap()")


def test_reentrant_checkpoints_give_each_parameter_one_gradient():
    from torch.utils.checkpoint import checkpoint
    for unused in (False, True):
        net, other = model().train(False), model().train(False)
        if unused:
            net.add_module("rest", nn.Linear(2, 2).double())
        parallel = graticule.DataParallel(net, [(COMM, "mean")])
        for step in range(3):
            net.zero_grad()
            other.zero_grad()
            x, y = batch(step, RANK)

            def backward():
                h = checkpoint(net[2], net[1](net[0](x)), use_reentrant=True)
                loss = (checkpoint(net[3], h, use_reentrant=True) - y).square().mean()
                loss.backward()
            if unused:
                try:
                    backward()
                except RuntimeError as error:
                    assert "UnusedParameter" in str(error) and "'rest." in str(error) and "'3." not in str(error), error
                else:
                    raise AssertionError("an unused parameter passed")
                continue
            backward()
            loss_of(other, batch(step)).backward()
            for a, b in zip(net.parameters(), other.parameters()):
                close(a.grad, b.grad)
        parallel.close()


def test_a_parameter_that_is_frozen_on_one_rank_is_named():
    if RANKS == 1:
        skip("one rank has no other")
    net = model()
    sync = graticule.GradientSync(net, [(COMM, "mean")])
    loss_of(net, batch(0, RANK)).backward()
    if RANK == RANKS - 1:
        net[3].weight.requires_grad_(False)
    raises("ReplicaMismatch", sync.reduce, "3.weight", "frozen")
    sync.set_rules("3.weight", [])
    sync.reduce()
    domain = graticule.Domain(COMM)
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh(), nn.Conv2d(2, 1, 3, padding=1))
    graticule.shard(net, domain)
    x = graticule.shard_of(torch.ones(1, 1, 4 * RANKS, 6), domain)
    if RANK == 1:
        net.requires_grad_(False)
    raises("UnusedOnSomeRanks", lambda: graticule.reduce_loss(net(x).sum(), domain), "on rank 1", "frozen", "(0, Conv2d)")


def test_a_step_without_any_gradient_is_refused():
    net = model()
    with graticule.DataParallel(net, [(COMM, "mean")], torch.optim.SGD(net.parameters(), 0.1)) as parallel:
        torch.ones(2, requires_grad=True).sum().backward()
        raises("UnusedParameter", parallel.step, "does not depend on this module")


def test_sparse_gradients_are_refused_by_name():
    def embedding():
        return nn.Sequential(nn.Embedding(7, 3, sparse=True))
    tokens = torch.tensor([1, 2])

    def fails(call):
        try:
            call()
        except RuntimeError as error:
            assert all(text in str(error) for text in ("UnsupportedTensor", "'0.weight'", "sparse")), error
        else:
            raise AssertionError("a sparse gradient passed")

    net = embedding()
    sync = graticule.GradientSync(net, [(COMM, "sum")])
    net(tokens).sum().backward()
    fails(sync.reduce)
    net = embedding()
    if RANKS > 1:
        sync = graticule.GradientSync(net, [(COMM, "sum")])
        if RANK == 1:
            net(tokens).sum().backward()  # of one rank alone
        fails(sync.reduce)
    net = embedding()
    parallel = graticule.DataParallel(net, [(COMM, "sum")])
    fails(lambda: net(tokens).sum().backward())
    parallel.close()
    sharded = graticule.ShardedParameters(embedding(), COMM)
    fails(lambda: sharded(tokens).sum().backward())


main(globals())
