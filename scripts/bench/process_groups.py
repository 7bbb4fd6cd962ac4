# SPDX-License-Identifier: BSD-3-Clause
"""process_groups.py TRIALS, under mpiexec: steps of DDP and FSDP2 over the back end "graticule" and over gloo in turn, least times of the slowest rank."""
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import graticule


class Products(nn.Module):
    """As little work for as many parameters as possible."""

    def __init__(self, numel):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(numel // 8)) for _ in range(8)])

    def forward(self, x):
        return sum((weight * x).sum() for weight in self.weights)


def with_ddp(numel, group):
    return nn.parallel.DistributedDataParallel(Products(numel), process_group=group), torch.ones(1)


def with_fsdp(numel, group):
    width = int((numel / 4) ** 0.5)
    model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(4)])
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh), torch.ones(1, width)


def step(model, x):
    model(x).sum().backward()
    model.zero_grad()


def seconds(action):
    dist.barrier()
    begin = time.perf_counter()
    action()
    worst = torch.tensor([time.perf_counter() - begin])
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return worst.item()


torch.set_num_threads(1)
graticule.init_process_group(backend="gloo")
groups = [dist.group.WORLD, dist.new_group(backend="graticule")]
for make in (with_ddp, with_fsdp):
    for megabytes in (1, 25):
        made = [make(megabytes << 18, group) for group in groups]
        least = [float("inf")] * 2
        for trial in range(3 + int(sys.argv[1])):
            for i, (model, x) in enumerate(made):
                taken = seconds(lambda: step(model, x))  # noqa: B023
                if trial >= 3:
                    least[i] = min(least[i], taken)
        if dist.get_rank() == 0:
            print(f"{make.__name__} {megabytes} MB: gloo {1e3 * least[0]:.2f} ms, graticule {1e3 * least[1]:.2f} ms, "
                  f"ratio {least[1] / least[0]:.2f}", flush=True)
dist.destroy_process_group()
