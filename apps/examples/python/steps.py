# SPDX-License-Identifier: BSD-3-Clause
"""Steps of training on shards, shared by the scripts that train networks of public packages."""
import torch
import graticule  # before mpi4py
from mpi4py import MPI



def field(domain, *shape, seed=1):
    """This rank's rows of a smooth field with some noise, [..., rows, columns]; each rank makes what it would read of a file."""
    rows = torch.linspace(0, 3, shape[-2])[:, None]
    columns = torch.linspace(0, 6.28, shape[-1] + 1)[:-1]
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return graticule.shard_of(torch.sin(rows + columns) * torch.cos(seed * columns) + 0.1 * noise, domain)


def train(model, domain, loss_of, steps=5, rate=2e-3):
    """Prints the loss of each step, which is the same on any number of ranks. loss_of: () -> the loss of all ranks."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    sync = graticule.GradientSync(model, [(MPI.COMM_WORLD, "sum")])
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        sync.reduce()
        optimizer.step()
        if domain.rank == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
