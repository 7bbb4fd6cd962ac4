# SPDX-License-Identifier: BSD-3-Clause
"""Fields as DTensors and back, from any cuts."""
import os
import random

import torch
import torch.distributed as dist
from support import COMM, RANK, RANKS, main, raises
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import graticule

TRIALS = int(os.environ.get("GRATICULE_TEST_TRIALS", "100"))


def grids():
    """Of ranks over latitude and longitude."""
    return [(RANKS, 1), (1, RANKS)] + ([(2, RANKS // 2)] if RANKS > 2 and RANKS % 2 == 0 else [])


def cut(generator, extent, parts):
    """Random sizes of parts of at least one cell, alike on all ranks."""
    places = sorted(generator.sample(range(1, extent), parts - 1))
    return [b - a for a, b in zip([0, *places], [*places, extent])]


def numbered(shape, dtype):
    total = 1
    for n in shape:
        total *= n
    return torch.arange(float(total)).view(shape).to(dtype)


def test_random_cuts_are_exact_in_both_directions():
    graticule.init_process_group(backend="graticule")
    generator = random.Random(7)
    moved = 0
    for trial in range(TRIALS):
        grid = generator.choice(grids())
        domain, mesh = DOMAINS.get(grid) or DOMAINS.setdefault(grid, made(grid))
        extents = [generator.randint(parts, parts + 11) for parts in grid]
        before = [cut(generator, n, parts) for n, parts in zip(extents, grid)]
        after = [cut(generator, n, parts) for n, parts in zip(extents, grid)]
        shape = [generator.randint(1, 3) for _ in range(generator.randint(0, 2))] + extents
        dtype = generator.choice([torch.float64, torch.float32])
        whole = numbered(shape, dtype)
        x = graticule.shard_of(whole, domain, *before).clone().requires_grad_()

        d = graticule.to_dtensor(x, domain, mesh)
        back = graticule.from_dtensor(d, domain, rows=after[0], columns=after[1])

        assert isinstance(d, DTensor) and d.shape == whole.shape
        assert torch.equal(d.full_tensor().detach(), whole), (grid, before)
        assert torch.equal(back.detach(), graticule.shard_of(whole, domain, *after)), (grid, before, after)
        moved += list(d.to_local().shape) != list(x.shape)
        weights = whole.flip(-1).flip(-2) + 1
        (back * graticule.shard_of(weights, domain, *after)).sum().backward()
        assert torch.equal(x.grad, graticule.shard_of(weights, domain, *before)), (grid, before, after)
        x.grad = None
        d = graticule.to_dtensor(x, domain, mesh)
        (d * distribute_tensor(weights, mesh, d.placements)).sum().full_tensor().backward()
        assert torch.equal(x.grad, graticule.shard_of(weights, domain, *before)), (grid, before)
    assert RANKS == 1 or moved > TRIALS // 10
    dist.destroy_process_group()


DOMAINS = {}


def made(grid):
    if min(grid) == 1:
        mesh = init_device_mesh("cpu", (RANKS,))
        return graticule.Domain.from_mesh(mesh, grid=grid), mesh
    mesh = init_device_mesh("cpu", grid)
    return graticule.Domain.from_mesh(mesh), mesh


def test_placements_are_those_that_dtensor_divides_by():
    graticule.init_process_group(backend="graticule")
    mesh = init_device_mesh("cpu", (RANKS,))
    domain = graticule.Domain.from_mesh(mesh)
    whole = numbered((2, 4 * RANKS + 1, 6), torch.float64)
    for placements in ([Shard(0)], [Shard(2)], [Replicate()], [Shard(1)]):
        d = distribute_tensor(whole, mesh, placements).requires_grad_()
        x = graticule.from_dtensor(d, domain)
        assert torch.equal(x.detach(), whole.chunk(RANKS, 1)[RANK])
        assert graticule.part_of(x, domain).rows.extent == whole.shape[1]
        (3 * x).sum().backward()
        assert torch.equal(d.grad.full_tensor(), torch.full_like(whole, 3))
    d = DTensor.from_local(whole.clone(), mesh, [Partial()], run_check=False)
    assert torch.equal(graticule.from_dtensor(d, domain), RANKS * whole.chunk(RANKS, 1)[RANK])
    # Fewer rows in the last parts than in the first, and none.
    short = numbered((1, RANKS + 1, 2), torch.float32)
    if RANKS > 2:
        assert min(len(part) for part in short.tensor_split(RANKS, 1)) > 0
    d = graticule.to_dtensor(graticule.shard_of(short, domain), domain, mesh)
    assert torch.equal(d.full_tensor(), short)
    assert torch.equal(graticule.from_dtensor(d, domain, rows=[2] + [1] * (RANKS - 1)), graticule.shard_of(short, domain, [2] + [1] * (RANKS - 1)))
    dist.destroy_process_group()


def test_another_mesh_than_the_domain_s_is_refused():
    graticule.init_process_group()
    mesh = init_device_mesh("cpu", (RANKS,))
    x = torch.zeros(1, 2, 3)
    domain = graticule.Domain(COMM)
    if RANKS > 1:
        turned = DeviceMesh("cpu", list(reversed(range(RANKS))))
        raises("ArgumentDisagreement", lambda: graticule.to_dtensor(x, domain, turned), "the mesh has the ranks", "Domain.from_mesh")
        raises("ArgumentDisagreement", lambda: graticule.to_dtensor(x, domain, init_device_mesh("cpu", (RANKS, 1, 1))), "[")
        if RANKS == 4:
            square = graticule.Domain(COMM, grid=(2, 2))
            raises("ArgumentDisagreement", lambda: graticule.to_dtensor(x, square, mesh), "a mesh of [4] ranks for a domain of [2, 2]")
    d = graticule.to_dtensor(x, domain, mesh)
    assert d.shape == (1, 2 * RANKS, 3)
    if RANKS > 1:
        other = [3, 1] + [2] * (RANKS - 2)
        raises("ArgumentDisagreement", lambda: graticule.from_dtensor(d, domain, rows=other if RANK == 0 else None), str(other), str([2] * RANKS))
    for call in (lambda: graticule.from_dtensor(x, domain), lambda: graticule.to_dtensor([1.0], domain, mesh)):
        try:
            call()
        except TypeError as error:
            assert "ensor" in str(error)
        else:
            raise AssertionError("no error")
    raises("UnsupportedTensor", lambda: graticule.from_dtensor(distribute_tensor(torch.ones(3), mesh, [Replicate()]), domain), "1 axes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(globals())
