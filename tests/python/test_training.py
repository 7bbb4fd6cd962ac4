# SPDX-License-Identifier: BSD-3-Clause
"""Data parallelism, DASO, sharded parameters and checkpoints on models of PyTorch."""
import copy
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


main(globals())
