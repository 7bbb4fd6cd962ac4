# SPDX-License-Identifier: BSD-3-Clause
"""Process groups of torch.distributed: the back end "graticule" beside gloo, DDP, FSDP2, DeviceMesh and DTensor."""
import contextlib
import datetime
import io
import sys

import torch
import torch.distributed as dist
from support import COMM, RANK, RANKS, close, main, raises
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import graticule

Op = dist.ReduceOp


@contextlib.contextmanager
def groups(backend="gloo", comm=None):
    """torch.distributed on all ranks, and a group of the other back end: of gloo and of ours, whichever is first."""
    graticule.init_process_group(comm, backend, timeout=datetime.timedelta(seconds=60))
    try:
        yield dist.group.WORLD, dist.new_group(backend="graticule" if backend == "gloo" else "gloo")
    finally:
        dist.destroy_process_group()


def numbers(shape, dtype, seed=0):
    """Of this rank; integers, so that sums are exact in any order."""
    generator = torch.Generator().manual_seed(100 * seed + RANK)
    x = torch.randint(0, 2 if dtype == torch.bool else 7, shape, generator=generator)
    return x.to(dtype)


def fails(call, *texts):
    """torch makes a RuntimeError of what a back end throws."""
    try:
        call()
    except RuntimeError as error:
        for text in texts:
            assert text in str(error), f"{text!r} is not in {error}"
        return
    raise AssertionError(f"no error with {texts}")


SHAPES = [(), (1,), (16,), (3, 5), (0,), (2, 7, 9), (1000,)]


def test_sums_are_those_of_gloo():
    with groups() as (gloo, ours):
        for seed, shape in enumerate(SHAPES):
            for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8):
                for op in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX):
                    a = numbers(shape, dtype, seed)
                    b = a.clone()
                    dist.all_reduce(a, op, group=gloo)
                    dist.all_reduce(b, op, group=ours)
                    assert torch.equal(a, b), (shape, dtype, op, a, b)
            for dtype in (torch.int32, torch.int64, torch.uint8):
                every = [None] * RANKS
                a = numbers(shape, dtype, seed)
                dist.all_gather_object(every, a, group=gloo)
                for op, act in ((Op.BAND, torch.bitwise_and), (Op.BOR, torch.bitwise_or), (Op.BXOR, torch.bitwise_xor)):
                    b, expected = a.clone(), every[0]
                    dist.all_reduce(b, op, group=ours)
                    for other in every[1:]:
                        expected = act(expected, other)
                    assert torch.equal(b, expected), (shape, dtype, op)
        a = numbers((50,), torch.bool)
        every = [None] * RANKS
        dist.all_gather_object(every, a)
        dist.all_reduce(a, Op.SUM, group=ours)
        assert torch.equal(a, torch.stack(every).any(0))
        a = numbers((50,), torch.float32)
        dist.all_gather_object(every, a)
        dist.all_reduce(a, Op.AVG, group=ours)
        assert torch.equal(a, torch.stack(every).sum(0) / RANKS)
        a = numbers((4,), torch.complex64) * (1 + 2j)
        dist.all_gather_object(every, a)
        dist.all_reduce(a, group=ours)
        assert torch.equal(a, torch.stack(every).sum(0))


def test_sums_are_added_in_order_of_ranks():
    with groups("graticule") as (ours, gloo):
        for numel in (1, 15, 4096, 100003, 9 << 20):  # the last is longer than a piece
            for dtype in (torch.float32, torch.bfloat16):
                torch.manual_seed(RANK)
                a = (torch.randn(numel) * 10 ** torch.randint(-3, 4, (numel,))).to(dtype)
                every = [torch.empty_like(a) for _ in range(RANKS)]
                dist.all_gather(every, a)
                expected = every[0].float()
                for other in every[1:]:
                    expected = expected + other
                scattered = torch.empty(-(-numel // RANKS), dtype=dtype)
                padded = torch.cat([a, a.new_zeros(len(scattered) * RANKS - numel)])
                dist.reduce_scatter_tensor(scattered, padded)
                dist.all_reduce(a)
                assert torch.equal(a, expected.to(dtype)), (numel, dtype)
                mine = expected[RANK * len(scattered):(RANK + 1) * len(scattered)].to(dtype)
                assert torch.equal(scattered[:len(mine)], mine), (numel, dtype)


def test_movements_are_those_of_gloo():
    with groups() as (gloo, ours):
        for seed, shape in enumerate(SHAPES[1:]):
            for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8):
                x = numbers(shape, dtype, seed)
                for root in range(RANKS):
                    a, b = x.clone(), x.clone()
                    dist.broadcast(a, root, group=gloo)
                    dist.broadcast(b, root, group=ours)
                    assert torch.equal(a, b)
                    a, b = x.clone(), x.clone()
                    dist.reduce(a, root, group=gloo)
                    dist.reduce(b, root, group=ours)
                    assert torch.equal(a, b) if RANK == root else torch.equal(b, x)
                    results = []
                    for group in (gloo, ours):
                        lists = [torch.empty_like(x) for _ in range(RANKS)] if RANK == root else None
                        dist.gather(x, lists, root, group=group)
                        back = torch.empty_like(x)
                        dist.scatter(back, [2 * one for one in lists] if lists else None, root, group=group)
                        results.append((lists, back))
                    assert torch.equal(results[0][1], 2 * x) and torch.equal(results[1][1], 2 * x)
                    assert RANK != root or all(map(torch.equal, results[0][0], results[1][0]))
                results = []
                for group in (gloo, ours):
                    lists = [torch.empty_like(x) for _ in range(RANKS)]
                    dist.all_gather(lists, x, group=group)
                    if dtype.is_floating_point:
                        mine = torch.empty_like(x)
                        dist.reduce_scatter(mine, [x + rank for rank in range(RANKS)], group=ours)
                        assert torch.equal(mine, torch.stack(lists).sum(0) + RANK * RANKS)
                    whole = x.new_empty(RANKS * x.shape[0], *x.shape[1:])
                    dist.all_gather_into_tensor(whole, x, group=group)
                    assert torch.equal(whole, torch.cat(lists))
                    parts = x.new_empty(x.shape)
                    dist.reduce_scatter_tensor(parts, whole, group=group)
                    assert torch.equal(parts, RANKS * x)
                    results.append(lists)
                assert all(map(torch.equal, *results))
                for given in (ours,):
                    out = [torch.empty_like(x) for _ in range(RANKS)]
                    dist.all_to_all(out, [x + rank for rank in range(RANKS)], group=given)
                    assert all(torch.equal(one, theirs + RANK) for one, theirs in zip(out, results[0]))
        sent = torch.arange(sum(range(RANKS + 1)) * 2).view(-1, 2) + 1000 * RANK  # rank r gets r + 1 rows
        for group in (gloo, ours):
            taken = sent.new_empty((RANK + 1) * RANKS, 2)
            dist.all_to_all_single(taken, sent, [RANK + 1] * RANKS, [rank + 1 for rank in range(RANKS)], group=group)
            begin = sum(range(RANK + 1))
            expected = torch.cat([torch.arange(2 * begin, 2 * (begin + RANK + 1)).view(-1, 2) + 1000 * rank for rank in range(RANKS)])
            assert torch.equal(taken, expected)
        dist.barrier(group=ours)


def test_tensors_that_are_not_contiguous():
    with groups("graticule"):
        base = numbers((6, 8), torch.float32)
        every = [None] * RANKS
        dist.all_gather_object(every, base)
        total = torch.stack(every).sum(0)
        for view in (lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:4, 2:5], lambda x: x.view(1, 2, 3, 8).to(memory_format=torch.channels_last)):
            x = view(base.clone())
            assert not x.is_contiguous() or x.dim() == 4
            dist.all_reduce(x)
            assert torch.equal(x, view(total))
            out = [view(torch.zeros_like(base)) for _ in range(RANKS)]
            dist.all_gather(out, view(base))
            assert all(torch.equal(one, view(other)) for one, other in zip(out, every))
            x = view(base.clone())
            dist.broadcast(x, RANKS - 1)
            assert torch.equal(x, view(every[-1]))


def test_messages_between_two_ranks():
    with groups("graticule") as (ours, gloo):
        left, right = (RANK - 1) % RANKS, (RANK + 1) % RANKS
        if RANKS == 1:
            return
        for numel in (1, 1000, 1 << 20):  # no order of blocking calls would be right for all ranks
            works = [dist.isend(torch.full((numel,), 10.0 * RANK + tag), right, tag=tag) for tag in (5, 3)]
            got = [torch.empty(numel) for _ in range(2)]
            works += [dist.irecv(x, left, tag=tag) for x, tag in zip(got, (3, 5))]
            for work in works:
                work.wait()
            assert (got[0] == 10 * left + 3).all() and (got[1] == 10 * left + 5).all()
        ops = [dist.P2POp(dist.isend, torch.tensor([RANK]), right), dist.P2POp(dist.irecv, got := torch.tensor([-1]), left)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert got.item() == left
        if RANK == 0:
            seen = set()
            for _ in range(RANKS - 1):
                x = torch.empty(2, 3).t()
                source = dist.recv(x)
                seen.add(source)
                assert (x == source).all()
            assert seen == set(range(1, RANKS))
        else:
            dist.send(torch.full((3, 2), float(RANK)), 0)
        dist.barrier()
        objects = [{"from": RANK}, None]
        if RANK == 0:
            dist.send_object_list([{"a": 1}], 1)
        elif RANK == 1:
            dist.recv_object_list(objects[:1], 0)
        objects = [RANK, "text" * RANK]
        dist.broadcast_object_list(objects, RANKS - 1)
        assert objects == [RANKS - 1, "text" * (RANKS - 1)]
        fails(lambda: dist.isend(torch.zeros(1), right, tag=-1), "BadArgument: tag must be in [0, ", "got -1")


def test_messages_with_one_tag_arrive_in_their_order():
    if RANKS == 1:
        return
    with groups("graticule"):
        for sources in ((0, 0, 0), (None, 0, None), (0, None, 0)):  # None: any
            for turn in range(150):  # a message that arrives while receives are looked at must not be the later one's
                if RANK == 0:
                    for i in range(3):
                        dist.send(torch.full((8,), 3.0 * turn + i), 1)
                elif RANK == 1:
                    taken = [torch.empty(8) for _ in sources]
                    for work in [dist.irecv(x, source) for x, source in zip(taken, sources)]:
                        work.wait()
                    assert [x[0].item() for x in taken] == [3 * turn, 3 * turn + 1, 3 * turn + 2], (sources, turn, taken)
        # A receive of any rank does not wait for an earlier one of a named rank.
        if RANK == 0 and RANKS > 2:
            later = dist.irecv(x := torch.empty(1), 1)
            assert dist.recv(y := torch.empty(1)) == 2 and y.item() == 2
            dist.send(y, 1)
            later.wait()
            assert x.item() == 1
        elif RANK == 1 and RANKS > 2:
            dist.recv(torch.empty(1), 0)
            dist.send(torch.ones(1), 0)
        elif RANK == 2:
            dist.send(torch.full((1,), 2.0), 0)


def test_works_proceed_in_any_order_of_waits_and_groups():
    with groups("graticule") as (ours, gloo):
        other = dist.new_group(backend="graticule")
        a, b = torch.full((100,), 1.0), torch.full((3,), 2.0)
        first = lambda: dist.all_reduce(a, group=ours, async_op=True)  # noqa: E731
        second = lambda: dist.all_reduce(b, group=other, async_op=True)  # noqa: E731
        begun = [first(), second()] if RANK % 2 == 0 else [second(), first()]
        for work in begun:
            work.wait()
        assert (a == RANKS).all() and (b == 2 * RANKS).all()
        # Many at once, awaited backwards.
        tensors = [torch.full((5 + i,), float(i)) for i in range(20)]
        works = [dist.all_reduce(x, async_op=True) for x in tensors]
        gathered = [torch.empty(RANKS) for _ in range(5)]
        works += [dist.all_gather_into_tensor(out, torch.tensor([float(RANK)]), async_op=True) for out in gathered]
        for work in reversed(works):
            assert work.wait()
            assert work.is_completed() and work.is_success()
        assert all((x == i * RANKS).all() for i, x in enumerate(tensors))
        assert all(torch.equal(out, torch.arange(float(RANKS))) for out in gathered)
        # By polling, and by futures.
        x = torch.ones(1000)
        work = dist.all_reduce(x, async_op=True)
        while not work.is_completed():
            pass
        assert (x == RANKS).all() and work.result()[0] is not None
        future = dist.all_reduce(x, async_op=True).get_future().then(lambda done: done.value()[0] / RANKS)
        assert torch.equal(future.wait(), torch.full((1000,), float(RANKS)))
        # A rank that is in a call of a domain meanwhile serves the others.
        domain = graticule.Domain(COMM)
        x = torch.ones(1000)
        work = dist.all_reduce(x, async_op=True)
        if RANK == 0:
            domain.barrier()
            work.wait()
        else:
            work.wait()
            domain.barrier()
        assert (x == RANKS).all()


def test_subgroups():
    with groups("graticule") as (ours, gloo):
        pairs = [[rank for rank in range(RANKS) if rank % 2 == odd] for odd in range(2)]
        made = [dist.new_group(ranks, backend="graticule") for ranks in pairs if ranks]
        mine = made[RANK % 2]
        x = torch.tensor([float(RANK)])
        dist.all_reduce(x, group=mine)
        assert x.item() == sum(pairs[RANK % 2])
        y = torch.tensor([RANK])
        dist.broadcast(y, pairs[RANK % 2][-1], group=mine)
        assert y.item() == pairs[RANK % 2][-1]
        # Only members make these, in an order of their own.
        ranks = pairs[RANK % 2]
        for _ in range(3):
            local = dist.new_group(ranks, backend="graticule", use_local_synchronization=True)
            x = torch.ones(1)
            dist.all_reduce(x, group=local)
            assert x.item() == len(ranks)
        # As many as MPI has no room for at the same time.
        for _ in range(100):
            group = dist.new_group(backend="graticule")
            x = torch.ones(3)
            dist.all_reduce(x, group=group)
            assert (x == RANKS).all()
            dist.destroy_process_group(group)
        fails(lambda: group.allreduce([x]), "WrongState", "was destroyed")


def test_bad_calls_are_named():
    with groups("graticule") as (ours, gloo):
        fails(lambda: dist.all_reduce(torch.ones(2), Op.BAND), "UnsupportedTensor", "Float")
        fails(lambda: dist.all_reduce(torch.ones(2, dtype=torch.float8_e4m3fn)), "UnsupportedTensor", "Float8_e4m3fn")
        fails(lambda: dist.all_gather_into_tensor(torch.ones(2 * RANKS + 1), torch.ones(2)), "")
        fails(lambda: dist.all_reduce(torch.eye(3).to_sparse()), "")
        fails(lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), Op.AVG), "UnsupportedTensor", "Bool")
        for dtype in (torch.uint16, torch.uint32, torch.uint64):  # which torch does not add
            fails(lambda: dist.all_reduce(torch.ones(2, dtype=dtype)), "UnsupportedTensor", "UInt")
        fails(lambda: dist.reduce_scatter(torch.ones(2, dtype=torch.bool), [torch.ones(2, dtype=torch.bool)] * RANKS, Op.AVG), "UnsupportedTensor", "Bool")
        fails(lambda: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(2 * RANKS), Op.BAND), "UnsupportedTensor", "Float")
        fails(lambda: dist.reduce_scatter(torch.ones(2), [torch.ones(3)] * RANKS), "a part of 3 elements for an output of 2")
        rows = [1] * RANKS
        fails(lambda: ours.alltoall_base(torch.ones(RANKS), torch.ones(RANKS), rows, rows + [0]), "one size per rank", f"got {RANKS + 1}")
        fails(lambda: ours.alltoall_base(torch.ones(RANKS), torch.ones(RANKS), rows, [RANKS + 1] + [0] * (RANKS - 2) + [-1]), "got") if RANKS > 1 else None
        theirs = [1 + (rank == RANK) for rank in range(RANKS)]
        fails(lambda: ours.alltoall_base(torch.ones(RANKS), torch.ones(RANKS + 1), rows, theirs), "a rank's part for itself")
        x = torch.ones(1)
        dist.all_reduce(x)  # the group is as before
        assert x.item() == RANKS
    fails(lambda: ours.allreduce([x]), "WrongState", "was destroyed")


def test_tensors_of_other_sizes_are_an_error_on_all_ranks():
    if RANKS == 1:
        return
    with groups("graticule") as (ours, gloo):
        for call in (lambda g: dist.all_reduce(torch.ones(1000 + 1000 * (RANK == 0)), group=g),
                     lambda g: dist.broadcast(torch.ones(2 + (RANK == 0)), 0, group=g),
                     lambda g: dist.all_gather_into_tensor(torch.ones((2 + (RANK == 0)) * RANKS), torch.ones(2 + (RANK == 0)), group=g)):
            group = dist.new_group(backend="graticule")
            try:
                call(group)
                dist.barrier(group=group)
            except RuntimeError as error:
                first = str(error)
            else:
                raise AssertionError("no error")
            fails(lambda: dist.barrier(group=group), first.splitlines()[0][:20])  # and the group stays unusable
        group = dist.new_group(backend="graticule")
        if RANK == 0:
            dist.send(torch.ones(5), 1, group=group)
        if RANK == 1:
            fails(lambda: dist.recv(torch.ones(6), 0, group=group), "ShapeMismatch", "sends 20 bytes", "24")


def test_a_wait_for_a_rank_that_does_not_come_ends():
    if RANKS == 1:
        return
    with groups("gloo") as (gloo, _):
        group = dist.new_group(backend="graticule", timeout=datetime.timedelta(seconds=1))
        if RANK == 0:
            fails(lambda: dist.all_reduce(torch.ones(1), group=group), "waits for an all-reduce", "timeout of 1")
        dist.barrier(group=gloo)


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 37), nn.Tanh(), nn.Sequential(nn.Linear(37, 11), nn.Tanh()), nn.Linear(11, 2))


def trained(wrap, group, steps=4):
    """The parameters after some steps, whole."""
    model = wrap(net(), group)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for step in range(steps):
        torch.manual_seed(10 * step + RANK)
        x = torch.randn(6, 5)
        optimizer.zero_grad()
        (model(x) - x[:, :2].sin()).square().mean().backward()
        optimizer.step()
    return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in model.parameters()]


def as_ddp(model, group):
    return nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.001)


def as_fsdp(model, group):
    from torch.distributed.fsdp import fully_shard
    mesh = DeviceMesh.from_group(group, "cpu")
    fully_shard(model[2], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def test_ddp_and_fsdp_train_as_with_gloo():
    with groups() as (gloo, ours):
        for wrap in (as_ddp, as_fsdp):
            expected, found, again = (trained(wrap, group) for group in (gloo, ours, ours))
            for a, b, c in zip(found, expected, again):
                close(a, b, 0 if RANKS <= 2 else 1e-5)
                assert torch.equal(a, c)  # the same bits in every run
    with groups("graticule") as (ours, gloo):
        for a, b in zip(trained(as_ddp, ours), trained(as_ddp, gloo)):
            close(a, b, 1e-5)


def test_dtensors_on_our_back_end():
    with groups("graticule"):
        mesh = init_device_mesh("cpu", (RANKS,))
        torch.manual_seed(0)
        x, w = torch.randn(7, 6, dtype=torch.double), torch.randn(6, 5, dtype=torch.double)
        product = torch.matmul(distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(w, mesh, [Replicate()]))
        close(product.full_tensor(), x @ w)
        product = torch.matmul(distribute_tensor(x, mesh, [Shard(1)]), distribute_tensor(w, mesh, [Shard(0)]))
        assert RANKS == 1 or product.placements == (Partial(),)
        close(product.redistribute(placements=[Shard(1)]).full_tensor(), x @ w)
        rows = distribute_tensor(x, mesh, [Shard(0)])
        close(rows.redistribute(placements=[Shard(1)]).full_tensor(), x)
        close(rows.sum().full_tensor(), x.sum())


def halves():
    """The data and the domain axis of a mesh of all ranks."""
    data = 2 if RANKS % 2 == 0 else 1
    return data, RANKS // data


def test_domains_and_teams_of_a_mesh():
    with groups("graticule"):
        data, parts = halves()
        mesh = init_device_mesh("cpu", (data, parts), mesh_dim_names=("data", "domain"))
        domain = graticule.Domain.from_mesh(mesh["domain"])
        assert (domain.num_ranks, domain.rank) == (parts, RANK % parts)
        team = graticule.team_of(mesh["data"])
        assert (team.size, team.rank) == (data, RANK // parts)
        assert graticule.team_of(mesh["data"]) is team
        both = graticule.Domain.from_mesh(mesh)
        assert both.grid == (data, parts) and both.part == (RANK // parts, RANK % parts)
        raises("BadProcessGrid", lambda: graticule.Domain.from_mesh(init_device_mesh("cpu", (RANKS, 1, 1))), "3 axes")
        # Another order of ranks.
        turned = DeviceMesh("cpu", list(reversed(range(RANKS))), mesh_dim_names=("domain",))
        domain = graticule.Domain.from_mesh(turned)
        assert domain.rank == RANKS - 1 - RANK
        sync = graticule.GradientSync(model := nn.Linear(2, 2), [(mesh["domain"], "sum"), (mesh["data"], "mean")])
        for p in model.parameters():
            p.grad = torch.full_like(p, float(RANK))
        sync.reduce()
        assert (model.weight.grad == sum(range(RANKS)) / data).all()
        graticule.DataParallel(nn.Linear(2, 2), [(turned, "mean")]).close()


def test_other_numbers_of_ranks_than_mpi_s_are_refused():
    if RANKS == 1:
        return
    turned = COMM.Split(0, -RANK)  # torch.distributed by hand, with ranks in another order
    store = dist.TCPStore("127.0.0.1", 0, RANKS, True, wait_for_workers=False) if RANK == 0 else None
    port = COMM.bcast(store.port if store else None)
    store = store or dist.TCPStore("127.0.0.1", port, RANKS, False)
    dist.init_process_group("gloo", store=store, rank=turned.rank, world_size=RANKS)
    try:
        mesh = init_device_mesh("cpu", (RANKS,))
        raises("ArgumentDisagreement", lambda: graticule.Domain.from_mesh(mesh), "torch.distributed calls rank", "init_process_group")
        fails(lambda: dist.new_group(backend="graticule"), "torch.distributed calls rank")
    finally:
        dist.destroy_process_group()
    turned.Free()
    # Its ranks may also be those of MPI.
    store = dist.TCPStore("127.0.0.1", 0, RANKS, True, wait_for_workers=False) if RANK == 0 else None
    port = COMM.bcast(store.port if store else None)
    store = store or dist.TCPStore("127.0.0.1", port, RANKS, False)
    dist.init_process_group("graticule", store=store, rank=RANK, world_size=RANKS)
    last = dist.new_group([RANKS - 1], backend="graticule")
    x = torch.tensor([RANK])
    dist.all_reduce(x)
    assert x.item() == sum(range(RANKS))
    if RANK == RANKS - 1:
        dist.all_reduce(x, group=last)
        assert x.item() == sum(range(RANKS))
    dist.destroy_process_group()


def test_process_groups_start_and_end_again():
    for comm in (None, COMM, COMM.py2f()):
        graticule.init_process_group(comm)
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (RANK, RANKS, "gloo")
        raises("WrongState", graticule.init_process_group, "destroy_process_group")
        dist.destroy_process_group()
    turned = COMM.Split(0, -RANK)
    with groups("graticule", turned):
        assert dist.get_rank() == RANKS - 1 - RANK
        domain = graticule.Domain.from_mesh(init_device_mesh("cpu", (RANKS,)))
        assert domain.rank == RANKS - 1 - RANK
        x = torch.tensor([RANK])
        dist.broadcast(x, 0)
        assert x.item() == RANKS - 1
    turned.Free()
    raises("BadOption", lambda: graticule.init_process_group(rank=3), "rank", "leave them out")
    raises("WrongState", lambda: graticule.init_process_group(backend="glue"), "glue")
    if RANKS > 1:
        raises("ArgumentDisagreement", lambda: graticule.init_process_group(backend="gloo" if RANK else "glue"), "glue", "gloo")
    assert not dist.is_initialized()


def test_an_error_is_printed_although_torch_collects_it():
    from graticule import _core
    abort, stderr, ended = _core.abort_all, sys.__stderr__, []
    with groups():  # torch.distributed has a hook around Graticule's, which ends all ranks
        try:
            _core.abort_all, sys.__stderr__ = ended.append, io.StringIO()
            sys.excepthook(ValueError, ValueError("what was wrong"), None)
            assert ended == ["ValueError: what was wrong"] and "ValueError: what was wrong" in sys.__stderr__.getvalue()
        finally:
            _core.abort_all, sys.__stderr__ = abort, stderr


if __name__ == "__main__":
    main(globals())
